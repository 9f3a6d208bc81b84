import type { WatchKey } from "../protocol/store.ts";

type KeyOf<Key> = Key extends Key ? keyof Key : never;
/** What may change. */
type WatchKind = KeyOf<WatchKey>;

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
  const watchers: Readonly<Record<WatchKind, Map<string, Set<Watcher>>>> = {
    log: new Map(),
    session: new Map(),
    task: new Map(),
    inbox: new Map(),
  };
  const kinds = Object.keys(watchers) as WatchKind[];
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
      const kind = kinds.find((one) => one in key) as WatchKind;
      const id = (key as Record<WatchKind, string>)[kind];
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
