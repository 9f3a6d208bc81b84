import {
  type Connection,
  createTaskStore,
  type RemoteRun,
  type TaskStore,
  type TaskStoreSnapshot,
} from "rivulet/client";
import { type LogEvent, reduce, type TaskEvent, TaskTree, type Tree } from "rivulet/protocol";
import { type Healing, Heals } from "./heals.ts";
import { Spans } from "./spans.ts";

/** A log as the page shows it: live, or as it was at an event. */
export interface LogSnapshot extends TaskStoreSnapshot {
  /** The event that the tree is shown at; undefined: live. */
  readonly at: number | undefined;
  /** The number of the newest event. */
  readonly last: number;
  /** The number of the first event that is in memory; 0 once the history is loaded. */
  readonly first: number;
  readonly healing: Healing | undefined;
}

/** Below this size the whole history is loaded at once, for the timeline. */
const smallLog = 20_000;
/** Trees are kept at every so many events, so that a jump folds few of them. */
const stride = 2_000;

/** The log of one root task: its events, its tree now and its tree at any event. The hooks of `rivulet/react` read it. */
export class RunLog implements TaskStore {
  readonly taskId: string;
  readonly run: RemoteRun | undefined;
  readonly input: string;
  /** The names of the files that came with the question. */
  readonly files: readonly string[];
  /** The agent that was asked; "" for a recorded run. */
  readonly agentName: string;
  /** The model that was chosen for the run; undefined: the agent's own. */
  readonly model: string | undefined;
  readonly startedAt: number;
  /** True: this page has begun the run. */
  readonly isNew: boolean;
  /** True: the open session is a fork that continues this run. */
  readonly isEarlier: boolean;
  #events: LogEvent[] = [];
  #first = Number.POSITIVE_INFINITY;
  #last = -1;
  #spans = new Spans();
  #store: TaskStore;
  readonly #heals = new Heals();
  readonly #kept = new Map<number, Tree>();
  readonly #subscribers = new Set<() => void>();
  #past: { readonly at: number; readonly tree: Tree } | undefined;
  #snapshot: LogSnapshot;
  #stop: (() => void) | undefined;
  #history: Promise<void> | undefined;
  #isClosed = false;
  /** Resolves when it is known which events are in memory. */
  readonly #opened = Promise.withResolvers<void>();

  constructor(options: {
    readonly taskId: string;
    readonly input: string;
    readonly startedAt: number;
    readonly agentName?: string;
    readonly model?: string | undefined;
    readonly files?: readonly string[];
    readonly run?: RemoteRun;
    /** True: the run has just begun, so its log is short. */
    readonly isNew?: boolean;
    readonly isEarlier?: boolean;
    /** The events of a recorded run. */
    readonly events?: readonly LogEvent[];
  }) {
    const { taskId, run, input, startedAt, events } = options;
    this.taskId = taskId;
    this.run = run;
    this.input = input;
    this.files = options.files ?? [];
    this.isEarlier = options.isEarlier ?? false;
    this.isNew = options.isNew ?? false;
    this.agentName = options.agentName ?? "";
    this.model = options.model;
    this.startedAt = startedAt;
    this.#store = run
      ? createTaskStore(run, {
          ...(!options.isNew && { from: "now" }),
          onEvent: (event) => this.#record(event),
        })
      : recordedStore(events ?? []);
    if (options.isNew || events) this.#open(0);
    for (const event of events ?? []) this.#record(event);
    this.#snapshot = this.#build();
  }

  /** The events in memory, from number `first` on. */
  get events(): readonly LogEvent[] {
    return this.#events;
  }

  get lanes() {
    return this.#spans.lanes;
  }

  eventAt(number: number): LogEvent | undefined {
    return this.#events[number - this.#first];
  }

  getSnapshot = (): LogSnapshot => this.#snapshot;

  subscribe = (onChange: () => void): (() => void) => {
    this.#subscribers.add(onChange);
    this.#stop ??= this.#store.subscribe(() => this.#update());
    return () => {
      this.#subscribers.delete(onChange);
      queueMicrotask(() => {
        if (this.#subscribers.size > 0) return;
        this.#stop?.();
        this.#stop = undefined;
      });
    };
  };

  /** Lets go of everything. React keeps old properties for a while, and a long log is large. */
  close(): void {
    this.#isClosed = true;
    this.#stop?.();
    this.#stop = undefined;
    this.#store = recordedStore([]);
    this.#events = [];
    this.#kept.clear();
    this.#past = undefined;
    this.#spans = new Spans();
    this.#snapshot = this.#build();
  }

  /** The tree now, whatever event is shown. */
  get liveTree(): Tree {
    return this.#store.getSnapshot().tree;
  }

  /** Shows the tree after event `at`; undefined: live. */
  seek(at: number | undefined): void {
    const number = at === undefined ? undefined : Math.max(0, Math.min(at, this.#last));
    this.#past =
      number === undefined || this.#first > 0
        ? undefined
        : { at: number, tree: this.#treeAt(number) };
    this.#update();
  }

  /** Loads the events before the snapshot that the log was opened with. */
  loadHistory(): Promise<void> {
    this.#history ??= this.#readHistory().catch((error: unknown) => {
      this.#history = undefined; // the next call tries again
      throw error;
    });
    return this.#history;
  }

  #open(first: number): void {
    this.#first = first;
    this.#opened.resolve();
  }

  async #readHistory(): Promise<void> {
    await this.#opened.promise;
    const { run } = this;
    if (run === undefined || this.#first === 0) return;
    const end = this.#first;
    const before: LogEvent[] = [];
    for await (const event of run.events({ after: -1, until: "log" })) {
      if (this.#isClosed) return;
      if (event.type === "task.snapshot" || event.type === "error") continue;
      if (event.sequence_number >= end) break;
      before.push(event);
      if (event.sequence_number === end - 1) break;
    }
    this.#events = [...before, ...this.#events];
    this.#first = before[0]?.sequence_number ?? end;
    this.#spans = new Spans();
    for (const event of this.#events) this.#spans.add(event);
    this.#update();
  }

  #record(event: TaskEvent): void {
    if (event.type === "error") return;
    if (event.type === "task.snapshot") {
      this.#last = event.through_sequence_number;
      if (event.final) this.#open(this.#last + 1);
      if (event.final && this.#last < smallLog) this.loadHistory().catch(() => {}); // the slider says so
      return;
    }
    const { sequence_number: number } = event;
    this.#heals.count(number, this.#last);
    if (number <= this.#last) return;
    if (this.#first > number) this.#open(number);
    this.#events.push(event);
    this.#last = number;
    this.#spans.add(event);
  }

  #update(): void {
    const { tree, connection } = this.#store.getSnapshot();
    this.#heals.follow(connection, tree, this.#last, () => this.#update());
    this.#snapshot = this.#build();
    for (const onChange of [...this.#subscribers]) onChange();
  }

  #build(): LogSnapshot {
    const { tree, connection } = this.#store.getSnapshot();
    const past = this.#past;
    return {
      tree: past?.tree ?? tree,
      connection,
      at: past?.at,
      last: this.#last,
      first: this.#first,
      healing: past ? undefined : this.#heals.healing,
    };
  }

  /** The fold of the first events up to and including number `at`. */
  #treeAt(at: number): Tree {
    let from = Math.floor(at / stride) * stride - 1;
    while (from >= 0 && !this.#kept.has(from)) from -= stride;
    const near = this.#past;
    const start = near && near.at <= at && near.at > from ? near : undefined;
    let tree = start?.tree ?? this.#kept.get(from) ?? reduce(new TaskTree().tree, []);
    for (let next = (start?.at ?? from) + 1; next <= at; ) {
      const end = Math.min(at, Math.floor(next / stride) * stride + stride - 1);
      tree = reduce(tree, this.#events.slice(next, end + 1));
      if ((end + 1) % stride === 0) this.#kept.set(end, tree);
      next = end + 1;
    }
    return tree;
  }
}

/** A store that does not change. */
function recordedStore(events: readonly LogEvent[]): TaskStore {
  const connection: Connection = { status: "closed" };
  const snapshot = { tree: new TaskTree().apply(events).tree, connection };
  return { subscribe: () => () => {}, getSnapshot: () => snapshot };
}
