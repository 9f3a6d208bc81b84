import type { Commit, Store } from "../../../../src/protocol/store.ts";

/** What happened in a store, in the order in which it did. */
export interface Witness {
  /** Grows with everything that happens. */
  tick(): number;
  /** Commits, with the moment at which each was written. */
  readonly commits: { readonly at: number; readonly commit: Commit }[];
  /** When the inbox of a session was looked at. */
  readonly looks: { readonly at: number; readonly sessionId: string }[];
  /** How many watchers there are. */
  watchers: number;
}

/** A store that notes what is written and looked at; `onWritten` is called after each commit. */
export function watchedStore(store: Store, onWritten: (commit: Commit) => void) {
  let time = 0;
  const witness: Witness = { tick: () => ++time, commits: [], looks: [], watchers: 0 };
  const watched: Store = {
    ...store,
    async commit(commit) {
      await store.commit(commit);
      witness.commits.push({ at: witness.tick(), commit });
      onWritten(commit);
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
