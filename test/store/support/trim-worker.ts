import { StatementSync } from "node:sqlite";
import { sqliteStore } from "../../../src/store/sqlite.ts";

// Trims all ended logs of a database, and kills itself before the given write of the trim.
const [, , path = "", killAt = "0"] = process.argv;
const trimWrites = /^\s*(UPDATE logs|INSERT OR REPLACE INTO snapshots|DELETE FROM (batches|ended))/;
let writes = 0;
let isTrimming = false;
const { run } = StatementSync.prototype;
StatementSync.prototype.run = function (this: StatementSync, ...values: never[]) {
  if (trimWrites.test(this.sourceSQL)) isTrimming = true;
  const isStep = trimWrites.test(this.sourceSQL) || (isTrimming && this.sourceSQL === "COMMIT");
  if (isStep && ++writes === Number(killAt)) process.kill(process.pid, "SIGKILL");
  return Reflect.apply(run, this, values);
} as typeof run;

const store = sqliteStore(path, { retention: { logs: { maxAgeMs: 0 } } });
const tasks = await store.tasks({});
for (const { taskId, rootTaskId } of tasks) {
  if (taskId !== rootTaskId) continue;
  while ((await store.snapshot(taskId))?.through !== (await store.last(taskId))) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
await store.close();
process.stdout.write(`${writes}\n`);
