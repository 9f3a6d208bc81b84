import { spawn } from "node:child_process";
import { once } from "node:events";
import { processOf } from "../agent/index.ts";
import { type ServeOptions, type Serving, serve } from "../app/index.ts";
import { RivuletError } from "../base/error.ts";
import type { Store } from "../contract/index.ts";
import { taskRunner } from "../harness/index.ts";
import { type Arguments, numberFlag, usageError } from "./arguments.ts";
import { findConfig, loadProject, offlineLines, type Project } from "./config.ts";
import type { Console } from "./console.ts";
import { freePort } from "./embedded-postgres.ts";
import type { Flags } from "./flags.ts";
import { superviseNodes } from "./nodes.ts";
import {
  type KillRequest,
  type ServerReport,
  type ServerSettings,
  type Supervisor,
  supervise,
} from "./supervisor.ts";

const demoPort = 8080;
/** How long the steps of a process that gets SIGTERM may take to end: less than service managers wait. */
const graceMs = 20_000;
/** The next server of the demo listens soon after a kill. */
const demoRetryMs = 400;

/** `rivulet serve`: serves the agents of a config until a signal ends it, and starts the server again when it dies. */
export async function serveProject(
  { operands, flags }: Arguments,
  console: Console,
): Promise<number> {
  const [config = flags.config, ...rest] = operands;
  if (rest.length > 0)
    throw usageError(
      "rivulet serve takes one config.",
      'To ask the demo, add --demo: rivulet serve --demo "…".',
    );
  if (findConfig(config) === undefined) throw noConfig();
  const port = numberFlag("port", flags.port, 65_535);
  const supervisor = await superviseNodes(console, {
    settings: {
      flags: config === undefined ? flags : { ...flags, config },
      ...(port !== undefined && { port }),
    },
    onRestart: (ms, reason) =>
      console.note(`The server process ended (${reason}) and is back after ${seconds(ms)}.`),
    prints: true,
    hasSpare: false,
  });
  const { pageUrl, agents } = supervisor;
  console.note(`Rivulet serves ${agents.join(", ")}: ${pageUrl}`);
  if (flags.open) openBrowser(pageUrl, console);
  await untilSignal(console, (signal) => supervisor.close(signal));
  return 0;
}

/** `rivulet worker`: runs the tasks of the store until a signal ends it, and starts again when it dies. */
export async function startWorker(
  { operands, flags }: Arguments,
  console: Console,
): Promise<number> {
  const [config = flags.config] = operands;
  if (findConfig(config) === undefined) throw noConfig();
  const supervisor = await supervise(console.program, {
    settings: { flags: config === undefined ? flags : { ...flags, config }, isWorker: true },
    onRestart: (ms, reason) =>
      console.note(`The worker process ended (${reason}) and is back after ${seconds(ms)}.`),
    prints: true,
    hasSpare: false,
  });
  console.note(`Rivulet runs the tasks of ${supervisor.agents.join(", ")}.`);
  await untilSignal(console, (signal) => supervisor.close(signal));
  return 0;
}

function noConfig(): RivuletError {
  return new RivuletError("config_not_found", "There is no rivulet.config.ts in this folder.", {
    hint: "Create one with rivulet init, or see the sample team with rivulet serve --demo.",
  });
}

/** `rivulet serve --demo`: serves the sample team. */
export async function serveDemo({ flags }: Arguments, console: Console): Promise<number> {
  const port = numberFlag("port", flags.port, 65_535) ?? (await freePort(demoPort));
  const who = flags.postgres === undefined ? "server" : "process";
  const supervisor = await superviseDemo(console, flags, port, (ms) =>
    console.note(
      `The ${who} was killed and is back after ${seconds(ms)}. Every agent continues where it was.`,
    ),
  );
  for (const line of flags.model === undefined && !console.env.RIVULET_MODEL
    ? offlineLines(console.env)
    : [])
    console.note(line);
  console.note(
    `\nOpen ${supervisor.pageUrl}\n\nThe address contains the key to this server, which works on this machine only. Ctrl-C stops it.`,
  );
  if (flags.open !== false) openBrowser(supervisor.pageUrl, console);
  await untilSignal(console, (signal) => supervisor.close(signal));
  return 0;
}

/** Starts the server of the demo; its output would break the screen of a terminal. */
export function superviseDemo(
  console: Console,
  flags: Flags,
  port: number,
  onRestart: (ms: number) => void,
): Promise<Supervisor> {
  const settings = { flags: { ...flags, demo: true }, port };
  return superviseNodes(console, { settings, onRestart, prints: false, hasSpare: true });
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

/** The server process: it ends with its supervisor. */
export async function serveForSupervisor(console: Console): Promise<number> {
  const report = (message: ServerReport, then = () => {}) => process.send?.(message, then);
  // A service manager lets steps end; a person at the terminal, who presses Ctrl-C, does not wait.
  const asked = new Promise<number>((resolve) => {
    process.once("disconnect", () => resolve(0));
    process.once("SIGTERM", () => resolve(graceMs));
  });
  for (const signal of ["SIGINT", "SIGHUP"] as const) process.on(signal, () => {}); // the supervisor decides
  const given = await Promise.race([
    once(process, "message").then(([message]) => message as ServerSettings),
    asked,
  ]);
  if (typeof given === "number") return 0;
  let server: Pick<Serving, "url" | "token" | "pageUrl" | "close">;
  let project: Project;
  try {
    project = await loadProject(given.flags, console.env);
    assertStore(project, given.databaseUrl);
    await project.store.tasks({ limit: 1 }); // a database that this version cannot use is reported now
    server = given.isWorker ? work(project) : await serve(serveOptions(project, given));
  } catch (error) {
    const { code = "server_failed", message, hint } = error as RivuletError;
    const reason = { code, message, ...(hint !== undefined && { hint }) };
    report({ type: "failed", ...reason }, () => process.disconnect?.());
    return 2;
  }
  const { url, token, pageUrl = url } = server;
  report({
    type: "listening",
    url,
    token,
    pageUrl,
    agents: project.agents.map(({ name }) => name),
    nodeId: processOf(project.store).id,
  });
  await server.close({ graceMs: await asked });
  await project.store.close();
  if (process.connected) process.disconnect();
  return 0;
}

/** Throws if the agents do not use the database that their processes share. */
function assertStore({ store, path }: Project, url: string | undefined): void {
  if (url === undefined || store.isShared) return;
  throw new RivuletError("invalid_config", `${path} does not use the database of --postgres.`, {
    hint: 'Write `store: process.env.DATABASE_URL ?? "sqlite:.rivulet/rivulet.db"` in the config.',
  });
}

/** Runs the tasks of the store; it has no address. */
function work({ agents, store }: Project): Pick<Serving, "url" | "token" | "close"> {
  if (store.memory)
    throw new RivuletError("invalid_settings", "A worker needs a store that processes share.", {
      hint: 'Set `store: "postgres://…"` or `store: "sqlite:…"` in the config.',
    });
  const runner = taskRunner({
    agents,
    onProblem: (sessionId, error) =>
      process.stderr.write(`rivulet: ${sessionId} ${(error as Error).message}\n`),
  });
  runner.start();
  // Nothing else keeps the process alive while there is no work.
  const timer = setInterval(() => {}, 60_000);
  const close: Serving["close"] = async (options) => {
    clearInterval(timer);
    await runner.shutDown(options);
  };
  return { url: "", token: "", close };
}

function serveOptions({ options, agents, store }: Project, settings: ServerSettings): ServeOptions {
  const { flags, port, token, databaseUrl } = settings;
  const kill =
    databaseUrl === undefined
      ? () => process.kill(process.pid, "SIGKILL")
      : async () => {
          const nodeId = await busiestNode(store);
          process.send?.({ type: "kill", nodeId } satisfies KillRequest);
        };
  const demo = {
    page: !flags.terminal,
    log: false as const,
    demo: { kill },
    retryMs: demoRetryMs,
  };
  return {
    page: true,
    prompts: true,
    watchdog: true,
    ...(flags.demo ? demo : options),
    agents,
    store,
    ...(port !== undefined && { port }),
    ...(token && { token }),
    ...(flags.host !== undefined && { host: flags.host }),
    ...(flags.run !== undefined && { run: flags.run }),
  };
}

/** The process that runs most, as far as the store has heard. */
async function busiestNode(store: Store): Promise<string | undefined> {
  const nodes = (await store.nodes?.()) ?? [];
  const [busiest] = nodes
    .filter(({ isLive, conversations }) => isLive && conversations.length > 0)
    .toSorted((one, other) => other.conversations.length - one.conversations.length);
  return busiest?.nodeId;
}

type EndingSignal = "SIGINT" | "SIGTERM" | "SIGHUP";

/** Waits for a signal, then closes; a second signal ends the process at once. */
async function untilSignal(
  console: Console,
  close: (signal: EndingSignal) => Promise<void>,
): Promise<void> {
  const signal = await new Promise<EndingSignal>((resolve) => {
    for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
      process.once(name, () => resolve(name));
  });
  process.on("SIGINT", () => process.exit(130));
  console.note("Stopping. Running tasks stop at their last step and continue at the next start.");
  await close(signal);
}

/** Opens a page in the browser of this machine, if it has one. */
function openBrowser(url: string, { env, isTerminal }: Console): void {
  const isRemote = env.SSH_CONNECTION !== undefined || env.CI !== undefined;
  const hasDisplay = process.platform !== "linux" || env.DISPLAY || env.WAYLAND_DISPLAY;
  if (!isTerminal || isRemote || !hasDisplay) return;
  const [command, ...args] =
    process.platform === "darwin"
      ? ["open"]
      : process.platform === "win32"
        ? ["cmd", "/c", "start", ""]
        : ["xdg-open"];
  const child = spawn(command as string, [...args, url], { stdio: "ignore", detached: true });
  child.on("error", () => {}); // the address is printed
  child.unref();
}
