// Watches a database; the process exits, because a watcher does not keep it alive.
// node watcher.ts <path>
import { sqliteStore } from "../../../src/store/sqlite.ts";

const store = sqliteStore(process.argv[2] ?? "");
store.watch({ log: "task_1" }, () => {});
await store.last("task_1");
