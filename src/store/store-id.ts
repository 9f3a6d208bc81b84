import { RivuletError } from "../base/error.ts";
import type { Store, Via } from "../contract/index.ts";

/** No filesystem on a store has a prefix that begins with `~`. */
const path = "~/store-id";

/** The random id of a store, the same for all processes that share it; servers find cycles with it. */
export async function storeIdOf(store: Store): Promise<string> {
  const stored = await store.files.get(path);
  if (stored) return new TextDecoder().decode(stored.data);
  const id = crypto.randomUUID();
  try {
    await store.files.put(path, new TextEncoder().encode(id), { ifVersion: 0 });
    return id;
  } catch (error) {
    // Another process was faster.
    if (error instanceof RivuletError && error.code === "conflict") return storeIdOf(store);
    throw error;
  }
}

/** The servers that wait for a task which another server runs: those above its root here, and this one. */
export async function viaOf(store: Store, rootTaskId: string, depth: number): Promise<Via> {
  const [root, id] = await Promise.all([store.task(rootTaskId), storeIdOf(store)]);
  const { stores = [], depth: above = 0 } = root?.origin?.via ?? {};
  return { stores: [...stores, id], depth: above + depth };
}
