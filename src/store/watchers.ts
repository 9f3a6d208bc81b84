import type { CommittedEvents, Store, WatchKey } from "../contract/index.ts";
import { withoutKey } from "./rows.ts";

type KeyOf<Key> = Key extends Key ? keyof Key : never;
/** A kind of thing that watchers watch. */
type WatchKind = KeyOf<WatchKey>;

/** The watchers of a store in one process. */
export interface Watchers {
  watch: Store["watch"];
  /** Whether there is a watcher of a key. */
  has(kind: WatchKind, id: string): boolean;
  /**
   * Wakes the watchers of a key in the next microtask, once each, with what was committed to a log until then; the change
   * must be readable by then.
   */
  touch(kind: WatchKind, id: string, committed?: CommittedEvents): void;
  /** Wakes all watchers. */
  touchAll(): void;
  /** Wakes all watchers a last time and removes them. */
  close(): void;
}

const settled = Promise.resolve();
/** The inboxes of all sessions; no session has this id. */
export const allInboxes = "*";
interface Watcher {
  readonly wake: (committed?: CommittedEvents) => void;
  due: boolean;
  /** The events for its next wake; undefined while it is due: it must read. */
  committed: CommittedEvents | undefined;
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

  function schedule(watcher: Watcher, committed?: CommittedEvents): void {
    if (watcher.due) {
      watcher.committed = committed && watcher.committed && joined(watcher.committed, committed);
      return;
    }
    watcher.due = true;
    watcher.committed = committed;
    if (due.push(watcher) === 1) void settled.then(wakeAll); // queueMicrotask() also creates an async resource
  }

  function wakeAll(): void {
    const now = due;
    due = [];
    for (const watcher of now) {
      const { committed } = watcher;
      watcher.due = false;
      watcher.committed = undefined;
      if (watcher.stopped) continue;
      try {
        watcher.wake(committed);
      } catch {
        // A watcher that throws must not break the writer or other watchers.
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
      const kind = kinds.find((kind) => kind in key) as WatchKind;
      const id = (key as Record<WatchKind, string>)[kind];
      const watcher: Watcher = { wake, due: false, committed: undefined, stopped: false };
      const group = watchers[kind].get(id) ?? new Set();
      watchers[kind].set(id, group.add(watcher));
      return () => {
        watcher.stopped = true;
        group.delete(watcher);
        if (group.size > 0 || watchers[kind].get(id) !== group) return;
        watchers[kind] = withoutKey(watchers[kind], id);
      };
    },
    has: (kind, id) =>
      watchers[kind].has(id) || (kind === "inbox" && watchers.inbox.has(allInboxes)),
    touch(kind, id, committed) {
      const group = watchers[kind].get(id);
      if (group) for (const watcher of group) schedule(watcher, committed);
      const all = kind === "inbox" ? watchers.inbox.get(allInboxes) : undefined;
      if (all) for (const watcher of all) schedule(watcher);
    },
    touchAll,
    close() {
      touchAll();
      for (const byId of Object.values(watchers)) byId.clear();
    },
  };
}

/** Two lists as one; undefined if there is a gap between them. */
function joined(first: CommittedEvents, next: CommittedEvents): CommittedEvents | undefined {
  const { after, events } = first;
  const end = after + events.length;
  if (next.after + next.events.length <= end) return first;
  return next.after === end ? { after, events: [...events, ...next.events] } : undefined;
}
