import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { RivuletError } from "../base/error.ts";
import type { Flags } from "./flags.ts";

/** A server in a process of its own, which is started again whenever it dies. */
export interface Supervisor {
  readonly url: string;
  readonly token: string;
  /** The address of the page, with the token behind `#`. */
  readonly pageUrl: string;
  /** The names of the served agents. */
  readonly agents: readonly string[];
  /** Kills a process that runs tasks; resolves when the next one is there. */
  kill(): Promise<void>;
  /** Whether its process owns leases under this id. */
  isNode(nodeId: string): boolean;
  /** Ends the process: with SIGTERM its steps may end first. */
  close(signal?: string): Promise<void>;
}

/** The settings that the supervisor sends to the server process. */
export interface ServerSettings {
  readonly flags: Flags;
  /** True: runs tasks and serves nothing. */
  readonly isWorker?: true;
  /** A server that is started again keeps the address and the token of the first one. */
  readonly port?: number;
  readonly token?: string;
  /** The database that several processes share; a kill is then for one of the workers. */
  readonly databaseUrl?: string;
}

/** A message from the server process to the supervisor. */
export type ServerReport = Listening | ServerFailure;

/** A later message: a person on the page kills a worker, at best one that runs something. */
export interface KillRequest {
  readonly type: "kill";
  readonly nodeId: string | undefined;
}

interface Listening {
  readonly type: "listening";
  readonly url: string;
  readonly token: string;
  readonly pageUrl: string;
  readonly agents: readonly string[];
  /** The owner of its leases. */
  readonly nodeId: string;
}

interface ServerFailure {
  readonly type: "failed";
  readonly code: string;
  readonly message: string;
  readonly hint?: string;
}

/** Marks the process that serves. */
export const isServer = "RIVULET_SERVER";

/** More deaths than this in a row, each soon after the start, are a fault of the server. */
const maxQuickDeaths = 5;
const quickMs = 2_000;

/** How a server process is supervised. */
export interface SuperviseOptions {
  readonly settings: ServerSettings;
  /** Called when a person on the page kills a worker. */
  readonly onKill?: (nodeId: string | undefined) => void;
  /** Called after each restart with the time without a server and the reason of the death. */
  readonly onRestart: (ms: number, reason: string) => void;
  /** Whether the server may print; otherwise its errors are kept for the report of a failure. */
  readonly prints: boolean;
  /** Whether a second process waits, so that the next server listens at once. */
  readonly hasSpare: boolean;
}

/** Starts a server process and keeps it alive. */
export async function supervise(
  program: string,
  { settings: given, onKill, onRestart, prints, hasSpare }: SuperviseOptions,
): Promise<Supervisor> {
  let settings = given;
  let isClosing = false;
  let ownId = "";
  let quickDeaths = 0;
  let restarted = Promise.withResolvers<void>();
  const fork = () => forkServer(program, prints, given.databaseUrl);
  let current = fork();
  let spare: ServerProcess | undefined;

  async function start(): Promise<Listening> {
    const startedAt = performance.now();
    const { child, exited, errors } = current;
    child.send(settings);
    const message = once(child, "message").then(([report]) => report as ServerReport);
    const report = await Promise.race([message, exited]);
    if (typeof report === "string" || report.type !== "listening")
      throw serverFailed(report, errors());
    child.on("message", ({ type, nodeId }: KillRequest) => {
      if (type === "kill") onKill?.(nodeId);
    });
    ownId = report.nodeId;
    if (hasSpare) spare = fork();
    void exited.then((reason) => restart(performance.now() - startedAt, reason));
    return report;
  }

  async function restart(livedMs: number, reason: string): Promise<void> {
    if (isClosing) return;
    quickDeaths = livedMs < quickMs ? quickDeaths + 1 : 0;
    const diedAt = performance.now();
    const waiting = restarted;
    restarted = Promise.withResolvers();
    try {
      if (quickDeaths > maxQuickDeaths) throw new Error("it ends soon after each start");
      if (quickDeaths > 1) await sleep(100 * 2 ** quickDeaths);
      if (isClosing) return;
      current = spare ?? fork();
      await start();
      onRestart(performance.now() - diedAt, reason);
      waiting.resolve();
    } catch (error) {
      if (isClosing) return;
      const { message } = error as Error;
      process.stderr.write(`rivulet: the server cannot be started again: ${message}\n`);
      process.exit(1);
    }
  }

  const { url, token, pageUrl, agents } = await start();
  if (!settings.isWorker) settings = { ...settings, token, port: Number(new URL(url).port) };
  return {
    url,
    token,
    pageUrl,
    agents,
    async kill() {
      const { promise } = restarted;
      current.child.kill("SIGKILL");
      await promise;
    },
    isNode: (nodeId) => nodeId === ownId,
    async close(signal) {
      isClosing = true;
      spare?.child.kill("SIGKILL");
      if (signal === "SIGTERM") current.child.kill("SIGTERM");
      else if (current.child.connected) current.child.disconnect();
      await current.exited;
    },
  };
}

interface ServerProcess {
  readonly child: ChildProcess;
  /** Resolves to the reason of its end. */
  readonly exited: Promise<string>;
  /** The end of its stderr output, if it may not print. */
  errors(): string;
}

function forkServer(
  program: string,
  prints: boolean,
  databaseUrl = process.env.DATABASE_URL,
): ServerProcess {
  const child = fork(program, ["serve"], {
    env: { ...process.env, DATABASE_URL: databaseUrl, [isServer]: "1" },
    stdio: prints ? ["ignore", "inherit", "inherit", "ipc"] : ["ignore", "ignore", "pipe", "ipc"],
  });
  let errors = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    errors = `${errors}${text}`.slice(-4_000);
  });
  const exited = once(child, "exit").then(([code, signal]) =>
    signal === null ? `exit code ${code}` : `signal ${signal}`,
  );
  return { child, exited, errors: () => errors };
}

function serverFailed(report: ServerFailure | string, errors: string): RivuletError {
  if (typeof report !== "string") {
    const { code, message, hint } = report;
    return new RivuletError(code, message, hint === undefined ? {} : { hint });
  }
  const last = errors.trim().split("\n").at(-1) ?? "";
  return new RivuletError("server_failed", `The server process ended: ${last || report}.`);
}
