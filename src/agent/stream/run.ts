import type { Run } from "../../protocol/agent.ts";
import { eventsFields } from "../../protocol/call-options.ts";
import { RivuletError } from "../../protocol/error.ts";
import type { TaskEvent } from "../../protocol/event.ts";
import type { Message, Reply, TaskRef } from "../../protocol/message.ts";
import { readArgument, readOptions, text } from "../../protocol/options.ts";
import { isTerminal } from "../../protocol/task.ts";
import { readFrames } from "../../store/index.ts";
import { processOf } from "../drive/process.ts";
import { untilRest } from "../drive/rest.ts";
import { readSteering } from "../loop/input.ts";
import type { AgentSettings } from "../loop/settings.ts";
import type { Door } from "./door.ts";
import { followLog } from "./follow.ts";

const pageSize = 1_000;
const givenUp = new Set(["store_failed", "store_corrupt", "shutting_down"]);

/** A handle on a task: a cursor on its log, not the owner of the work. */
export class TaskHandle<O> implements Run<O> {
  readonly task: Promise<TaskRef>;
  /** The number of the last event that the log held before this call; -1: none. */
  readonly startsAfter: Promise<number>;
  readonly #door: Door;
  readonly #settings: AgentSettings;
  readonly #until: "root" | "tree";

  constructor(door: Door, settings: AgentSettings, until: "root" | "tree") {
    this.#door = door;
    this.#settings = settings;
    this.#until = until;
    this.task = door.target.then(({ ref }) => ref);
    this.startsAfter = door.target.then(({ after }) => after);
    // A caller that only iterates, or only awaits the result, handles none of these.
    this.task.catch(() => {});
    this.startsAfter.catch(() => {});
    door.reply.catch(() => {});
  }

  [Symbol.asyncIterator](): AsyncIterator<TaskEvent> {
    return this.#follow(undefined, this.#until);
  }

  events(options: { after?: number; until?: "root" | "tree" } = {}): AsyncIterable<TaskEvent> {
    const { after, until = this.#until } = readOptions("events()", options, eventsFields);
    return { [Symbol.asyncIterator]: () => this.#follow(after, until) };
  }

  result(): Promise<Reply<O>> {
    return this.#door.reply as Promise<Reply<O>>;
  }

  async cancel(reason?: string): Promise<void> {
    readArgument("reason", reason, text);
    await this.#door.cancel(reason);
    await this.#door.reply.catch(() => {});
  }

  async steer(message: string | Message): Promise<void> {
    const { store, ids } = this.#settings;
    const row = { kind: "hint", message: readSteering(message, ids) } as const;
    const ref = await this.task;
    await store.post([{ id: ids.next("post"), ...row, ...ref }]);
  }

  async settled(): Promise<void> {
    const error = await this.#door.reply.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    // This process has given the conversation up.
    if (error instanceof RivuletError && givenUp.has(error.code)) return;
    const target = await this.#door.target.catch(() => undefined);
    if (target === undefined) return;
    const { conversation, ref } = target;
    const settings = this.#settings;
    const following = { settings, conversation, taskId: ref.rootTaskId, isTree: true };
    await untilRest(processOf(settings.store), following);
  }

  /** The events that the log held before this call: none, unless it continues an unfinished task. */
  async before(): Promise<readonly TaskEvent[]> {
    const { ref, after } = await this.#door.target;
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
    const { reply, target } = this.#door;
    return followLog(this.#settings.store, async () => {
      const { ref, after: first } = await target;
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

/** Whether a task has ended with this event. A suspension is no end: an answer may be posted already. */
function isEnd(event: TaskEvent): boolean {
  return "task" in event && isTerminal(event.task.status);
}
