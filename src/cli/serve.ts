import { spawn } from "node:child_process";
import { RivuletError } from "../protocol/error.ts";
import { type Serving, serve } from "../server/index.ts";
import { type Arguments, numberFlag, usageError } from "./arguments.ts";
import { findConfig, loadProject, offlineLines } from "./config.ts";
import type { Console } from "./console.ts";
import { type DemoReport, type DemoSettings, supervise } from "./supervisor.ts";

/** The next server of the demo listens soon after a kill. */
const demoRetryMs = 400;

/** `rivulet serve`: serves the agents of a config until a signal ends it. */
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
  if (findConfig(config) === undefined)
    throw new RivuletError("config_not_found", "There is no rivulet.config.ts in this folder.", {
      hint: "Create one with rivulet init, or see the sample team with rivulet serve --demo.",
    });
  const project = await loadProject(
    { ...flags, ...(config !== undefined && { config }) },
    console.env,
  );
  const port = numberFlag("port", flags.port, 65_535);
  const server = await serve({
    ...{ page: true, prompts: true, ...project.options },
    ...{ agents: project.agents, store: project.store },
    ...(port !== undefined && { port }),
    ...(flags.host !== undefined && { host: flags.host }),
  });
  const { pageUrl = server.url } = server;
  console.note(`Rivulet serves ${project.agents.map(({ name }) => name).join(", ")}: ${pageUrl}`);
  if (flags.open) openBrowser(pageUrl, console);
  await untilSignal(console, () => server.close());
  await project.store.close();
  return 0;
}

/** `rivulet serve --demo`: serves the sample team, and starts the server again when it is killed. */
export async function serveDemo({ flags }: Arguments, console: Console): Promise<number> {
  const port = numberFlag("port", flags.port, 65_535);
  const supervisor = await supervise(console.program, flags, port, (ms) =>
    console.note(
      `The server was killed and is back after ${(ms / 1_000).toFixed(1)} s. Every agent continues where it was.`,
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
  await untilSignal(console, () => supervisor.close());
  return 0;
}

/** The server process of the demo: it ends with its supervisor. */
export async function serveForSupervisor(console: Console): Promise<number> {
  const report = (message: DemoReport, then = () => {}) => process.send?.(message, then);
  process.once("disconnect", () => process.exit(0));
  process.on("SIGINT", () => {}); // a terminal sends it to all processes; the supervisor decides
  const { token, port, flags } = await new Promise<DemoSettings>((resolve) =>
    process.once("message", (message) => resolve(message as DemoSettings)),
  );
  let server: Serving;
  try {
    const { agents, store } = await loadProject({ ...flags, demo: true }, console.env);
    const kill = () => process.kill(process.pid, "SIGKILL");
    server = await serve({
      ...{ agents, store, token, port, demo: { kill }, retryMs: demoRetryMs },
      ...{ page: !flags.terminal, prompts: true, log: false },
    });
  } catch (error) {
    const { code = "server_failed", message, hint } = error as RivuletError;
    const reason = { code, message, ...(hint !== undefined && { hint }) };
    report({ type: "failed", ...reason }, () => process.disconnect());
    return 2;
  }
  const { url, pageUrl = url } = server;
  report({ type: "listening", url, port: Number(new URL(url).port), pageUrl });
  await new Promise<void>((resolve) => process.once("SIGTERM", resolve));
  await server.close();
  process.disconnect?.();
  return 0;
}

/** Waits for a signal, then closes; a second signal ends the process at once. */
async function untilSignal(console: Console, close: () => Promise<void>): Promise<void> {
  await new Promise<void>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
      process.once(signal, () => resolve());
  });
  process.on("SIGINT", () => process.exit(130));
  console.note("Stopping. Running tasks stop at their last step and continue at the next start.");
  await close();
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
