import { rivuletErrorOf } from "../base/error.ts";
import * as is from "../base/options.ts";
import { readArgument, readOptions } from "../base/options.ts";
import type { Run } from "../contract/index.ts";
import { emptyTree, type TaskEvent, TaskTree, type Tree } from "../protocol/index.ts";
import type { Connection } from "./reader.ts";
import { RemoteRun } from "./remote-run.ts";

/** A run as a page shows it. */
export interface TaskStoreSnapshot {
  /** The tasks. A task that has not changed is the same object as in the snapshot before. */
  readonly tree: Tree;
  readonly connection: Connection;
}

/** A run as an external store, for React, Vue, Svelte and others. */
export interface TaskStore {
  /** Calls back after each change, at most once per frame; the run is followed while there is a subscriber. */
  subscribe(onChange: () => void): () => void;
  /** The state after the last change; the same object until the next one. */
  getSnapshot(): TaskStoreSnapshot;
}

/** How a store reads a run and batches its updates. */
export interface TaskStoreOptions {
  /** Runs `update` with the next frame; defaults to `requestAnimationFrame`, or a timer where there is none. */
  readonly schedule?: (update: () => void) => void;
  /** `now`: a remote run begins with a snapshot of its tasks instead of all its events; good for long logs. */
  readonly from?: "now";
  /** Called with every event, before the update that shows it. */
  readonly onEvent?: (event: TaskEvent) => void;
}

/** The longest time between two updates; a hidden page has no frames. */
const maxFrameMs = 250;

/** Creates a store that folds the events of a run. */
export function createTaskStore(run: Run<unknown>, options: TaskStoreOptions = {}): TaskStore {
  readArgument("run", run, is.required(is.withFunctions("events", "result"), 'agent.run("Hello")'));
  const read = readOptions("createTaskStore()", options, {
    schedule: is.callback,
    from: is.oneOf("now"),
    onEvent: is.callback,
  });
  const { schedule = nextFrame, from, onEvent } = read;
  const subscribers = new Set<() => void>();
  const folded = new TaskTree();
  let snapshot: TaskStoreSnapshot = { tree: emptyTree(), connection: { status: "connecting" } };
  let connection = snapshot.connection;
  let isScheduled = false;
  let hasTree = true;
  let following: AsyncIterator<TaskEvent> | undefined;
  let isOver = false;

  function update(): void {
    isScheduled = false;
    const tree = hasTree ? snapshot.tree : folded.tree;
    hasTree = true;
    if (tree === snapshot.tree && connection === snapshot.connection) return;
    snapshot = { tree, connection };
    for (const onChange of [...subscribers]) onChange();
  }

  function change(): void {
    if (isScheduled) return;
    isScheduled = true;
    schedule(update);
  }

  function onConnection(changed: Connection): void {
    connection = changed;
    change();
  }

  async function follow(): Promise<void> {
    const after = folded.tree.safeCursor;
    const isRemote = run instanceof RemoteRun;
    const events = isRemote
      ? run.events({ after, until: "log", onConnection, ...(from && after < 0 && { from }) })
      : run.events({ after, until: "tree" });
    const iterator = events[Symbol.asyncIterator]();
    following = iterator;
    if (!isRemote) onConnection({ status: "open" });
    let failure: { readonly error?: ReturnType<typeof rivuletErrorOf> } = {};
    try {
      for (;;) {
        const { value, done } = await iterator.next();
        if (following !== iterator) return; // a later subscriber follows again
        if (done) break;
        folded.apply(value);
        onEvent?.(value);
        hasTree = false;
        change();
      }
    } catch (error) {
      if (following !== iterator) return;
      failure = { error: rivuletErrorOf(error) };
    }
    isOver = true;
    onConnection({ status: "closed", ...failure });
  }

  return {
    subscribe(onChange) {
      readArgument("onChange", onChange, is.required(is.callback));
      const subscriber = () => onChange();
      subscribers.add(subscriber);
      if (following === undefined && !isOver) void follow();
      return () => {
        if (!subscribers.delete(subscriber) || subscribers.size > 0) return;
        // A page that shows the run elsewhere subscribes again at once.
        queueMicrotask(() => {
          if (subscribers.size > 0 || isOver) return;
          const left = following;
          following = undefined;
          left?.return?.().catch(() => {});
        });
      };
    },
    getSnapshot: () => snapshot,
  };
}

function nextFrame(update: () => void): void {
  const { requestAnimationFrame } = globalThis as {
    requestAnimationFrame?: (callback: () => void) => unknown;
  };
  if (requestAnimationFrame === undefined) {
    setTimeout(update, 16);
    return;
  }
  let isDone = false;
  const once = () => {
    if (isDone) return;
    isDone = true;
    clearTimeout(timer);
    update();
  };
  const timer = setTimeout(once, maxFrameMs);
  requestAnimationFrame(once);
}
