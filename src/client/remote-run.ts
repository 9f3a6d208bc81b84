import { type BufferedIterator, inTurn } from "../base/async-queue.ts";
import { onAbort } from "../base/clock.ts";
import { RivuletError } from "../base/error.ts";
import { createIds } from "../base/id.ts";
import * as is from "../base/options.ts";
import { readArgument, readOptions } from "../base/options.ts";
import type {
  Answer,
  Message,
  Reply,
  Run,
  StandardSchema,
  TaskRef,
  WaitReason,
} from "../contract/index.ts";
import { isTerminal, type TaskEvent, type TaskObject, TaskTree } from "../protocol/index.ts";
import { type Connection, readLog } from "./reader.ts";
import { replyIn } from "./reply.ts";
import type { Server } from "./request.ts";
import { reportWaits } from "./waits.ts";

/** A task as the server returns it. */
export interface TaskBody extends TaskObject {
  readonly root_task_id: string;
  readonly last_sequence_number: number;
}

/** A task that a request has started or continued. */
export interface StartedBody extends TaskBody {
  /** The number of the last event before the request. */
  readonly starting_after: number;
}

/** The task that a run follows. */
export interface Followed {
  readonly ref: TaskRef;
  /** The number of the last event before the run. */
  readonly after: number;
  /** Suspensions up to this number are over: the run has answered them. */
  readonly answered: number;
  /** The number of the last event of the log, if the task waited with it when the run began. */
  readonly suspendedAt?: number | undefined;
}

const ids = createIds();

/** The names of a task of the server. */
export function refOf({ id, root_task_id, session_id = "" }: TaskBody): TaskRef {
  return Object.freeze({ taskId: id, rootTaskId: root_task_id, sessionId: session_id });
}

/** Which events of a remote run to read. */
export interface RemoteEventsOptions {
  /** The number of the last event that the reader has; -1 for the beginning of the log. */
  readonly after?: number;
  /** `now`: begin with a snapshot of every task instead of the events before. */
  readonly from?: "now";
  /** `log`: to the end of the log, over all suspensions. */
  readonly until?: "root" | "tree" | "log";
  /** Called when the state of the connection changes. */
  readonly onConnection?: (connection: Connection) => void;
}

const eventsFields: is.Fields<RemoteEventsOptions> = {
  after: is.integer(-1),
  from: is.oneOf("now"),
  until: is.oneOf("root", "tree", "log"),
  onConnection: is.callback,
};

/** How a run was started. */
export interface RemoteRunOptions {
  readonly server: Server;
  readonly agentName: string;
  readonly followed: Promise<Followed>;
  readonly until: "root" | "tree";
  /** Adds the stack of the call to an error; see `captureCaller`. */
  readonly addCaller: (error: unknown) => void;
  readonly output?: StandardSchema;
  /** Cancels the task when it aborts. */
  readonly signal?: AbortSignal;
  /** Called every second while the task does not move. */
  readonly onWait?: (reason: WaitReason) => void;
}

/** A run on a server. It follows the log of its task over any number of connections. */
export class RemoteRun<O = unknown> implements Run<O> {
  readonly task: Promise<TaskRef>;
  readonly #options: RemoteRunOptions;
  readonly #ended = Promise.withResolvers<Reply<unknown>>();
  #hasReply = false;
  #reading: Promise<void> | undefined;
  /** Kept for `onWait` alone. */
  #lastEventAt = 0;

  constructor(options: RemoteRunOptions) {
    this.#options = options;
    this.task = options.followed.then(({ ref }) => ref);
    // A caller that only iterates, or only awaits the result, handles neither of these.
    this.task.catch(options.addCaller);
    this.#ended.promise.catch(options.addCaller);
    if (options.signal) this.#cancelWith(options.signal);
    if (options.onWait) void this.#reportWaits(options.onWait);
  }

  [Symbol.asyncIterator](): AsyncIterator<TaskEvent> {
    return this.#follow({});
  }

  events(options: RemoteEventsOptions = {}): AsyncIterable<TaskEvent> {
    const read = readOptions("events()", options, eventsFields);
    return { [Symbol.asyncIterator]: () => this.#follow(read) };
  }

  /** The reply; reads the log unless an iteration of this run has already done so. */
  result(): Promise<Reply<O>> {
    if (!this.#hasReply) this.#reading ??= this.#readToRest();
    return this.#ended.promise as Promise<Reply<O>>;
  }

  async cancel(reason?: string): Promise<void> {
    readArgument("reason", reason, is.name);
    await this.#post("cancel", reason === undefined ? {} : { reason });
    await this.result().catch(() => {});
  }

  async steer(message: string | Message): Promise<void> {
    const { taskId } = await this.task;
    const path = `/v1/tasks/${encodeURIComponent(taskId)}/input`;
    await this.#options.server.once("POST", path, { input: message });
  }

  /** Answers an approval of this run, at any depth. */
  async answer({ taskId, approvalId, ...answer }: Answer): Promise<void> {
    const [task, approval] = [taskId, approvalId].map(encodeURIComponent);
    const path = `/v1/tasks/${task}/approvals/${approval}`;
    await this.#options.server.json("POST", path, answer);
  }

  /** Starts a new task with the input of this one, which has failed, was cancelled or is incomplete. */
  retry(): RemoteRun<O> {
    const { signal: _, ...options } = this.#options;
    return new RemoteRun<O>({ ...options, followed: this.#startAgain() });
  }

  async #startAgain(): Promise<Followed> {
    const { taskId } = await this.task;
    // The id makes a repeated request the same start.
    const body = { task_id: ids.next("task") };
    const path = `/v1/tasks/${encodeURIComponent(taskId)}/retry`;
    const task = await this.#options.server.json<StartedBody>("POST", path, body);
    return { ref: refOf(task), after: -1, answered: -1 };
  }

  async settled(): Promise<void> {
    const followed = await this.#options.followed.catch(() => undefined);
    if (followed === undefined) return;
    const { ref, after } = followed;
    const { server } = this.#options;
    const events = readLog({ server, taskId: ref.rootTaskId, after, until: "idle" });
    for await (const _ of events) {
      // The server ends the stream when no task runs.
    }
  }

  /** The events that the log held before this run: none, unless it continues an unfinished task. */
  async before(): Promise<readonly TaskEvent[]> {
    const { ref, after } = await this.#options.followed;
    const frames: TaskEvent[] = [];
    if (after < 0) return frames;
    const { server } = this.#options;
    for await (const event of readLog({ server, taskId: ref.rootTaskId, after: -1 })) {
      if (numberOf(event) > after) break;
      frames.push(event);
      if (numberOf(event) === after && event.type !== "task.snapshot") break;
    }
    return frames;
  }

  async #post(action: string, body: object): Promise<void> {
    const { taskId } = await this.task;
    await this.#options.server.json(
      "POST",
      `/v1/tasks/${encodeURIComponent(taskId)}/${action}`,
      body,
    );
  }

  #cancelWith(signal: AbortSignal): void {
    const ignoreAbort = onAbort(signal, () => {
      const { reason } = signal;
      const text = reason instanceof Error ? reason.message : String(reason);
      this.#post("cancel", { reason: text.slice(0, 256) || "cancelled" }).catch(() => {}); // the reply tells
    });
    this.#ended.promise.then(ignoreAbort, ignoreAbort);
  }

  async #reportWaits(onWait: (reason: WaitReason) => void): Promise<void> {
    const { server } = this.#options;
    const over = new AbortController();
    const end = () => over.abort("over");
    this.#ended.promise.then(end, end);
    try {
      const { taskId } = await this.task;
      const lastEventAt = () => this.#lastEventAt;
      await reportWaits({ server, taskId, lastEventAt, onWait }, over.signal);
    } catch (error) {
      this.#ended.reject(error);
    }
  }

  async #readToRest(): Promise<void> {
    try {
      for await (const _ of this.events({ after: -1, until: "root" })) {
        // The iteration finds the reply.
      }
    } catch (error) {
      this.#ended.reject(error);
    }
  }

  #follow(options: RemoteEventsOptions): AsyncIterator<TaskEvent> {
    const { server, agentName, until: ownUntil } = this.#options;
    const { until = ownUntil, from, onConnection } = options;
    let opened: { readonly events: BufferedIterator<TaskEvent>; readonly rest: Rest } | undefined;
    /** The whole log, if the iteration reads it. */
    let tree: TaskTree | undefined;
    let isLeft = false;

    const open = async () => {
      const followed = await this.#options.followed;
      const after = options.after ?? followed.after;
      const rest = new Rest(followed, after);
      if (after < 0) tree = new TaskTree();
      const { taskId, rootTaskId } = followed.ref;
      // The end of a child is not the end of its root; the client finds it itself.
      const endAtRoot = taskId === rootTaskId ? "root" : undefined;
      const end = until === "tree" ? "idle" : until === "root" ? endAtRoot : undefined;
      const events = readLog({
        server,
        taskId: rootTaskId,
        after,
        ...(from && { from }),
        ...(end && { until: end }),
        ...(onConnection && { onConnection }),
        onOpened: (last) => rest.onOpened(last),
      });
      return { events, rest };
    };

    const note = async (event: TaskEvent, rest: Rest): Promise<void> => {
      if (this.#options.onWait) this.#lastEventAt = server.clock.now();
      rest.note(event);
      tree?.apply(event);
      if (tree && rest.isReached) await this.#setReply(tree, rest, agentName);
    };

    /** The end of an iteration throws what the run threw. */
    const finish = async (rest: Rest): Promise<IteratorResult<TaskEvent>> => {
      if (!isLeft && until !== "log") {
        if (tree && this.#hasReply) await this.#ended.promise;
        else rest.throwFailure();
      }
      return { value: undefined, done: true };
    };

    const pull = async (): Promise<IteratorResult<TaskEvent>> => {
      opened ??= await open();
      const { events, rest } = opened;
      if (isLeft || (until === "root" && rest.isReached)) {
        await events.return?.();
        return finish(rest);
      }
      const next = await events.next();
      if (next.done) return finish(rest);
      await note(next.value, rest);
      return next;
    };

    return inTurn({
      take: () => undefined,
      pull,
      async leave() {
        isLeft = true;
        await opened?.events.return?.();
      },
    });
  }

  async #setReply(tree: TaskTree, rest: Rest, agentName: string): Promise<void> {
    if (this.#hasReply) return;
    this.#hasReply = true;
    try {
      rest.throwFailure();
      const reply = replyIn(tree.tree, rest.ref, agentName);
      this.#ended.resolve(await checked(reply, this.#options.output));
    } catch (error) {
      this.#ended.reject(error);
    }
  }
}

/** Finds the event with which a task rests: its end, or a suspension that no event has ended. */
class Rest {
  readonly ref: TaskRef;
  readonly #answered: number;
  #error: TaskObject["error"];
  #isEnded = false;
  #hasBegun = false;
  #isSuspended: boolean;
  /** The number of the last event that was read, and of the last event of the log. */
  #at: number;
  #last: number;

  constructor({ ref, answered, suspendedAt }: Followed, after: number) {
    this.ref = ref;
    this.#answered = answered;
    this.#isSuspended = suspendedAt !== undefined;
    this.#at = after;
    this.#hasBegun = after >= 0;
    this.#last = suspendedAt ?? Number.POSITIVE_INFINITY;
  }

  onOpened(last: number): void {
    this.#last = last;
  }

  get isReached(): boolean {
    return this.#isEnded || (this.#isSuspended && this.#at >= this.#last);
  }

  note(event: TaskEvent): void {
    this.#at = Math.max(this.#at, numberOf(event));
    if (event.type === "error" || event.task_id !== this.ref.taskId) return;
    if (event.type === "task.suspended") this.#isSuspended = this.#at > this.#answered;
    if (event.type === "task.resumed") this.#isSuspended = false;
    if (!("task" in event)) return;
    const { status, error } = event.task;
    this.#isSuspended = status === "suspended" && this.#at > this.#answered;
    this.#isEnded = isTerminal(status);
    if (status === "failed") this.#error = error ?? unknownError;
    if (status === "cancelled" && !this.#hasBegun) this.#error = cancelledInQueue;
    if (status !== "queued") this.#hasBegun = true;
  }

  throwFailure(): void {
    if (this.#error === undefined) return;
    const { code, message, ...more } = this.#error;
    throw new RivuletError(code, message, more);
  }
}

const unknownError = { code: "failed", message: "The task failed.", retryable: false };
const cancelledInQueue = {
  code: "cancelled",
  message: "The call was cancelled before its task began.",
  retryable: false,
};

function numberOf(event: TaskEvent): number {
  if (event.type === "error") return -1;
  return event.type === "task.snapshot" ? event.through_sequence_number : event.sequence_number;
}

/** A reply whose structured value fits the schema of the caller; the server has checked the JSON Schema alone. */
async function checked(
  reply: Reply<unknown>,
  output: StandardSchema | undefined,
): Promise<Reply<unknown>> {
  if (output === undefined || reply.generateReason !== "structured_output") return reply;
  const result = await output["~standard"].validate(reply.structured);
  if (result.issues === undefined) {
    const text = JSON.stringify(result.value);
    return { ...reply, structured: result.value, text, content: [{ type: "text", text }] };
  }
  const problems = result.issues.map(({ message }) => message).join("; ");
  const where = `The answer of task ${reply.task.taskId}`;
  throw new RivuletError(
    "structured_output_invalid",
    `${where} does not fit the output schema of this call: ${problems}.`,
    { hint: "The server has checked the answer with the JSON Schema alone." },
  );
}
