import type { Run } from "../protocol/agent.ts";
import type { TaskEvent } from "../protocol/event.ts";
import type { Message, Reply, TaskRef } from "../protocol/message.ts";
import { userMessage } from "../protocol/message.ts";
import { followLog } from "./follow.ts";
import { type RootWork, startRoot } from "./root.ts";
import type { AgentSettings } from "./settings.ts";

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
    const reply = await this.#work.reply.catch(() => undefined);
    if (reply === undefined) return;
    const { store } = this.#settings;
    const { taskId, rootTaskId, sessionId } = reply.task;
    if ((await store.task(taskId))?.status !== "suspended") return;
    // It waits for somebody. Whoever drives it next takes this to its end: another call, or else we.
    const message = userMessage(reason ?? "cancelled");
    await store.post({ id: `cancel:${taskId}`, kind: "cancel", sessionId, rootTaskId, message });
    const work = startRoot(this.#settings, undefined, { sessionId, only: taskId });
    await work.reply.catch(() => {});
  }

  async steer(message: string | Message): Promise<void> {
    const { sessionId, rootTaskId } = await this.task;
    const { store, ids } = this.#settings;
    const said = typeof message === "string" ? userMessage(message) : message;
    await store.post({ id: ids.next("post"), kind: "input", sessionId, rootTaskId, message: said });
  }

  async settled(): Promise<void> {
    await this.#work.reply.catch(() => {});
  }

  /** What the log held before this run: nothing, unless it goes on with an unfinished task. */
  async before(): Promise<readonly TaskEvent[]> {
    const { ref, after } = await this.#work.started;
    return this.#settings.store.read(ref.rootTaskId, -1, after + 1);
  }

  #follow(after: number | undefined, until: "root" | "tree"): AsyncIterator<TaskEvent> {
    const { reply, started } = this.#work;
    let events: AsyncIterator<TaskEvent> | undefined;
    let isLeft = false;
    const open = async () => {
      const { ref, after: first } = await started;
      const start = after ?? first;
      if (isLeft) return { value: undefined, done: true } as const;
      events = followLog(this.#settings.store, ref.rootTaskId, {
        after: start,
        isLast: (event) => until === "root" && event.task_id === ref.taskId && isEnd(event),
        endsWithWork: until === "root",
        over: reply,
      });
      return events.next();
    };
    return {
      next: () => events?.next() ?? open(),
      async return() {
        isLeft = true;
        return events?.return?.() ?? { value: undefined, done: true };
      },
    };
  }
}

/** Whether a task ends with this event. A suspension is no end: an answer may be there already. */
function isEnd(event: TaskEvent): boolean {
  switch (event.type) {
    case "task.completed":
    case "task.failed":
    case "task.cancelled":
    case "task.incomplete":
      return true;
    default:
      return false;
  }
}
