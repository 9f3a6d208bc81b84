// Watches a database and has nothing else to do, so it ends by itself.
// node watcher.ts <path>
import { sqliteStore } from "../../../src/store/sqlite.ts";

const store = sqliteStore(process.argv[2] ?? "");
store.watch({ log: "task_1" }, () => {});
await store.last("task_1");
