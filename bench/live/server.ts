// The server of a measurement: `node server.ts <side> <options as JSON>`. It tells its parent where it listens, and
// answers its requests.
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { ServerMark, ServerMemory, ServerRequest } from "./messages.ts";
import type { Start } from "./side.ts";
import { monotonicMs, startWheel, stopWheel, wheel } from "./wheel.ts";

const [name, options = "{}"] = process.argv.slice(2);
const { start } = (await import(`./${name}.ts`)) as { readonly start: Start };
const listening = await start(JSON.parse(options));
const delay = monitorEventLoopDelay({ resolution: 5 });
delay.enable();

function mark(): ServerMark {
  const { user, system } = process.cpuUsage();
  const stallMs = delay.max / 1e6;
  delay.reset();
  return { at: monotonicMs(), cpuMicros: user + system, produced: wheel.produced, stallMs };
}

function memory(): ServerMemory {
  for (let pass = 0; pass < 2; pass++) globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heapBytes: heapUsed + external, rssBytes: rss };
}

process.on("message", (request: ServerRequest) => {
  if (request.op === "exit") process.exit(0);
  if (request.op === "go") startWheel(request.speed);
  if (request.op === "stop") stopWheel();
  process.send?.(request.op === "memory" ? memory() : mark());
});
process.on("disconnect", () => process.exit(0));
// A reader that leaves is no failure of its server.
process.on("unhandledRejection", () => {});
process.send?.(listening);
