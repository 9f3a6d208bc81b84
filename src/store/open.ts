import { resolve } from "node:path";
import { RivuletError } from "../base/error.ts";
import type { Store } from "../contract/index.ts";
import { lazyStore } from "./lazy-store.ts";
import { memoryStore } from "./memory.ts";
import { sqliteStore } from "./sqlite.ts";

const sqlitePrefix = "sqlite:";
const postgresUrl = /^postgres(ql)?:\/\//;

/** Open databases by path or URL: all callers that name one share a store until it is closed. */
const openStores = new Map<string, Store>();

/** Opens a store by name: `"memory"`, `"sqlite:path"` or `"postgres://…"`; returns an open store unchanged. */
export function openStore(store: Store | string): Store {
  if (typeof store !== "string") return store;
  if (store === "memory") return memoryStore();
  if (store.startsWith(sqlitePrefix) && store.length > sqlitePrefix.length) {
    const path = resolve(store.slice(sqlitePrefix.length));
    return openNamed(path, () => sqliteStore(path));
  }
  if (postgresUrl.test(store)) return openNamed(store, () => lazyPostgresStore(store));
  // A mistyped URL may have a password.
  const shown = store.replace(/\/\/.*@/, "//***@");
  throw new RivuletError("unknown_store", `Unknown store "${shown}".`, {
    hint: 'Use "memory", "sqlite:path/to/file.db", "postgres://host/database", or pass a store.',
  });
}

function openNamed(name: string, open: () => Store): Store {
  const shared = openStores.get(name);
  if (shared !== undefined) return shared;
  const opened = open();
  const store: Store = {
    ...opened,
    close() {
      if (openStores.get(name) === store) openStores.delete(name);
      return opened.close();
    },
  };
  openStores.set(name, store);
  return store;
}

/** Loads the code with the first call: other programs do without it. */
function lazyPostgresStore(url: string): Store {
  return lazyStore(async () => (await import("./postgres/index.ts")).postgresStore(url));
}

/** Reads which changes the tables of a PostgreSQL database need; with `apply`, makes them. */
export async function migrateTables(
  database: { readonly url: string; readonly schema?: string },
  options: { readonly apply: boolean },
): Promise<{ readonly from: number; readonly to: number; readonly sql: string }> {
  return (await import("./postgres/index.ts")).migrateDatabase(database, options);
}
