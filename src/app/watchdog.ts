import { Worker } from "node:worker_threads";

/** How often the event loop reports that it turns, and how often the watchdog looks. */
const tickMs = 250;

/**
 * Runs in a thread of its own, which a blocked event loop does not block. It counts its own ticks: a process that was
 * stopped, or a machine that slept, has none, so neither counts as blocked.
 */
const code = `
  const { workerData: { state, maxTicks, text } } = require("node:worker_threads");
  let beat = -1;
  let ticks = 0;
  setInterval(() => {
    const now = Atomics.load(state, 0);
    const isInspected = Atomics.load(state, 1) === 1;
    ticks = now === beat && !isInspected ? ticks + 1 : 0;
    beat = now;
    if (ticks <= maxTicks) return;
    require("node:fs").writeSync(2, text);
    process.kill(process.pid, "SIGKILL");
  }, ${tickMs});
`;

/**
 * Ends this process when its event loop does not turn for longer than `maxMs`: nothing else could end it, and its leases
 * are over. A process under an inspector may stand still. Returns a function that stops the watchdog.
 */
export function startWatchdog(maxMs: number): () => void {
  const state = new Int32Array(new SharedArrayBuffer(8));
  const { url } = process.getBuiltinModule("node:inspector");
  const beat = () => {
    Atomics.add(state, 0, 1);
    Atomics.store(state, 1, url() === undefined ? 0 : 1);
  };
  beat();
  const timer = setInterval(beat, tickMs).unref();
  const text = `rivulet: the event loop was blocked for more than ${maxMs / 1_000} s; ending process ${process.pid}.\n`;
  const worker = new Worker(code, {
    eval: true,
    workerData: { state, maxTicks: Math.ceil(maxMs / tickMs), text },
    resourceLimits: { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 1 },
    env: {},
    execArgv: [],
  });
  worker.unref();
  return () => {
    clearInterval(timer);
    void worker.terminate();
  };
}
