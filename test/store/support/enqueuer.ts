// Enqueues a task on each of `count` sessions, on even ones with ifIdle, and prints the number of stored tasks.
// node enqueuer.ts <path> <count>

import { sqliteStore } from "../../../src/store/sqlite.ts";
import { record } from "../../../src/testing/store-contract/samples.ts";

const [path = "", count = "0"] = process.argv.slice(2);
const store = sqliteStore(path);
let queued = 0;
for (let n = 0; n < Number(count); n++) {
  const task = record({ taskId: `remote_${n}`, sessionId: `sess_${n}`, status: "queued" });
  await new Promise((resolve) => setTimeout(resolve, Math.random() * 3));
  try {
    await store.enqueue(task, { ifIdle: n % 2 === 0 });
    queued += 1;
  } catch (error) {
    if ((error as { code?: string }).code !== "agent_busy") throw error;
  }
}
await store.close();
console.log(queued);
