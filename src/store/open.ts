import { resolve } from "node:path";
import { RivuletError } from "../base/error.ts";
import type { Store } from "../contract/index.ts";
import { memoryStore } from "./memory.ts";
import { sqliteStore } from "./sqlite.ts";

const sqlitePrefix = "sqlite:";

/** Open databases by path: all callers that name a path share one store until it is closed. */
const openStores = new Map<string, Store>();

/** Opens a store by name: `"memory"` or `"sqlite:path"`; returns an open store unchanged. */
export function openStore(store: Store | string): Store {
  if (typeof store !== "string") return store;
  if (store === "memory") return memoryStore();
  if (store.startsWith(sqlitePrefix) && store.length > sqlitePrefix.length) {
    return openNamed(resolve(store.slice(sqlitePrefix.length)));
  }
  throw new RivuletError("unknown_store", `Unknown store "${store}".`, {
    hint: 'Use "memory", "sqlite:path/to/file.db", or pass a store.',
  });
}

function openNamed(path: string): Store {
  const shared = openStores.get(path);
  if (shared !== undefined) return shared;
  const opened = sqliteStore(path);
  const store: Store = {
    ...opened,
    close() {
      if (openStores.get(path) === store) openStores.delete(path);
      return opened.close();
    },
  };
  openStores.set(path, store);
  return store;
}
