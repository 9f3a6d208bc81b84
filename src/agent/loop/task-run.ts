import { freezePlain } from "../../base/plain.ts";
import { isThenable, patienceOf, untilCancelled } from "../../base/time.ts";
import type {
  Agent,
  Block,
  HookContext,
  Input,
  Message,
  Post,
  ReferencePool,
  RunOptions,
  StandardSchema,
  Store,
  TaskRecord,
  TaskRef,
  ToolCall,
} from "../../contract/index.ts";
import {
  type Cost,
  type ModelUsage,
  type Mutable,
  noUsage,
  type Source,
  sumOf,
  type Usage,
  type WrittenItem,
} from "../../protocol/index.ts";
import type { BudgetMeter } from "../base/budget.ts";
import type { TaskEmitter } from "../events/emit.ts";
import type { LogWriter, StepChange } from "../events/log-writer.ts";
import type { TurnRequest } from "../model/turn.ts";
import type { ChildOptions, ChildOutcome, LayeredContext } from "../tool/context.ts";
import type { Permissions } from "../tool/permission.ts";
import { definitionOf, type Tool, type ToolDefinition } from "../tool/tool.ts";
import type { StepState } from "./next.ts";
import type { AgentSettings } from "./settings.ts";
import { structuredTool } from "./structured-output.ts";
import type { TaskTrace } from "./trace.ts";

/** Sees the request of a model call before the model does. */
export type OnModelCall = (task: TaskRun, request: TurnRequest) => void;

/** Takes the place of the models and the tools of all tasks in a process. */
export interface StandIn {
  /** Resolves when a task may take its next step. */
  step(task: TaskRun): Promise<void>;
  /** The models that answer a request, and the ids for their reply; rejects with what fails the task. */
  turn(task: TaskRun, request: TurnRequest): Promise<Pick<AgentSettings, "models" | "ids">>;
  /** The tool that executes a call. */
  tool(task: TaskRun, call: ToolCall, definition: ToolDefinition): ToolDefinition;
}

/** The conversation of a task, as its owner in this process offers it to the loop. */
export interface TaskConversation {
  readonly store: Store;
  readonly process: {
    readonly onModelCall: OnModelCall | undefined;
    readonly standIn: StandIn | undefined;
  };
  /** The root session. */
  readonly sessionId: string;
  /** Aborts when this process may no longer write. */
  readonly lost: { readonly signal: AbortSignal };
  /** Knows when no task is within a step. */
  readonly handOver: {
    /** Whether no further step begins. */
    readonly hasBegun: boolean;
    /** Called before each step of a task; during a hand-over it resolves when `signal`, that of the task, aborts. */
    beforeStep(taskId: string, signal: AbortSignal): Promise<void> | undefined;
    /** Notes a call that runs; returns the function that ends it. */
    callRuns(taskId: string, callId: string): () => void;
  };
  /** Rejects when this process has lost the conversation; asks the store when it may have. */
  assertHeld(): Promise<void>;
  /** Calls `run` when a row was posted to the conversation; the returned function ends that. */
  onPost(run: () => void): () => void;
  /** Runs an agent as the child of a call, or continues the child that the call has started. */
  runChild(
    parent: TaskRun,
    callId: string,
    agent: Agent,
    input: Input,
    options: ChildOptions & { readonly signal: AbortSignal },
  ): Promise<ChildOutcome>;
  /** Ends descendants that nothing drives; `sync` are only those that calls of the task wait for. */
  cancelChildren(task: TaskRun, which: "all" | "sync", reason?: Error): Promise<void>;
  /** Cancels a sync child whose call finished without it (timeout or abort). */
  cancelChildOf(task: TaskRun, callId: string): Promise<void>;
  /** Resolves when the sync child of a call has stopped; undefined when none runs here. */
  childStopped(callId: string): Promise<unknown> | undefined;
  /** Aborts a task and its descendants, as far as they run here. */
  abortTree(taskId: string, reason: unknown): void;
  /** Cancels a task with its descendants, wherever they run; resolves when it has ended. */
  cancelTask(taskId: string, reason: string): Promise<void>;
}

/** The place of a task among the others; it never changes. */
export interface TaskIdentity {
  readonly ref: TaskRef;
  /** Undefined for a root. */
  readonly source: Source | undefined;
  /** The ids of the tasks above it, the root's first. */
  readonly ancestors: readonly string[];
  /** The row kind that delivers the end of a background task: `input` starts an idle session, `hint` waits. */
  readonly deliveryKind: "hint" | "input";
}

/** The values of a task that each step stores. A drive and its open task share the object. */
export interface TaskState {
  record: TaskRecord;
  usage: Usage;
  cost: Cost | undefined;
  /** The shares of the models in `usage`. */
  byModel: readonly ModelUsage[];
}

/** The end of a task's transcript; see `readTranscript`. */
export interface TaskTranscript {
  readonly messages: Message[];
  /** The index of the first of them in the session. */
  offset: number;
  /** The next step after the transcript. */
  steps: StepState;
  /** How many entries of the reference pool the transcript holds. */
  storedReferences: number;
  /** Resolves when the pool has the references from before `messages`; undefined until they are needed. */
  earlierReferences: Promise<void> | undefined;
  /** The last frozen copy of `messages` that a hook or a tool has read. */
  view?: readonly Message[];
}
type ViewedTranscript = Pick<TaskTranscript, "messages" | "view">;

/** The writing side of a task. */
export interface TaskOutput {
  readonly log: LogWriter;
  readonly emitter: TaskEmitter;
  /** The `tool_result` items that are open, by call id. */
  readonly openResults: Map<string, WrittenItem>;
  /** The calls that have started a child. */
  readonly childCalls: Set<string>;
  pool: ReferencePool;
}

/** The parts of a task that stop it. */
export interface TaskControl {
  readonly controller: AbortController;
  /** Stops the calls: aborts with the task, and when one of them fails it. */
  readonly calls: AbortController;
  /** The time of the cancel. */
  cancelledAt: number | undefined;
  /** The inbox rows that a call's result or the task's end takes, by row. */
  readonly claims: Map<string, string>;
  /** True after the event that ends or suspends the task; no event may follow it. */
  isResting: boolean;
}

/** The values and rules that hooks and tools of a task get. */
export interface TaskScope {
  readonly caller: RunOptions<StandardSchema | undefined>;
  readonly context: LayeredContext;
  readonly hookContext: HookContext;
  /** The values that pieces of this package keep for the task, by keys of their own. */
  readonly kept: Map<symbol, unknown>;
  /** The permission rules of this task and its ancestors. */
  readonly permissions: readonly Permissions[];
  /** The tool that submits a structured answer; undefined until it is offered. */
  structuredTool: Tool | undefined;
}

/** A task while this process drives it; the record and the messages hold everything that must outlive the process. */
export interface TaskRun {
  readonly settings: AgentSettings;
  readonly conversation: TaskConversation;
  readonly identity: TaskIdentity;
  readonly state: TaskState;
  readonly transcript: TaskTranscript;
  readonly output: TaskOutput;
  readonly control: TaskControl;
  readonly scope: TaskScope;
  readonly budget: BudgetMeter;
  /** Undefined without a tracer. */
  readonly trace: TaskTrace | undefined;
}

/** The messages of a task and its id. */
export interface TaskWords {
  readonly identity: Pick<TaskIdentity, "ref">;
  readonly transcript: Pick<TaskTranscript, "messages">;
}

/** The state of a task as of its record. */
export function stateOf(record: TaskRecord): TaskState {
  return {
    record,
    usage: record.usage ?? noUsage,
    cost: record.cost,
    byModel: record.byModel ?? [],
  };
}

/** Stands for a call id, for rows that the end of the task takes. */
export const untilItEnds = "";

/** The rows that the result of a call takes, or the end of the task. */
export function claimedBy({ control: { claims } }: TaskRun, callId: string): readonly string[] {
  if (claims.size === 0) return [];
  return [...claims].flatMap(([row, by]) => (by === callId ? [row] : []));
}

/** The changes of one step besides its events. */
export interface StepWrite {
  readonly messages?: readonly Message[];
  readonly record?: Partial<TaskRecord>;
  readonly posts?: readonly Post[];
  readonly taken?: readonly string[];
  /** True: begins the task; the store refuses the commit while an earlier task of the session is unfinished. */
  readonly begins?: true;
}

/** Commits a step: messages, record and all events so far. */
export function commitStep(task: TaskRun, write: StepWrite = {}): Promise<void> {
  return task.output.log.commit(applyStep(task, write));
}

/** Commits a step without waiting for the disk; the next wait, before tools start or the task rests, throws its error. */
export function writeStep(task: TaskRun, write: StepWrite): void {
  task.output.log.write(applyStep(task, write));
}

function applyStep(task: TaskRun, write: StepWrite): StepChange {
  const { messages = [], record, posts = [], taken = [], begins } = write;
  const { transcript } = task;
  const at = transcript.offset + transcript.messages.length;
  for (const message of messages) transcript.messages.push(freezePlain(message));
  const { usage, cost, byModel } = task.state;
  const changed: Mutable<TaskRecord> = { ...task.state.record };
  if (record) Object.assign(changed, record);
  if (cost) changed.cost = cost;
  if (byModel.length > 0) changed.byModel = byModel;
  changed.usage = usage;
  changed.workedMs = task.budget.wallMs;
  task.state.record = changed;
  const { sessionId } = changed;
  const appends = messages.length > 0 ? [{ sessionId, at, messages }] : [];
  const begun = begins && { begins: task.identity.ref.taskId };
  return { appends, tasks: [changed], posts, taken, ...begun };
}

/** The usage and the cost of a task and all its descendants, as far as the store has them. */
export async function totalOf(task: TaskRun): Promise<NonNullable<TaskRecord["total"]>> {
  const own = { usage: task.state.usage, ...(task.state.cost && { cost: task.state.cost }) };
  if (task.output.childCalls.size === 0) return own;
  return sumOf([own, ...(await descendantsOf(task))]);
}

/** The cost is in proportion to the task's own descendants, not to the tree that it is part of. */
async function descendantsOf(task: TaskRun): Promise<readonly TaskRecord[]> {
  const { store } = task.conversation;
  const { rootTaskId, taskId } = task.identity.ref;
  if (taskId === rootTaskId) {
    const tree = await store.tasks({ rootTaskId });
    return tree.filter((record) => record.taskId !== taskId);
  }
  const children = await Promise.all([...task.output.childCalls].map((id) => store.task(id)));
  const found = children.filter((record) => record !== undefined);
  // The list grows while it is read.
  for (const { taskId: parentTaskId, sessionId: parentSessionId } of found) {
    const below = await store.tasks({ parentSessionId });
    found.push(...below.filter((record) => record.parentTaskId === parentTaskId));
  }
  return found;
}

/** A class, because a getter in an object literal gives each object a hidden class that outlives it in the old space. */
class MessagesView {
  readonly #transcript: ViewedTranscript;
  readonly #length: number | undefined;

  constructor(transcript: ViewedTranscript, length: number | undefined) {
    this.#transcript = transcript;
    this.#length = length;
  }

  get messages(): readonly Message[] {
    const { messages, view } = this.#transcript;
    const length = this.#length ?? messages.length;
    if (view?.length === length) return view; // a transcript only grows
    this.#transcript.view = Object.freeze(messages.slice(0, length));
    return this.#transcript.view;
  }
}

/** Adds a frozen view of a transcript, copied when it is read: of its first `length` messages, or as it is then. */
export function withMessages<T extends { readonly messages: readonly Message[] }>(
  transcript: ViewedTranscript,
  fields: Omit<T, "messages">,
  length?: number,
): T {
  return Object.assign(new MessagesView(transcript, length), fields) as unknown as T;
}

/** Opens the item of a call's result. */
export function addResultItem(task: TaskRun, callId: string): WrittenItem {
  const item = task.output.emitter.addItem({
    type: "tool_result",
    id: task.settings.ids.next("fco"),
    status: "in_progress",
    call_id: callId,
    block_list: [],
  });
  task.output.openResults.set(callId, item);
  return item;
}

/** The open item of a call's result. */
export function resultItem(task: TaskRun, callId: string): WrittenItem {
  const item = task.output.openResults.get(callId);
  if (item === undefined) throw new Error(`No item is open for call ${callId}.`);
  return item;
}

/** The value that a piece of this package keeps for a task. */
export function keptFor<T extends object>({ scope }: TaskRun, key: symbol, create: () => T): T {
  const value = (scope.kept.get(key) as T | undefined) ?? create();
  scope.kept.set(key, value);
  return value;
}

/** A control message that the model never sees. */
export function controlMessage(task: TaskRun, block: Block): Message {
  const { ids, name } = task.settings;
  const metadata = { taskId: task.identity.ref.taskId };
  return { id: ids.next("msg"), role: "tool", name, content: [block], metadata };
}

/** Refreshes the tool sources unless the task was cancelled; undefined without sources. */
export function refreshTools(task: TaskRun): Promise<void> | undefined {
  const { toolkit } = task.settings;
  const { signal } = task.control.controller;
  if (!toolkit.hasSources || signal.aborted) return undefined;
  const refreshed = toolkit.refresh(signal);
  if (!isThenable(refreshed)) return undefined;
  return untilCancelled(patienceOf(task, signal), async () => refreshed);
}

/** The tools on offer, including the one for structured output. */
export function offeredTools(task: TaskRun): readonly Tool[] {
  const { toolkit, name } = task.settings;
  const offered = toolkit.active(task.transcript.messages, name);
  const structured = structuredTool(task);
  if (structured === undefined) return offered;
  return [...offered.filter((tool) => tool.name !== structured.name), structured];
}

/** Finds a tool on offer by its name. */
export function findTool(task: TaskRun, name: string): ToolDefinition | undefined {
  const found = offeredTools(task).find((tool) => tool.name === name);
  return found && definitionOf(found);
}
