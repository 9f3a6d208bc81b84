import { firstWritten, type Store, type Via } from "../contract/index.ts";

/** No filesystem on a store has a prefix that begins with `~`. */
const path = "~/store-id";

/** The random id of a store, the same for all processes that share it; servers find cycles with it. */
export async function storeIdOf(store: Store): Promise<string> {
  const create = () => new TextEncoder().encode(crypto.randomUUID());
  return new TextDecoder().decode(await firstWritten(store, path, create));
}

/** The servers that wait for a task which another server runs: those above its root here, and this one. */
export async function viaOf(store: Store, rootTaskId: string, depth: number): Promise<Via> {
  const [root, id] = await Promise.all([store.task(rootTaskId), storeIdOf(store)]);
  const { stores = [], depth: above = 0 } = root?.origin?.via ?? {};
  return { stores: [...stores, id], depth: above + depth };
}
