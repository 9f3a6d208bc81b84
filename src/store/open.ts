import { RivuletError } from "../protocol/error.ts";
import type { Store } from "../protocol/store.ts";
import { memoryStore } from "./memory.ts";

/** A store as settings name it: one that is open already, or `"memory"`. */
export function openStore(store: Store | string): Store {
  if (typeof store !== "string") return store;
  if (store === "memory") return memoryStore();
  throw new RivuletError("unknown_store", `There is no store "${store}".`, {
    hint: 'Use "memory", or pass a store.',
  });
}
