import { join } from "node:path";
import { memoryStore } from "../../../src/store/memory.ts";
import { sqliteStore } from "../../../src/store/sqlite.ts";
import type { CreateStore } from "../../../src/testing.ts";
import { createFolder, removeFolder } from "./folder.ts";

/** A memory store for a contract. */
export const createMemoryStore: CreateStore = ({ clock }) => ({ store: memoryStore({ clock }) });

/** A SQLite store for a contract. */
export const createSqliteStore: CreateStore = ({ clock }) => {
  const folder = createFolder();
  const path = join(folder, "store.db");
  const store = sqliteStore(path, { clock });
  return {
    store,
    reopen: async () => {
      await store.close();
      return sqliteStore(path, { clock });
    },
    second: async () => sqliteStore(path, { clock }),
    dispose: async () => removeFolder(folder),
  };
};
