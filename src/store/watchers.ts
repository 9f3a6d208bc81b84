import type { WatchKey } from "../protocol/store.ts";

/** What may change. */
type WatchKind = "log" | "session" | "task" | "inbox";

/** Who waits for a change of what, within one process. */
export interface Watchers {
  watch(key: WatchKey, wake: () => void): () => void;
  /** To be called once the change is visible: wakes in the next microtask, each watcher once. */
  touch(kind: WatchKind, id: string): void;
  /** The same for everyone, when it is not known what changed. */
  touchAll(): void;
  /** Wakes everyone a last time, so that whoever waits rereads and finds the store closed. */
  close(): void;
}

interface Watcher {
  readonly wake: () => void;
  due: boolean;
  stopped: boolean;
}

/** No watchers yet. */
export function createWatchers(): Watchers {
  const watchers = {
    log: new Map<string, Set<Watcher>>(),
    session: new Map<string, Set<Watcher>>(),
    task: new Map<string, Set<Watcher>>(),
    inbox: new Map<string, Set<Watcher>>(),
  };
  let due: Watcher[] = [];

  function schedule(watcher: Watcher): void {
    if (watcher.due) return;
    watcher.due = true;
    if (due.push(watcher) === 1) queueMicrotask(wakeAll);
  }

  function wakeAll(): void {
    const now = due;
    due = [];
    for (const watcher of now) {
      watcher.due = false;
      if (watcher.stopped) continue;
      try {
        watcher.wake();
      } catch {
        // A watcher's failure is its own: neither the writer nor the other watchers may suffer.
      }
    }
  }

  function touchAll(): void {
    for (const byId of Object.values(watchers)) {
      for (const group of byId.values()) for (const watcher of group) schedule(watcher);
    }
  }

  return {
    watch(key, wake) {
      const [[kind, id]] = Object.entries(key) as [[WatchKind, string]];
      const byId = watchers[kind];
      const watcher: Watcher = { wake, due: false, stopped: false };
      const group = byId.get(id) ?? new Set();
      byId.set(id, group.add(watcher));
      return () => {
        watcher.stopped = true;
        group.delete(watcher);
        if (group.size === 0 && byId.get(id) === group) byId.delete(id);
      };
    },
    touch(kind, id) {
      const group = watchers[kind].get(id);
      if (group) for (const watcher of group) schedule(watcher);
    },
    touchAll,
    close() {
      touchAll();
      for (const byId of Object.values(watchers)) byId.clear();
    },
  };
}
