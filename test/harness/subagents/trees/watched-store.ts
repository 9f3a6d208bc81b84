import type { Commit, Store } from "../../../../src/contract/store.ts";

/** The operations of a store, in order. */
export interface Witness {
  /** Increases with every operation. */
  tick(): number;
  /** Commits, with the moment at which each was written. */
  readonly commits: { readonly at: number; readonly commit: Commit }[];
  /** When the inbox of a session was read. */
  readonly looks: { readonly at: number; readonly sessionId: string }[];
  /** How many watchers there are. */
  watchers: number;
}

/** Records commits and inbox reads of a store; calls `onWritten` after each commit. */
export function watchedStore(store: Store, onWritten: (commit: Commit) => void) {
  let time = 0;
  const witness: Witness = { tick: () => ++time, commits: [], looks: [], watchers: 0 };
  const watched: Store = {
    ...store,
    async commit(commit) {
      const written = await store.commit(commit);
      witness.commits.push({ at: witness.tick(), commit });
      onWritten(commit);
      return written;
    },
    posts(query) {
      if (query.sessionId !== undefined) {
        witness.looks.push({ at: witness.tick(), sessionId: query.sessionId });
      }
      return store.posts(query);
    },
    watch(key, wake) {
      const unwatch = store.watch(key, wake);
      witness.watchers += 1;
      let isWatching = true;
      return () => {
        if (isWatching) witness.watchers -= 1;
        isWatching = false;
        unwatch();
      };
    },
  };
  return { store: watched, witness };
}
