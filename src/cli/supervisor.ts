import { type ChildProcess, fork } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";
import { RivuletError } from "../protocol/error.ts";
import type { Flags } from "./arguments.ts";

/** A demo server in a process of its own, which is started again whenever it dies. */
export interface Supervisor {
  readonly url: string;
  readonly token: string;
  /** The address of the page, with the token behind `#`. */
  readonly pageUrl: string;
  /** Kills the server process; resolves when the next one listens. */
  kill(): Promise<void>;
  close(): Promise<void>;
}

/** The settings that the supervisor sends to the server process. */
export interface DemoSettings {
  readonly token: string;
  readonly port: number;
  readonly flags: Flags;
}

/** A message from the server process to the supervisor. */
export type DemoReport =
  | {
      readonly type: "listening";
      readonly url: string;
      readonly port: number;
      readonly pageUrl: string;
    }
  | {
      readonly type: "failed";
      readonly code: string;
      readonly message: string;
      readonly hint?: string;
    };

/** Marks the process that serves. */
export const servesDemo = "RIVULET_DEMO_SERVER";

const defaultPort = 8080;
/** More deaths than this in a row, each soon after the start, are a fault and not a demonstration. */
const maxQuickDeaths = 5;
const quickMs = 2_000;

/** Starts a server process and keeps it alive; `onRestart` gets the time without a server. */
export async function supervise(
  program: string,
  flags: Flags,
  port: number | undefined,
  onRestart: (ms: number) => void,
): Promise<Supervisor> {
  const token = randomBytes(32).toString("base64url");
  let settings: DemoSettings = { token, port: port ?? (await freePort(defaultPort)), flags };
  let isClosing = false;
  let quickDeaths = 0;
  let restarted = Promise.withResolvers<void>();
  let current = forkServer(program);
  // It has loaded everything and waits, so that the next server listens at once.
  let spare: ServerProcess | undefined;

  async function start(): Promise<Listening> {
    const startedAt = performance.now();
    const { child, exited, errors } = current;
    child.send(settings);
    const message = once(child, "message").then(([report]) => report as DemoReport);
    const report = await Promise.race([message, exited]);
    if (report?.type !== "listening") throw demoFailed(report, errors());
    spare = forkServer(program);
    void exited.then(() => restart(performance.now() - startedAt));
    return report;
  }

  async function restart(livedMs: number): Promise<void> {
    if (isClosing) return;
    quickDeaths = livedMs < quickMs ? quickDeaths + 1 : 0;
    const diedAt = performance.now();
    const waiting = restarted;
    restarted = Promise.withResolvers();
    try {
      if (quickDeaths > maxQuickDeaths) throw new Error("it ends soon after each start");
      current = spare ?? forkServer(program);
      await start();
      onRestart(performance.now() - diedAt);
      waiting.resolve();
    } catch (error) {
      const { message } = error as Error;
      process.stderr.write(`rivulet: the server cannot be started again: ${message}\n`);
      process.exit(1);
    }
  }

  const { url, port: bound, pageUrl } = await start();
  settings = { ...settings, port: bound };
  return {
    ...{ url, token, pageUrl },
    async kill() {
      const { promise } = restarted;
      const headers = { authorization: `Bearer ${token}` };
      await fetch(`${url}/v1/demo/kill`, { method: "POST", headers });
      await promise;
    },
    async close() {
      isClosing = true;
      spare?.child.kill("SIGKILL");
      current.child.kill("SIGTERM");
      await current.exited;
    },
  };
}

type Listening = Extract<DemoReport, { type: "listening" }>;

interface ServerProcess {
  readonly child: ChildProcess;
  readonly exited: Promise<undefined>;
  /** The end of its stderr output. */
  errors(): string;
}

function forkServer(program: string): ServerProcess {
  const child = fork(program, ["serve", "--demo"], {
    env: { ...process.env, [servesDemo]: "1" },
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  let errors = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    errors = `${errors}${text}`.slice(-4_000);
  });
  const exited = once(child, "exit").then(() => undefined);
  return { child, exited, errors: () => errors };
}

function demoFailed(report: Exclude<DemoReport, Listening> | undefined, errors: string) {
  if (report) {
    const { code, message, hint } = report;
    return new RivuletError(code, message, hint === undefined ? {} : { hint });
  }
  const last = errors.trim().split("\n").at(-1) ?? "";
  return new RivuletError(
    "server_failed",
    `The server process ended: ${last || "no reason given"}.`,
  );
}

/** The preferred port, or 0 (any) if another program uses it. */
async function freePort(preferred: number): Promise<number> {
  const server = createServer();
  try {
    await once(server.listen(preferred, "127.0.0.1"), "listening");
    return preferred;
  } catch {
    return 0;
  } finally {
    server.close();
  }
}
