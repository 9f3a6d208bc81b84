import type { WatchKey } from "../contract/index.ts";
import { withoutKey } from "./rows.ts";

type KeyOf<Key> = Key extends Key ? keyof Key : never;
/** A kind of thing that watchers watch. */
type WatchKind = KeyOf<WatchKey>;

/** The watchers of a store in one process. */
export interface Watchers {
  watch(key: WatchKey, wake: () => void): () => void;
  /** Whether there is a watcher of a key. */
  has(kind: WatchKind, id: string): boolean;
  /** Wakes the watchers of a key in the next microtask, once each; the change must be readable by then. */
  touch(kind: WatchKind, id: string): void;
  /** Wakes all watchers. */
  touchAll(): void;
  /** Wakes all watchers a last time and removes them. */
  close(): void;
}

const settled = Promise.resolve();
interface Watcher {
  readonly wake: () => void;
  due: boolean;
  stopped: boolean;
}

/** A table without watchers. */
export function createWatchers(): Watchers {
  const watchers: Record<WatchKind, Map<string, Set<Watcher>>> = {
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
    if (due.push(watcher) === 1) void settled.then(wakeAll); // queueMicrotask() also creates an async resource
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
        // A watcher that throws must not break the writer or other watchers.
      }
    }
  }

  function touchAll(): void {
    for (const byId of Object.values(watchers)) {
      for (const group of byId.values()) group.forEach(schedule);
    }
  }

  return {
    watch(key, wake) {
      const kind = kinds.find((kind) => kind in key) as WatchKind;
      const id = (key as Record<WatchKind, string>)[kind];
      const watcher: Watcher = { wake, due: false, stopped: false };
      const group = watchers[kind].get(id) ?? new Set();
      watchers[kind].set(id, group.add(watcher));
      return () => {
        watcher.stopped = true;
        group.delete(watcher);
        if (group.size > 0 || watchers[kind].get(id) !== group) return;
        watchers[kind] = withoutKey(watchers[kind], id);
      };
    },
    has: (kind, id) => watchers[kind].has(id),
    touch(kind, id) {
      watchers[kind].get(id)?.forEach(schedule);
    },
    touchAll,
    close() {
      touchAll();
      for (const byId of Object.values(watchers)) byId.clear();
    },
  };
}
