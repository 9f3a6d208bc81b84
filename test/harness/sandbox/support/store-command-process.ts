import { storeFilesystem } from "../../../../src/harness/filesystem/store.ts";
import type { JailKind } from "../../../../src/harness/sandbox/jail.ts";
import { sqliteStore } from "../../../../src/index.ts";

// Runs a command on the files of ann in a store. With "hang", the first write after it never ends.
const [path = "", jail = "unsafe", script = "", hang] = process.argv.slice(2);
const store = sqliteStore(path);
const { files } = store;
const stuck = {
  get: files.get.bind(files),
  list: files.list.bind(files),
  delete: files.delete.bind(files),
  put() {
    process.send?.("writing");
    return new Promise<number>(() => setInterval(() => {}, 1_000));
  },
};
const sandbox = { jail: jail as JailKind, onWarning: () => {} };
const ann = storeFilesystem(hang ? { files: stuck } : store, { sandbox });
const result = await ann.within({ scope: "user", id: "ann" }).shell?.run(script);
process.send?.(result?.output ?? "");
await store.close();
process.disconnect?.();
