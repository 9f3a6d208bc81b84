import { resolve } from "node:path";
import { RivuletError } from "../protocol/error.ts";
import type { Store } from "../protocol/store.ts";
import { memoryStore } from "./memory.ts";
import { sqliteStore } from "./sqlite.ts";

const sqlitePrefix = "sqlite:";

/** Databases that were opened by their name, by path: who names the same one shares it until it is closed. */
const named = new Map<string, Store>();

/** A store as settings name it: one that is open already, `"memory"`, or `"sqlite:path"`. */
export function openStore(store: Store | string): Store {
  if (typeof store !== "string") return store;
  if (store === "memory") return memoryStore();
  if (store.startsWith(sqlitePrefix) && store.length > sqlitePrefix.length) {
    return openNamed(resolve(store.slice(sqlitePrefix.length)));
  }
  throw new RivuletError("unknown_store", `There is no store "${store}".`, {
    hint: 'Use "memory", "sqlite:path/to/file.db", or pass a store.',
  });
}

function openNamed(path: string): Store {
  const known = named.get(path);
  if (known !== undefined) return known;
  const opened = sqliteStore(path);
  const store: Store = {
    ...opened,
    close() {
      if (named.get(path) === store) named.delete(path);
      return opened.close();
    },
  };
  named.set(path, store);
  return store;
}
