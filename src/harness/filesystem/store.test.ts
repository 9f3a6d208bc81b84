import { memoryStore } from "../../store/index.ts";
import { filesystemContract } from "./contract.ts";
import { storeFilesystem } from "./store.ts";

filesystemContract("store", async (options) => {
  const store = memoryStore();
  return {
    filesystem: storeFilesystem(store, options),
    second: () => storeFilesystem(store, options),
    dispose: () => store.close(),
  };
});
