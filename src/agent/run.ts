import type { Run } from "../protocol/agent.ts";
import type { TaskEvent } from "../protocol/event.ts";
import type { Message, Reply, TaskRef } from "../protocol/message.ts";
import { isTerminal } from "../protocol/task.ts";
import { readFrames } from "../store/index.ts";
import { cancelTask } from "./cancel.ts";
import { Conversation } from "./conversation.ts";
import { followLog } from "./follow.ts";
import { readSteering } from "./input.ts";
import type { RootWork } from "./root.ts";
import type { AgentSettings } from "./settings.ts";

const pageSize = 1_000;

/** The live handle on a root task in this process: a cursor on its log, not the owner of the work. */
export class RootRun<O> implements Run<O> {
  readonly task: Promise<TaskRef>;
  readonly #work: RootWork;
  readonly #settings: AgentSettings;
  readonly #until: "root" | "tree";

  constructor(work: RootWork, settings: AgentSettings, until: "root" | "tree") {
    this.#work = work;
    this.#settings = settings;
    this.#until = until;
    this.task = work.started.then(({ ref }) => ref);
    // Whoever only iterates, or only awaits the result, has not asked for these.
    this.task.catch(() => {});
    work.reply.catch(() => {});
  }

  [Symbol.asyncIterator](): AsyncIterator<TaskEvent> {
    return this.#follow(undefined, this.#until);
  }

  events(options: { after?: number; until?: "root" | "tree" } = {}): AsyncIterable<TaskEvent> {
    return {
      [Symbol.asyncIterator]: () => this.#follow(options.after, options.until ?? this.#until),
    };
  }

  result(): Promise<Reply<O>> {
    return this.#work.reply as Promise<Reply<O>>;
  }

  async cancel(reason?: string): Promise<void> {
    this.#work.cancel(reason);
    await this.#work.reply.catch(() => {});
    const ref = await this.task.catch(() => undefined);
    const record = ref && (await this.#settings.store.task(ref.taskId));
    // What it has left behind: a task that waits, or background work that outlives it.
    if (record) await cancelTask(this.#settings, record.taskId, reason);
  }

  async steer(message: string | Message): Promise<void> {
    const { sessionId, rootTaskId } = await this.task;
    const { store, ids } = this.#settings;
    const said = readSteering(message, ids);
    await store.post({ id: ids.next("post"), kind: "input", sessionId, rootTaskId, message: said });
  }

  /** Resolves when nothing of the whole tree runs in this process: all has ended, or waits for somebody. */
  async settled(): Promise<void> {
    await this.#work.reply.catch(() => {});
    const ref = await this.task.catch(() => undefined);
    if (ref === undefined) return;
    const { store } = this.#settings;
    const root = await store.task(ref.rootTaskId);
    const conversation = root && (await Conversation.find(store, root.sessionId));
    await conversation?.quiet(ref.rootTaskId);
  }

  /** What the log held before this run: nothing, unless it goes on with an unfinished task. */
  async before(): Promise<readonly TaskEvent[]> {
    const { ref, after } = await this.#work.started;
    const { store } = this.#settings;
    const frames: TaskEvent[] = [];
    for (let at = -1; at < after; ) {
      const read = await readFrames(store, ref.rootTaskId, at, Math.min(pageSize, after - at));
      if (read.through === at) break;
      frames.push(...read.frames);
      at = read.through;
    }
    return frames;
  }

  #follow(after: number | undefined, until: "root" | "tree"): AsyncIterator<TaskEvent> {
    const { reply, started } = this.#work;
    return followLog(this.#settings.store, async () => {
      const { ref, after: first } = await started;
      return {
        log: ref.rootTaskId,
        after: after ?? first,
        isLast: (event) => until === "root" && isEnd(event) && event.task_id === ref.taskId,
        endsWithWork: until === "root",
        over: until === "root" ? reply : this.settled().then(() => reply),
      };
    });
  }
}

/** Whether a task has ended with this event. A suspension is no end: an answer may be there already. */
function isEnd(event: TaskEvent): boolean {
  switch (event.type) {
    case "task.completed":
    case "task.failed":
    case "task.cancelled":
    case "task.incomplete":
      return true;
    case "task.snapshot":
      return isTerminal(event.task.status);
    default:
      return false;
  }
}
