// Measures how long a cancel takes, from the call until every task has ended: a lead with 20 agents on three levels, in
// every phase, on a SQLite store. "here" cancels in the process that drives the tasks; "elsewhere" cancels through a
// second connection, like another process. Models and tools stop as soon as they receive the signal.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../src/base/clock.ts";
import type { Store } from "../src/contract/store.ts";
import { sqliteStore } from "../src/index.ts";
import { isTerminal } from "../src/protocol/task.ts";
import {
  cancelCast,
  descendants,
  type Phase,
  phases,
  workersIn,
} from "../test/harness/tasks/support/cancel-cast.ts";

const rounds = 5;
/** Limits in milliseconds, for tools that honour the signal. */
const limits = { here: 500, elsewhere: 2_000 };

const folder = mkdtempSync(join(tmpdir(), "rivulet-bench-"));
const path = join(folder, "store.db");
const store = sqliteStore(path);
const secondConnection = sqliteStore(path);

async function waitUntil(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(2);
}

async function hasEnded(rootTaskId: string): Promise<boolean> {
  const tasks = await store.tasks({ rootTaskId });
  return tasks.every(({ status }) => isTerminal(status));
}

/** Runs a tree of agents into a phase, cancels it, and returns the time until all of it has ended. */
async function cancelOnce(phase: Phase, where: keyof typeof limits): Promise<number> {
  const cast = cancelCast(store, systemClock, phase);
  const run = cast.lead.run("Go.");
  run.result().catch(() => {});
  const { taskId, sessionId } = await run.task;
  const expected = JSON.stringify({ tasks: 1 + descendants, ...cast.expected });
  await waitUntil(async () => JSON.stringify(await workersIn(store, sessionId, cast)) === expected);
  const start = performance.now();
  if (where === "here") await run.cancel();
  else await cancelElsewhere(phase, taskId);
  await waitUntil(async () => cast.busy() === 0 && (await hasEnded(taskId)));
  const ms = performance.now() - start;
  await run.settled();
  return ms;
}

async function cancelElsewhere(phase: Phase, taskId: string): Promise<void> {
  const { lead } = cancelCast(secondConnection as Store, systemClock, phase);
  await lead.attach({ taskId }).cancel();
}

let isWithinLimits = true;
for (const where of ["here", "elsewhere"] as const) {
  console.log(`${where}, ${1 + descendants} agents: limit ${limits[where]} ms`);
  for (const phase of phases) {
    const times: number[] = [];
    for (let round = 0; round < rounds; round++) times.push(await cancelOnce(phase, where));
    times.sort((a, b) => a - b);
    const [median = 0, worst = 0] = [times[Math.floor(rounds / 2)], times.at(-1)];
    const ok = median <= limits[where];
    isWithinLimits &&= ok;
    const figures = `median ${median.toFixed(0)} ms, worst ${worst.toFixed(0)} ms`;
    console.log(`  ${phase}: ${figures} ${ok ? "ok" : "TOO LONG"}`);
  }
}
await Promise.all([store.close(), secondConnection.close()]);
rmSync(folder, { recursive: true });
process.exitCode = isWithinLimits ? 0 : 1;
