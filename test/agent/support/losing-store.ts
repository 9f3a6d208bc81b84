import { memoryStore, RivuletError, type Store } from "../../../src/index.ts";

/** A store that its process loses for good. */
export interface LosingStore extends Store {
  /** How many commits were asked for. */
  readonly commits: number;
}

/** Lets the first `at` commits pass; the next one fails before it is written, or after, and so does all that follows. */
export function losingStore(store: Store, at: number, when: "before" | "after"): LosingStore {
  let commits = 0;
  const gone = () => new RivuletError("store_failed", "The store is gone.");
  return {
    ...store,
    get commits() {
      return commits;
    },
    async commit(commit) {
      const number = commits++;
      if (number < at) return store.commit(commit);
      if (number === at && when === "after") await store.commit(commit);
      throw gone();
    },
    async post(rows) {
      if (commits > at) throw gone();
      return store.post(rows);
    },
    async release(lease) {
      if (commits <= at) return store.release(lease);
    },
  };
}

/** A store whose leases end when the test says so. */
export function expiringStore(): { readonly store: Store; expire(): void } {
  let now = 0;
  return {
    store: memoryStore({ clock: { now: () => now } }),
    expire() {
      now += 60_000;
    },
  };
}
