import { join } from "node:path";
import { storeContract } from "../../src/store/contract.ts";
import { sqliteStore } from "../../src/store/sqlite.ts";
import { createFolder, removeFolder } from "./support/folder.ts";

storeContract("sqlite", async ({ clock }) => {
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
});
