import { StreamCheck } from "../../protocol/check.ts";
import { type ErrorPlace, RivuletError } from "../../protocol/error.ts";
import type {
  ApprovalRequested,
  ApprovalResolved,
  LogEvent,
  TaskCreated,
  TaskEvent,
  TaskSnapshot,
  TaskSuspended,
} from "../../protocol/event.ts";
import { isOfTurn } from "../../protocol/item-content.ts";
import type { Message } from "../../protocol/message.ts";
import { TaskTree } from "../../protocol/reduce.ts";
import type { RemoteLink } from "../../protocol/remote-link.ts";
import { snapshotOf } from "../../protocol/snapshot.ts";
import type { Post, TaskRecord } from "../../protocol/store.ts";
import { type Cost, isTerminal, type TaskObject, type Usage } from "../../protocol/task.ts";
import { readPages } from "../../store/index.ts";
import { interruptedResult } from "../base/prompts.ts";
import { checkAgentId } from "../base/validation.ts";
import { maxEventBytes } from "../events/emit.ts";
import { completed, type Ending, incomplete, suspended } from "../loop/ending.ts";
import type { AgentSettings } from "../loop/settings.ts";
import { settlePending } from "../loop/settle.ts";
import { commitStep, controlMessage, type TaskRun, writeStep } from "../loop/task-run.ts";
import { messagesOf } from "../loop/transcript.ts";
import { waitingTasks } from "../loop/waiting.ts";
import { type JsonSchema, jsonSchema } from "../tool/schema.ts";
import type { Conversation } from "./conversation.ts";
import { endTask, nameOnly, openParent, openTask } from "./lifecycle.ts";
import { editedMessage, newMessages, suspensionOf } from "./remote-messages.ts";

const defaultMaxBytes = 64 * 1024 * 1024;
const defaultMaxTasks = 256;
/** How many events may arrive before the place in the remote log is stored. */
const maxUnstored = 512;

/** Settings that suffice for a task whose agent runs on another server. */
export function remoteSettings(
  settings: AgentSettings,
  record: TaskRecord,
  link: RemoteLink,
): AgentSettings {
  return { ...nameOnly(settings, record), hooks: [], budget: link.budget ?? {} };
}

/**
 * Writes the events of a remote child and its descendants into the log of their root here, with a record and a
 * transcript for each task. The remote log is the truth: this one follows it, checks it and adds nothing but sources.
 */
export class RemoteLog {
  /** The unfinished tasks of the child, by id. */
  readonly runs = new Map<string, TaskRun>();
  /** The rows of answers that were sent, by approval; the event that resolves the approval takes the row. */
  readonly answers = new Map<string, Post>();
  /** The number of the last remote event that was written. */
  cursor: number;
  readonly #conversation: Conversation;
  readonly #link: RemoteLink;
  readonly #top: TaskRecord;
  /** The remote log as the server numbers it, without the sources of this one. */
  readonly #tree = new TaskTree();
  #check: StreamCheck | undefined = new StreamCheck();
  /** The number of the last event of each task, and the tasks that this process has ended on its own. */
  readonly #seqs = new Map<string, number>();
  readonly #closed = new Set<string>();
  #bytes = 0;
  #unstored = 0;

  constructor(conversation: Conversation, link: RemoteLink, top: TaskRecord) {
    this.#conversation = conversation;
    this.#link = link;
    this.#top = top;
    this.cursor = top.remote?.cursor ?? -1;
  }

  /** The child as it was read so far. */
  get known(): TaskSnapshot {
    const { taskId, createdAt } = this.#top;
    const at = { sequenceNumber: Math.max(0, this.cursor), createdAt };
    const known = snapshotOf(this.#tree.tree, taskId, at);
    if (known) return known;
    throw new RivuletError("internal", `Task ${taskId} has not begun.`);
  }

  /** The state of a task that has just begun here. */
  begin(run: TaskRun): void {
    const { taskId: id, agentId, sessionId, createdAt: created_at } = run.record;
    const at = { task_id: id, sequence_number: -1, created_at };
    const task = { id, object: "task", agent_id: agentId, session_id: sessionId } as const;
    const created = { ...task, status: "queued", created_at } as const;
    this.#note({ type: "task.created", ...at, task_seq: 0, task: created });
    const begun = { ...task, status: "in_progress" } as const;
    this.#note({ type: "task.in_progress", ...at, task_seq: 1, task: begun });
    this.runs.set(id, run);
  }

  /** Continues a log that an earlier process, or an earlier drive, has written. */
  async load(): Promise<void> {
    const { store } = this.#conversation;
    const { taskId, rootTaskId } = this.#top;
    const records = await store.tasks({ rootTaskId });
    const own = new Set([taskId]); // a parent's record comes before those of its children
    for (const record of records) {
      if (own.has(record.parentTaskId ?? "")) own.add(record.taskId);
      if (own.has(record.taskId)) this.cursor = Math.max(this.cursor, record.remote?.cursor ?? -1);
    }
    const pages = readPages(store, rootTaskId);
    for await (const { frames } of pages) for (const event of frames) this.#restore(event, own);
    for (const record of records) {
      if (!own.has(record.taskId) || isTerminal(record.status)) continue;
      const parent = this.runs.get(record.parentTaskId ?? "");
      await this.#open(record, parent ?? (await openParent(this.#conversation, record)), false);
    }
  }

  /** Reads an event of the log here, in the form that the server has sent. */
  #restore(event: TaskEvent, own: ReadonlySet<string>): void {
    const { taskId, sessionId, path, depth } = this.#top;
    if (event.type === "error" || !own.has(event.task_id)) return;
    if (event.type === "task.snapshot") {
      this.#check = undefined; // it cannot check a log without a beginning
      this.#tree.apply(event);
      this.#seqs.set(event.task_id, event.through_task_seq);
      return;
    }
    const isTop = event.task_id === taskId;
    const { source, ...raw } = event;
    const below = source && {
      source: {
        ...source,
        depth: source.depth - depth,
        path: `${sessionId}${source.path.slice(path.length)}`,
      },
    };
    this.#note((isTop ? withoutParent(raw as LogEvent) : { ...raw, ...below }) as LogEvent);
  }

  async #open(record: TaskRecord, parent: TaskRun | undefined, isNew: boolean): Promise<TaskRun> {
    if (parent === undefined) throw forged(`task ${record.taskId} has no parent here`);
    const settings = remoteSettings(parent.settings, record, this.#link);
    const conversation = this.#conversation;
    const run = await openTask({ conversation, settings, record, parent, isNew });
    this.runs.set(record.taskId, run);
    return run;
  }

  #note(event: LogEvent): void {
    const problem = this.#check?.next(event);
    if (problem) throw invalidEvent(event, problem.message);
    this.#tree.apply(event);
    this.#seqs.set(event.task_id, event.task_seq);
  }

  /** Writes an event of the remote log; resolves to the task that it ends or suspends. Throws for one that is not allowed. */
  async take(event: TaskEvent): Promise<TaskRun | undefined> {
    if (event.type === "error") return undefined;
    if (event.type === "task.snapshot") {
      if (event.through_task_seq <= (this.#seqs.get(event.task_id) ?? -1)) return undefined;
      throw new RivuletError("remote_log_expired", "The server no longer has all events.", {
        hint: "Keep the logs of the other server longer than its callers may be away.",
      });
    }
    const { task_id: taskId, sequence_number: at } = event;
    const isKnown = event.task_seq <= (this.#seqs.get(taskId) ?? -1);
    if (isKnown || this.#closed.has(taskId)) {
      this.cursor = Math.max(this.cursor, at);
      return undefined;
    }
    if (!(at > this.cursor)) throw invalidEvent(event, "its number is not above the last one");
    this.#countBytes(event);
    this.#note(event);
    if (event.type === "task.created") await this.#create(event);
    const run = this.runs.get(taskId);
    if (run === undefined) throw forged(`task ${taskId} is not one of its tasks`);
    this.cursor = at;
    const rested = await this.#write(run, event);
    if (++this.#unstored >= maxUnstored) this.#store(run);
    await run.log.catchUp();
    return rested;
  }

  #countBytes(event: LogEvent): void {
    const { maxBytes = defaultMaxBytes } = this.#link.limits;
    const bytes = "delta" in event ? event.delta.length + 256 : JSON.stringify(event).length;
    this.#bytes += bytes;
    if (bytes > maxEventBytes && !event.type.endsWith(".done"))
      throw invalidEvent(event, `it has ${bytes} bytes, and the most is ${maxEventBytes}`);
    if (this.#bytes <= maxBytes) return;
    throw new RivuletError("remote_too_large", `The server sent more than ${maxBytes} bytes.`, {
      hint: "Raise `limits.maxBytes` of the subagent, or let it do less at a time.",
    });
  }

  /** Creates the record of a descendant. It may only be a new task in a new session, or in a session of its parent. */
  async #create({ task, source }: TaskCreated): Promise<void> {
    const { id: taskId, session_id: sessionId = "", parent_task_id = "", mode = "sync" } = task;
    const { store } = this.#conversation;
    const { maxTasks = defaultMaxTasks } = this.#link.limits;
    const parent = this.runs.get(parent_task_id);
    if (parent === undefined) throw forged(`the parent of ${taskId} is not one of its tasks`);
    if (this.#seqs.size > maxTasks + 1) throw forged(`it has more than ${maxTasks} tasks`);
    const { agentId = "", agentName = agentId, agentKey = "" } = source ?? {};
    checkAgentId(agentId);
    if ((await store.task(taskId)) !== undefined) throw forged(`task ${taskId} exists already`);
    const earlier = await store.tasks({ sessionId });
    const isOwn = ({ remote, parentSessionId }: TaskRecord) =>
      remote?.url === this.#link.url && parentSessionId === parent.record.sessionId;
    const [session] = await store.sessions({ sessionId, limit: 1 });
    if (!earlier.every(isOwn) || (session !== undefined && earlier.length === 0))
      throw forged(`session ${sessionId} is not one of its sessions`);
    const { rootTaskId, userId, depth, path, sessionId: parentSessionId, remote } = parent.record;
    const record: TaskRecord = {
      ...{ taskId, rootTaskId, parentTaskId: parent_task_id, agentId, agentName, agentKey },
      ...(task.parent_item_id !== undefined && { parentItemId: task.parent_item_id }),
      ...{ sessionId, parentSessionId, ...(userId !== undefined && { userId }) },
      ...{ depth: depth + 1, path: `${path}/${agentId}`, createdAt: task.created_at ?? 0 },
      ...{ mode, status: "queued", committedOutput: 0, ...(remote && { remote }) },
    };
    await this.#open(record, parent, earlier.length === 0);
  }

  async #write(run: TaskRun, event: LogEvent): Promise<TaskRun | undefined> {
    switch (event.type) {
      case "task.suspended":
      case "task.completed":
      case "task.failed":
      case "task.cancelled":
      case "task.incomplete":
        return this.#rest(run, event);
      case "task.created":
      case "task.in_progress":
      case "task.resumed":
        run.isResting = false;
        run.emitter.forward(event);
        this.#store(run, { status: event.type === "task.created" ? "queued" : "in_progress" });
        return undefined;
      case "task.usage":
        this.#countUsage(run, event.usage, event.cost);
        break;
      case "task.child.started":
        run.childCalls.add(event.child_task_id);
        break;
      case "task.child.promoted":
        this.#promote(event.child_task_id);
        break;
      case "task.approval.requested":
        return this.#ask(run, event);
      case "task.approval.resolved":
        run.emitter.forward(event);
        this.#resolve(run, event);
        return undefined;
      case "task.output_item.done":
        run.emitter.forward(event);
        if (event.item.type === "tool_result") this.#store(run);
        return undefined;
    }
    run.emitter.forward(event);
    return undefined;
  }

  /** Stores the new messages of a task, its record and the place in the remote log, with all events so far. */
  #store(
    run: TaskRun,
    change: Partial<TaskRecord> = {},
    more: readonly Message[] = [],
    taken: readonly string[] = [],
  ): void {
    this.#unstored = 0;
    const { messages, committedOutput } = newMessages(run, this.#tree);
    const record = { ...change, committedOutput, remote: this.#place(run) };
    writeStep(run, { messages: [...messages, ...more], record, taken });
  }

  #place({ record: { remote } }: TaskRun): NonNullable<TaskRecord["remote"]> {
    const { url, taskId } = remote ?? { url: this.#link.url, taskId: this.#top.taskId };
    return { url, taskId, cursor: this.cursor };
  }

  #promote(taskId: string): void {
    const child = this.runs.get(taskId);
    if (child === undefined) return;
    child.record = { ...child.record, mode: "background" };
    this.#store(child);
  }

  /** The budgets of the parents count what a remote task uses. */
  #countUsage(run: TaskRun, usage: Usage | undefined, cost = run.cost): void {
    if (usage === undefined) return;
    const grown = usage.total_tokens - run.usage.total_tokens;
    const spent = amountOf(cost) - amountOf(run.cost);
    if (grown > 0) run.budget.add({ ...usage, total_tokens: grown }, Math.max(0, spent));
    run.usage = usage;
    run.cost = cost;
  }

  /** An approval has an id of its own in the whole conversation: an answer must not reach another task. */
  async #ask(run: TaskRun, event: ApprovalRequested): Promise<undefined> {
    const { sessionId: conversation, store } = this.#conversation;
    const waiting = await waitingTasks(store, { conversation });
    if (waiting.some(({ approvals }) => approvals.some(({ id }) => id === event.approval_id)))
      throw forged(`approval ${event.approval_id} exists already`);
    run.emitter.forward(event);
    this.#store(run, {}, [controlMessage(run, suspensionOf(event))]);
  }

  /** Stores the answer that was given here, or one from elsewhere, such as the expiry on the server. */
  #resolve(run: TaskRun, event: ApprovalResolved): void {
    const { approval_id: approvalId, decision, by, reason } = event;
    const post = this.answers.get(approvalId);
    this.answers.delete(approvalId);
    if (post) run.claims.delete(post.id);
    const taken = post ? [post.id] : [];
    const blocks = messagesOf(run).flatMap(({ content }) => content);
    const asked = blocks.find(
      (block) => block.type === "suspension" && block.approvalId === approvalId,
    );
    const isNew = asked?.type === "suspension" && !isAnswered(run, approvalId);
    const { callId } = isNew ? asked : { callId: "" };
    const given = { ...(by !== undefined && { by }), ...(reason !== undefined && { reason }) };
    const answer = { type: "answer", approvalId, callId, decision, ...given } as const;
    const message = post?.message ?? controlMessage(run, answer);
    this.#store(run, {}, isNew ? [message] : [], taken);
  }

  async #rest(run: TaskRun, event: RestEvent): Promise<TaskRun> {
    this.#store(run);
    const { taskId, path } = run.record;
    if ("task" in event) this.#countUsage(run, event.task.usage);
    run.record = { ...run.record, remote: this.#place(run) };
    const ending = await endingOf(run, event, taskId === this.#top.taskId);
    if (ending.status !== "suspended") this.runs.delete(taskId);
    const isAsSent = ending.status === ("task" in event ? event.task.status : "suspended");
    const forwarded = { event: errorPlaced(event, { taskId, path }), isBelow: this.#isBelow(run) };
    await endTask(run, ending, isAsSent ? forwarded : undefined);
    return run;
  }

  #isBelow({ ref }: TaskRun): boolean {
    return ref.taskId !== this.#top.taskId;
  }

  /** Ends a task and those below it here, because the server cannot be asked or believed any more. */
  async end(run: TaskRun, ending: (run: TaskRun) => Ending, belowIt = ending): Promise<void> {
    const { taskId } = run.ref;
    for (const below of [...this.runs.values()].reverse())
      if (below.ancestors.includes(taskId)) await this.#end(below, belowIt(below));
    await this.#end(run, ending(run));
  }

  async #end(run: TaskRun, ending: Ending): Promise<void> {
    const { taskId } = run.ref;
    if (!this.runs.delete(taskId)) return;
    this.#closed.add(taskId);
    const { output = [] } = this.#tree.task(taskId) ?? {};
    const { committedOutput } = run.record;
    const isTurnOpen = output.some((item) => isOfTurn(item) && item.status === "in_progress");
    for (const [index, item] of output.entries()) {
      const { id } = item;
      if (item.type === "tool_result" && item.status === "in_progress")
        run.openResults.set(item.call_id, { id, index, blocks: item.block_list });
      else if (isTurnOpen && index >= committedOutput && isOfTurn(item))
        run.emitter.discardItem({ id, index }, "recovered");
    }
    const { messages } = newMessages(run, this.#tree);
    await commitStep(run, { messages, record: { committedOutput: output.length } });
    // A suspended task cannot show the results that end it.
    if (run.record.status === "suspended")
      run.emitter.emit({ type: "task.resumed", reason: "cancelled" });
    const state = ending.status === "failed" ? "error" : "interrupted";
    await settlePending(run, state, interruptedResult);
    await endTask(run, ending, undefined);
  }
}

/** Whether the transcript of a task has the answer to an approval. */
export function isAnswered(run: TaskRun, approvalId: string): boolean {
  return messagesOf(run).some(({ content }) =>
    content.some((block) => block.type === "answer" && block.approvalId === approvalId),
  );
}

type RestEvent = TaskSuspended | Extract<LogEvent, { readonly task: TaskObject }>;

/** How a remote task rests; the child itself must return what its caller has asked for. */
async function endingOf(run: TaskRun, event: RestEvent, isChild: boolean): Promise<Ending> {
  const last = completed(run, undefined);
  if (event.type === "task.suspended") {
    const { generate_reason: generateReason = "approval_required", reason } = event;
    const { next } = run.steps;
    const isOpen = next.type === "act" || next.type === "wait";
    const { message } = isOpen ? suspended(run, next) : last;
    return { status: "suspended", generateReason, message, suspension: { reason } };
  }
  const { status, error, structured, incomplete_details, reason } = event.task;
  const edited = editedMessage(event.task);
  const isEdited = edited && ({ message: edited, isEdited: true } as const);
  const { taskId, path, outputSchema } = run.record;
  switch (status) {
    case "failed": {
      const { code = "failed", message = "The task failed.", retryable, hint } = error ?? {};
      const more = { retryable: retryable === true, ...(hint !== undefined && { hint }) };
      return { status, error: new RivuletError(code, message, more).at({ taskId, path }) };
    }
    case "incomplete":
      return { ...incomplete(run, incomplete_details?.reason ?? "timeout"), ...isEdited };
    case "cancelled": {
      const why = reason !== undefined && { reason };
      return { ...last, status, generateReason: "interrupted", ...why, ...isEdited };
    }
    default: {
      const problem = isChild && outputSchema && (await outputProblem(outputSchema, structured));
      if (problem) return { status: "failed", error: problem.at({ taskId, path }) };
      if (structured === undefined) return { ...last, ...isEdited };
      return completed(run, undefined, { value: structured });
    }
  }
}

async function outputProblem(schema: object, value: unknown): Promise<RivuletError | undefined> {
  const { issues } = await jsonSchema(schema as JsonSchema)["~standard"].validate(value);
  if (issues === undefined) return undefined;
  const problems = issues.map(({ message }) => message).join("; ");
  const message = `The server returned a value that does not fit the output schema: ${problems}`;
  return new RivuletError("structured_output_invalid", message);
}

/** The place of an error is one in this tree. */
function errorPlaced(event: RestEvent, where: ErrorPlace): LogEvent {
  if (!("task" in event) || event.task.error === undefined) return event;
  return { ...event, task: { ...event.task, error: { ...event.task.error, where } } } as LogEvent;
}

/** The child is the root of the remote log. */
function withoutParent(event: LogEvent): LogEvent {
  if (event.type !== "task.created") return event;
  const {
    parent_task_id: _,
    parent_call_id: __,
    parent_item_id: ___,
    mode: ____,
    ...task
  } = event.task;
  return { ...event, task };
}

function amountOf(cost: Cost | undefined): number {
  return Number(cost?.amount ?? 0) || 0;
}

/** The server claims something that it has no right to. */
function forged(problem: string): RivuletError {
  return new RivuletError("remote_invalid", `The server may not do this: ${problem}.`, {
    hint: "Check that the address is that of a server that you trust.",
  });
}

function invalidEvent({ type, task_seq }: LogEvent, problem: string): RivuletError {
  const place = `${String(type).slice(0, 64)} ${String(task_seq).slice(0, 20)}`;
  return new RivuletError(
    "remote_invalid",
    `The server sent an invalid event (${place}): ${problem}.`,
    {
      hint: "Check the version of the other server, and the proxies before it.",
    },
  );
}
