import { captureCaller, RivuletError, rivuletErrorOf } from "../../base/error.ts";
import { readArgument, readOptions, text } from "../../base/options.ts";
import {
  eventsFields,
  type Message,
  type Reply,
  type Run,
  type TaskRef,
} from "../../contract/index.ts";
import type { TaskEvent } from "../../protocol/index.ts";
import { readPages } from "../../store/index.ts";
import { processOf } from "../drive/process.ts";
import { cancelTask, untilRest } from "../drive/rest.ts";
import { refOf } from "../loop/ending.ts";
import { reasonText } from "../loop/inbox.ts";
import { readSteering } from "../loop/input.ts";
import type { AgentSettings } from "../loop/settings.ts";
import { type Call, type CallOptions, type Entered, finish } from "./door.ts";
import { followLog } from "./follow.ts";

const givenUp = new Set(["store_failed", "store_corrupt", "shutting_down"]);

/** A handle on a task: a cursor on its log, not the owner of the work. Calls post and follow; the owner drives. */
export class TaskHandle<O> implements Run<O> {
  /** Resolves when the task is stored and its events can be read. */
  readonly task: Promise<TaskRef>;
  /** The number of the last event that the log held before this call; -1: none. */
  readonly startsAfter: Promise<number>;
  readonly #settings: AgentSettings;
  readonly #until: "root" | "tree";
  readonly #stop = new AbortController();
  readonly #entering = Promise.withResolvers<Entered>();
  readonly #entered = this.#entering.promise;
  /** Settles when the task rests and, if this process ran it, its session is free again. */
  readonly #reply: Promise<Reply<unknown>>;

  /** `enter` validates, writes and names the task; then the handle follows that task to its rest. */
  constructor(
    settings: AgentSettings,
    options: CallOptions,
    enter: (call: Call) => Promise<Entered>,
  ) {
    const addCaller = captureCaller();
    const process = processOf(settings.store);
    this.#settings = settings;
    this.#until = options.until ?? "root";
    this.#reply = this.#run({ process, settings, options, stop: this.#stop.signal }, enter);
    this.task = this.#entered.then(({ record }) => refOf(record));
    this.startsAfter = this.#entered.then(({ after }) => after);
    // A caller that only iterates, or only awaits the result, handles none of these.
    for (const promise of [this.task, this.startsAfter, this.#reply]) promise.catch(addCaller);
  }

  async #run(call: Call, enter: (call: Call) => Promise<Entered>): Promise<Reply<unknown>> {
    const { process, stop, options } = call;
    const { signal } = options;
    // The reply reports a store that fails.
    const onAbort = () => void this.#cancel(signal?.reason).catch(() => {});
    if (signal?.aborted) onAbort();
    else signal?.addEventListener("abort", onAbort, { once: true });
    try {
      const entered = await enter(call);
      const { record, conversation, refused } = entered;
      this.#entering.resolve(entered);
      const cancelHere = () => process.owned(conversation)?.cancelNow(record.taskId, stop.reason);
      stop.addEventListener("abort", cancelHere);
      const reply = await finish(call, entered);
      if (refused) throw refused;
      return reply;
    } catch (error) {
      const failure = rivuletErrorOf(error);
      this.#entering.reject(failure);
      throw failure;
    } finally {
      signal?.removeEventListener("abort", onAbort);
      const { taskId = "" } = call;
      if (process.callers.get(taskId)?.options === options) process.callers.delete(taskId);
    }
  }

  async #cancel(reason: unknown): Promise<void> {
    const { store } = this.#settings;
    if (!this.#stop.signal.aborted) this.#stop.abort(reason);
    const entered = await this.#entered.catch(() => undefined);
    if (entered === undefined) return;
    const { record, conversation } = entered;
    const target = { settings: this.#settings, conversation, taskId: record.taskId };
    await cancelTask(processOf(store), target, reasonText(reason));
  }

  [Symbol.asyncIterator](): AsyncIterator<TaskEvent> {
    return this.#follow(undefined, this.#until);
  }

  events(options: { after?: number; until?: "root" | "tree" } = {}): AsyncIterable<TaskEvent> {
    const { after, until = this.#until } = readOptions("events()", options, eventsFields);
    return { [Symbol.asyncIterator]: () => this.#follow(after, until) };
  }

  result(): Promise<Reply<O>> {
    return this.#reply as Promise<Reply<O>>;
  }

  async cancel(reason = "cancelled"): Promise<void> {
    readArgument("reason", reason, text);
    await this.#cancel(new Error(reason));
    await this.#reply.catch(() => {});
  }

  async steer(message: string | Message): Promise<void> {
    const { store, ids } = this.#settings;
    const row = { kind: "hint", message: readSteering(message, ids) } as const;
    await store.post([{ id: ids.next("post"), ...row, ...(await this.task) }]);
  }

  async settled(): Promise<void> {
    const error = await this.#reply.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    // This process has given the conversation up.
    if (error instanceof RivuletError && givenUp.has(error.code)) return;
    const entered = await this.#entered.catch(() => undefined);
    if (entered === undefined) return;
    const { record, conversation } = entered;
    const tree = { conversation, taskId: record.rootTaskId, isTree: true };
    await untilRest(processOf(this.#settings.store), { settings: this.#settings, ...tree });
  }

  /** The events that the log held before this call: none, unless it continues an unfinished task. */
  async before(): Promise<readonly TaskEvent[]> {
    const { record, after } = await this.#entered;
    const events: TaskEvent[] = [];
    for await (const { frames } of readPages(this.#settings.store, record.rootTaskId, after))
      events.push(...frames);
    return events;
  }

  #follow(after: number | undefined, until: "root" | "tree"): AsyncIterator<TaskEvent> {
    return followLog(processOf(this.#settings.store).store, async () => {
      const { record, after: first } = await this.#entered;
      const { taskId, rootTaskId } = record;
      return {
        log: rootTaskId,
        after: after ?? first,
        endsWith: until === "root" ? taskId : undefined,
        endsWithWork: until === "root",
        over: until === "root" ? this.#reply : this.settled().then(() => this.#reply),
      };
    });
  }
}
