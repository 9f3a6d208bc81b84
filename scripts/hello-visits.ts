// Runs a hello and prints, as JSON, the functions of src/agent that its call enters. `npm run walk` starts it in a fresh
// process. A worker observes the main thread through the inspector: V8 coverage says which functions ran, and
// breakpoints say in which order the files were entered.
import type { Debugger } from "node:inspector";
import { Session } from "node:inspector/promises";
import { isMainThread, type MessagePort, parentPort, Worker } from "node:worker_threads";

/** A file of src/agent that the call entered, with the first of its functions that ran. */
export interface Visit {
  readonly file: string;
  readonly firstFunction: string;
}

const folder = new URL("../src/agent/", import.meta.url).href;

async function sayHello(): Promise<void> {
  const { ReActAgent } = await import("../src/index.ts");
  const { scriptedModel } = await import("../src/testing.ts");
  const agent = new ReActAgent({ name: "hello", model: scriptedModel(["Hello."]) });
  const observer = new Worker(new URL(import.meta.url));
  await nextMessage(observer);
  await agent.call("Hello.");
  observer.postMessage("done");
  console.log(JSON.stringify(await nextMessage(observer)));
}

async function nextMessage(port: Worker | MessagePort): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  port.once("message", resolve);
  return promise;
}

/** Runs in the worker, because a thread cannot resume itself from a breakpoint. */
async function observe(port: MessagePort): Promise<void> {
  const done = nextMessage(port);
  const keepAlive = setInterval(() => {}, 1_000);
  const session = new Session();
  session.connectToMainThread();
  const visits = await recordFirstEntries(session);
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true });
  port.postMessage("ready");
  await done;
  const covered = await coveredFiles(session);
  const entered = visits.map(({ file }) => file);
  if (covered.join() !== entered.toSorted().join())
    throw new Error(`Breakpoints entered ${entered.toSorted()}, but coverage lists ${covered}.`);
  port.postMessage(visits);
  clearInterval(keepAlive);
}

/** Sets breakpoints at every statement of a file and removes them when the first is hit. */
async function recordFirstEntries(session: Session): Promise<readonly Visit[]> {
  const visits: Visit[] = [];
  const urls = new Map<string, string>();
  const breakpoints = new Map<string, readonly string[]>();
  session.on("Debugger.scriptParsed", ({ params }) => {
    if (params.url.startsWith(folder)) urls.set(params.scriptId, params.url);
  });
  session.on("Debugger.paused", async ({ params }) => {
    const scriptId = params.callFrames[0]?.location.scriptId ?? "";
    const file = urls.get(scriptId)?.slice(folder.length) ?? "";
    visits.push({ file, firstFunction: functionName(params.callFrames) });
    for (const breakpointId of breakpoints.get(scriptId) ?? [])
      session.post("Debugger.removeBreakpoint", { breakpointId });
    await session.post("Debugger.resume");
  });
  await session.post("Debugger.enable");
  for (const scriptId of urls.keys()) {
    const start = { scriptId, lineNumber: 0, columnNumber: 0 };
    const { locations } = await session.post("Debugger.getPossibleBreakpoints", { start });
    breakpoints.set(scriptId, await setBreakpoints(session, locations));
  }
  return visits;
}

/** V8 runs the field initializers of a class in a function of their own, called by the constructor. */
function functionName([frame, caller]: readonly Debugger.CallFrame[]): string {
  if (frame?.functionName === "<instance_members_initializer>")
    return `new ${caller?.functionName}`;
  return frame?.functionName || "an anonymous function";
}

async function setBreakpoints(
  session: Session,
  locations: readonly Debugger.BreakLocation[],
): Promise<readonly string[]> {
  const set = await Promise.allSettled(
    locations.map(({ scriptId, lineNumber, columnNumber }) =>
      session.post("Debugger.setBreakpoint", {
        location: { scriptId, lineNumber, columnNumber },
      }),
    ),
  );
  // The inspector rejects a second breakpoint at a location that it has moved.
  return set.flatMap((result) =>
    result.status === "fulfilled" ? [result.value.breakpointId] : [],
  );
}

/** Lists the files with a function that ran; the function at offset 0 is the module itself. */
async function coveredFiles(session: Session): Promise<readonly string[]> {
  const { result } = await session.post("Profiler.takePreciseCoverage");
  return result
    .filter(
      ({ url, functions }) =>
        url.startsWith(folder) &&
        functions.some(({ ranges: [range] }) => range && range.startOffset > 0 && range.count > 0),
    )
    .map(({ url }) => url.slice(folder.length))
    .sort();
}

if (isMainThread) await sayHello();
else if (parentPort !== null) await observe(parentPort);
