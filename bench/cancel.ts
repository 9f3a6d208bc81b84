// How long a cancel takes: a lead with 20 agents on three levels below it, in every phase, on a SQLite store; from the
// call until every task has ended. Once from the process that works on them, once through a second connection to the
// store, as another process would. The models and the tools stop as soon as they are told.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { cancelTask } from "../src/agent/cancel.ts";
import { settingsBehind } from "../src/agent/settings.ts";
import { sqliteStore } from "../src/index.ts";
import { systemClock } from "../src/protocol/clock.ts";
import type { Store } from "../src/protocol/store.ts";
import { isTerminal } from "../src/protocol/task.ts";
import {
  cancelCast,
  descendants,
  type Phase,
  phases,
  workersIn,
} from "../test/harness/tasks/support/cancel-cast.ts";

const rounds = 5;
/** Milliseconds that a cancel may take, for tools that honour the signal. */
const limits = { here: 500, elsewhere: 2_000 };

const folder = mkdtempSync(join(tmpdir(), "rivulet-bench-"));
const path = join(folder, "store.db");
const store = sqliteStore(path);
const other = sqliteStore(path);

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await sleep(2);
}

async function hasEnded(rootTaskId: string): Promise<boolean> {
  const tasks = await store.tasks({ rootTaskId });
  return tasks.every(({ status }) => isTerminal(status));
}

/** Brings a tree into its phase, cancels it, and measures until all of it has ended. */
async function cancelOnce(phase: Phase, where: keyof typeof limits): Promise<number> {
  const cast = cancelCast(store, systemClock, phase);
  const run = cast.lead.run("Go.");
  run.result().catch(() => {});
  const { taskId, sessionId } = await run.task;
  const expected = JSON.stringify({ tasks: 1 + descendants, ...cast.expected });
  await until(async () => JSON.stringify(await workersIn(store, sessionId, cast)) === expected);
  const start = performance.now();
  if (where === "here") await run.cancel();
  else await cancelElsewhere(phase, taskId);
  await until(async () => cast.busy() === 0 && (await hasEnded(taskId)));
  const ms = performance.now() - start;
  await run.settled();
  return ms;
}

async function cancelElsewhere(phase: Phase, taskId: string): Promise<void> {
  const settings = settingsBehind(cancelCast(other as Store, systemClock, phase).lead);
  if (settings) await cancelTask(settings, taskId);
}

let held = true;
for (const where of ["here", "elsewhere"] as const) {
  console.log(`${where}, ${1 + descendants} agents: at most ${limits[where]} ms`);
  for (const phase of phases) {
    const times: number[] = [];
    for (let round = 0; round < rounds; round++) times.push(await cancelOnce(phase, where));
    times.sort((one, another) => one - another);
    const [median = 0, worst = 0] = [times[Math.floor(rounds / 2)], times.at(-1)];
    const ok = median <= limits[where];
    held &&= ok;
    const figures = `${median.toFixed(0)} ms, ${worst.toFixed(0)} at worst`;
    console.log(`  ${phase}: ${figures} ${ok ? "ok" : "TOO LONG"}`);
  }
}
await Promise.all([store.close(), other.close()]);
rmSync(folder, { recursive: true });
process.exitCode = held ? 0 : 1;
