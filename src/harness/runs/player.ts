import {
  iterationOf,
  type LanguageModel,
  type StandIn,
  type TaskRun,
  type ToolContext,
  type ToolDefinition,
  ToolFailure,
  type TurnRequest,
} from "../../agent/index.ts";
import { onAbort } from "../../base/clock.ts";
import type { RivuletError } from "../../base/error.ts";
import type {
  Block,
  Message,
  Store,
  SuspensionBlock,
  ToolCall,
  ToolResultBlock,
  ToolUseBlock,
} from "../../contract/index.ts";
import { isTasksNote } from "../prompts.ts";
import { differs, firstDifference } from "./difference.ts";
import { playedModel } from "./played-model.ts";
import {
  milestoneOf,
  ownMessages,
  type RecordedPrompt,
  type RecordedTask,
  type RunRecording,
} from "./recording.ts";

/** The parts of a replay that come from the recording, and those that run. */
export interface Playing {
  readonly models: "recorded" | "live";
  readonly tools: "recorded" | "live";
  /** True: only the input and the decisions come from the recording, and nothing is compared. */
  readonly isFresh?: boolean;
}

/** Tools that act on the tree of tasks itself, which a replay builds again. */
const treeTools = new Set([
  ...["agent_spawn", "agent_send", "agent_list", "load_skill", "todo_write"],
  ...["task_output", "task_wait", "task_cancel", "task_list"],
]);
/** How long a step waits for the steps that were before it; later, it takes another course and is compared. */
const patienceMs = 2_000;

/** Plays the part of the models and tools of a recorded run, in the recorded order. */
export class Player implements StandIn {
  /** The first difference from the recording. */
  difference: RivuletError | undefined;
  /** Sends a message to the root task that runs. */
  steer: (text: string) => Promise<void> = async () => {};
  /** Cancels the root task that runs. */
  cancelRun: (reason?: string) => Promise<void> = async () => {};
  readonly #recording: RunRecording;
  readonly #store: Store;
  readonly #playing: Playing;
  readonly #tasks: ReadonlyMap<string, RecordedTask>;
  /** The recorded id of a call that a live model made. */
  readonly #recordedIds = new Map<string, string>();
  readonly #prompts = new Map<string, RecordedPrompt[]>();
  readonly #reached = new Map<string, number>();
  /** The last model call that each task has begun. */
  readonly #turns = new Map<string, number>();
  readonly #waiting = new Set<() => void>();
  /** How many live tools run. */
  #running = 0;
  readonly #unwatch: (() => void)[] = [];
  /** True when live models decide the order, or when the run takes another course. */
  #isOutOfOrder: boolean;

  constructor(recording: RunRecording, store: Store, playing: Playing) {
    this.#recording = recording;
    this.#store = store;
    this.#playing = playing;
    this.#isOutOfOrder = playing.models === "live";
    this.#tasks = new Map(recording.tasks.map((task) => [task.taskId, task]));
    for (const { taskId, parentTaskId } of recording.tasks)
      if (parentTaskId === undefined) this.#follow(taskId);
  }

  close(): void {
    for (const unwatch of this.#unwatch) unwatch();
  }

  /** The recorded id of a call or of the task that it started. */
  recordedId(id: string): string {
    return this.#recordedIds.get(id) ?? id;
  }

  /** The id here of a recorded task. */
  liveId(recordedId: string): string {
    const found = [...this.#recordedIds].find(([, recorded]) => recorded === recordedId);
    return found?.[0] ?? recordedId;
  }

  /** The recorded id of a call that waits for a person; a live model's is that with the same name, and input if it can. */
  recordedCall(taskId: string, { id, name, input }: ToolCall): string {
    if (this.#recordedIds.has(id) || this.#playing.models === "recorded")
      return this.recordedId(id);
    const { isFresh } = this.#playing;
    const own = this.recordedId(taskId);
    const taken = new Set(this.#recordedIds.values());
    const free = this.#recording.tasks
      .filter((task) => isFresh || task.taskId === own)
      .flatMap(({ messages }) => messages.flatMap(({ content }) => content))
      .filter((block): block is ToolUseBlock => block.type === "tool_use" && block.name === name)
      .filter((block) => !taken.has(block.id));
    const same = free.find((block) => firstDifference(block.input, input) === undefined);
    const found = same ?? (isFresh ? free[0] : undefined);
    if (found) this.#recordedIds.set(id, found.id);
    return this.recordedId(id);
  }

  /** Ends the replay with an error. */
  fail(error: RivuletError): void {
    this.difference ??= error;
    void this.cancelRun("The run differs from its recording.");
    this.#wake();
  }

  /** The recording with the prompts that the agents have now. */
  withPrompts(): RunRecording {
    const tasks = this.#recording.tasks.map((task) => {
      const prompts = this.#prompts.get(task.taskId);
      return prompts ? { ...task, prompts } : task;
    });
    return { ...this.#recording, tasks };
  }

  /** Lets the work be done that is delivered to the task before its next model call. */
  async step(task: TaskRun): Promise<void> {
    const recorded = this.#tasks.get(this.recordedId(task.identity.ref.taskId));
    if (recorded === undefined || this.#isOutOfOrder) return;
    const { order, tasks } = this.#recording;
    const index = tasks.indexOf(recorded);
    const iteration = iterationOf(task) + 1;
    const reply = recorded.messages.find(({ metadata }) => metadata?.iteration === iteration);
    if (reply === undefined) {
      const { status } = recorded;
      if (status !== "cancelled" && task.transcript.steps.next.type === "done")
        await this.#inOrder(recorded, `task.${status}`);
      return;
    }
    const next = order.findIndex(
      (moment) => moment[0] === index && moment[1] === `reply ${reply.id}`,
    );
    const last = order.slice(0, Math.max(next, 0)).findLastIndex((moment) => moment[0] === index);
    if (order[last]?.[1] === "task.hint.added") await this.#until(recorded, last);
  }

  async turn(task: TaskRun, request: TurnRequest): ReturnType<StandIn["turn"]> {
    if (this.difference) throw this.difference;
    const { settings } = task;
    const step = iterationOf(task) + 1;
    const { isFresh, models } = this.#playing;
    const known = this.#tasks.get(this.recordedId(task.identity.ref.taskId));
    const at = (known?.messages ?? []).findIndex(
      ({ role, metadata }) => role === "assistant" && metadata?.iteration === step,
    );
    if (known && at >= 0 && models === "live") await this.#steerAfter(known, at);
    if (isFresh) return settings;
    const recorded = this.#recordedTask(task);
    this.#comparePrompt(task, recorded, request, step);
    if (models === "live") return settings;
    const until = at < 0 ? recorded.messages : recorded.messages.slice(0, at);
    this.#compareMessages(task, until, step);
    const reply = recorded.messages[at];
    if (reply === undefined && recorded.status !== "failed" && recorded.status !== "cancelled")
      this.#fail(task, step, "calls its model once more than in the recording");
    if (reply) await this.#steerAfter(recorded, at);
    this.#turns.set(recorded.taskId, step);
    this.#wake();
    await this.#inOrder(recorded, reply ? `reply ${reply.id}` : "task.failed");
    const names = reply?.content.flatMap((block) => (block.type === "tool_use" ? [block.id] : []));
    const calls = [...(names ?? [])];
    const { ids } = settings;
    const cancel = () => this.#cancel(task, recorded);
    const model = playedModel(reply && (await this.#translate(reply)), recorded, cancel);
    return {
      models: [model as LanguageModel],
      ids: {
        uuid: () => ids.uuid(),
        next: (prefix) => (prefix === "call" && calls.shift()) || ids.next(prefix),
      },
    };
  }

  tool(task: TaskRun, call: ToolCall, definition: ToolDefinition): ToolDefinition {
    if (this.#playing.isFresh) return definition;
    const recorded = this.#recordedTask(task);
    const step = iterationOf(task);
    const made = this.#recordedCall(task, recorded, call, step);
    this.#recordedIds.set(call.id, made.id);
    const { execute } = definition;
    if (execute === undefined) return definition;
    const blocks = recorded.messages.flatMap(({ content }) => content);
    const result = blocks.find(
      (block): block is ToolResultBlock => block.type === "tool_result" && block.id === made.id,
    );
    const question = blocks.find(
      (block): block is SuspensionBlock =>
        block.type === "suspension" && block.callId === made.id && block.kind === "question",
    );
    const isTree = this.#tasks.has(made.id) || treeTools.has(call.name);
    if (this.#playing.tools === "live" && !isTree)
      return {
        ...definition,
        execute: async (input, context) => {
          this.#running += 1;
          try {
            return await execute(input, context);
          } finally {
            this.#running -= 1;
            if (question === undefined) await this.#inOrder(recorded, `result ${made.id}`, true);
          }
        },
      };
    const isInterrupted = result === undefined || result.state === "interrupted";
    const untilItsTurn = async ({ signal }: ToolContext) => {
      if (!isInterrupted) return this.#inOrder(recorded, `result ${made.id}`, true);
      void this.#cancel(task, recorded);
      return new Promise<void>((_, reject) => onAbort(signal, () => reject(signal.reason)));
    };
    if (this.#tasks.has(made.id) || (treeTools.has(call.name) && !isInterrupted))
      return {
        ...definition,
        execute: async (input, context) => {
          const returned = await execute(input, context);
          if (isInterrupted && recorded.status === "cancelled") await untilItsTurn(context);
          return returned;
        },
      };
    return {
      ...definition,
      execution: { ...definition.execution, maxAttempts: 1, timeoutMs: null },
      execute: async (_, context) => {
        if (question && context.resumed === undefined && !isAnswered(task, call.id)) {
          const { responseSchema, resume } = question;
          context.suspend(question.reason ?? "", {
            ...(responseSchema && { responseSchema }),
            ...(resume !== undefined && { resume: {} }),
          });
        }
        await untilItsTurn(context);
        const output = result?.output.filter((block) => !isMark(block)) ?? [];
        const text = output.map((block) => (block.type === "text" ? block.text : "")).join("\n");
        if (result?.state === "error") throw new ToolFailure("tool_failed", text);
        return output;
      },
    };
  }

  #recordedTask(task: TaskRun): RecordedTask {
    const recorded = this.#tasks.get(this.recordedId(task.identity.ref.taskId));
    return recorded ?? this.#fail(task, undefined, "is not in the recording");
  }

  /** The recorded call of a call: the same one, or with a live model the one with the same name and input. */
  #recordedCall(task: TaskRun, { messages }: RecordedTask, call: ToolCall, step: number) {
    const calls = messages
      .filter(({ metadata }) => metadata?.iteration === step)
      .flatMap(({ content }) => content)
      .filter((block): block is ToolUseBlock => block.type === "tool_use");
    const same = calls.find(({ id }) => id === this.recordedId(call.id));
    if (same) return same;
    const taken = new Set(this.#recordedIds.values());
    const free = calls.filter(({ id }) => !taken.has(id));
    const found = free.find(
      ({ name, input }) => name === call.name && firstDifference(input, call.input) === undefined,
    );
    if (found) return found;
    const [first] = free;
    const told = `calls ${call.name} with ${JSON.stringify(call.input)}`;
    if (first === undefined) return this.#fail(task, step, `${told}, which it did not call`);
    const what = firstDifference(
      { name: first.name, input: first.input },
      { name: call.name, input: call.input },
    );
    return this.#fail(task, step, `has another call: ${what}`);
  }

  #comparePrompt(task: TaskRun, recorded: RecordedTask, request: TurnRequest, step: number): void {
    const tools = request.tools.map(
      ({ name, description, inputSchema }) =>
        [name, `${description}\n${JSON.stringify(inputSchema)}`] as const,
    );
    const now = { system: request.systemPrompt, tools: Object.fromEntries(tools) };
    const known = this.#prompts.get(recorded.taskId) ?? [];
    const { iteration: _, ...last } = known.at(-1) ?? { iteration: 0 };
    if (firstDifference(last, now) !== undefined) known.push({ iteration: step, ...now });
    this.#prompts.set(recorded.taskId, known);
    const kept = recorded.prompts?.findLast(({ iteration }) => iteration <= step);
    if (kept === undefined) return;
    const { iteration, ...then } = kept;
    const difference = firstDifference(then, now);
    if (difference) this.#fail(task, step, `has another prompt: ${difference}`);
  }

  #compareMessages(task: TaskRun, until: readonly Message[], step: number): void {
    const own = ownMessages(task.transcript.messages, task.identity.ref.taskId);
    const difference = firstDifference(seenOf(until), seenOf(own));
    if (difference) this.#fail(task, step, `has another prompt: messages${difference}`);
  }

  #fail(task: TaskRun, step: number | undefined, what: string): never {
    const { path, depth } = task.state.record;
    const below = path
      .split("/")
      .slice(-depth - 1)
      .slice(1);
    this.fail(differs([this.#recording.agent, ...below].join("/"), step, what));
    throw this.difference;
  }

  /** Cancels the run where it was cancelled; a task that another agent cancelled is cancelled by that agent's call. */
  async #cancel({ identity }: TaskRun, { status }: RecordedTask): Promise<void> {
    const root = this.#tasks.get(identity.ref.rootTaskId);
    if (root === undefined || status !== "cancelled") return;
    if (root.status !== "cancelled" && this.#hasCancelCalls()) return;
    await this.#inOrder(root, "task.cancelling", true);
    await this.cancelRun(root.reason);
  }

  #hasCancelCalls(): boolean {
    return this.#recording.runs.some(({ agents }) =>
      agents.some(({ calls }) => calls.some(({ name }) => name === "task_cancel")),
    );
  }

  /** Sends the messages that steered the root task before its next model call. */
  async #steerAfter(recorded: RecordedTask, at: number): Promise<void> {
    if (recorded.parentTaskId !== undefined) return;
    const next = recorded.messages.findIndex(
      ({ role, metadata }, index) => index > at && role === "assistant" && metadata?.iteration,
    );
    const between = recorded.messages.slice(at + 1, next < 0 ? undefined : next);
    for (const { role, content, metadata } of between) {
      const [block] = content;
      if (role === "user" && block?.type === "text" && metadata?.input !== true)
        await this.steer(block.text);
    }
  }

  /** The reply with the sessions and keys that its subagents have in this run. */
  async #translate(reply: Message): Promise<Message> {
    let text = JSON.stringify(reply);
    for (const { taskId, agentKey, sessionId, parentTaskId } of this.#recording.tasks) {
      if (parentTaskId === undefined || !(text.includes(agentKey) || text.includes(sessionId)))
        continue;
      const record = await this.#store.task(taskId);
      if (record)
        text = text.replaceAll(agentKey, record.agentKey).replaceAll(sessionId, record.sessionId);
    }
    return JSON.parse(text) as Message;
  }

  /** Waits until all that was before a moment of a task has happened. */
  async #inOrder(recorded: RecordedTask, key: string, withOwn = false): Promise<void> {
    const { order, tasks } = this.#recording;
    if (this.#isOutOfOrder) return;
    const index = tasks.indexOf(recorded);
    const at = order.findIndex((moment) => moment[0] === index && moment[1] === key);
    if (at >= 0) await this.#until(recorded, at, withOwn);
  }

  async #until(recorded: RecordedTask, at: number, withOwn = false): Promise<void> {
    const others = this.#recording.tasks
      .filter((task) => withOwn || task !== recorded)
      .map((task) => this.#needOf(task, at));
    const isDue = () =>
      others.every(
        ({ id, count, turn }) =>
          (this.#reached.get(id) ?? 0) >= count && (this.#turns.get(id) ?? 0) >= turn,
      );
    const timer = setInterval(() => {
      if (this.#running > 0) return;
      this.#isOutOfOrder = true;
      this.#wake();
    }, patienceMs);
    while (!this.#isOutOfOrder && !this.difference && !isDue())
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    clearInterval(timer);
  }

  /** How far a task was at an index of the order: how many moments it had, and which model call it had begun. */
  #needOf(task: RecordedTask, at: number) {
    const { order, tasks } = this.#recording;
    const index = tasks.indexOf(task);
    const count = order.slice(0, at).filter((moment) => moment[0] === index).length;
    const [, next = ""] =
      (count > 0 && order.slice(at).find((moment) => moment[0] === index)) || [];
    const reply = task.messages.find(({ id }) => next === `reply ${id}`);
    return { id: task.taskId, count, turn: reply?.metadata?.iteration ?? 0 };
  }

  #follow(log: string): void {
    let after = -1;
    let reading = Promise.resolve();
    const read = async () => {
      for (;;) {
        const events = await this.#store.read(log, after, 1_000);
        for (const event of events) {
          const key = milestoneOf(event);
          if (key === undefined || !("task_id" in event)) continue;
          const id = event.task_id as string;
          this.#reached.set(id, (this.#reached.get(id) ?? 0) + 1);
        }
        after += events.length;
        if (events.length === 0) return this.#wake();
      }
    };
    const wake = () => {
      reading = reading.then(read, () => {});
    };
    this.#unwatch.push(this.#store.watch({ log }, wake));
  }

  #wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const resolve of waiting) resolve();
  }
}

function isAnswered({ transcript }: TaskRun, callId: string): boolean {
  return transcript.messages.some(({ content }) =>
    content.some((block) => block.type === "answer" && block.callId === callId),
  );
}

/** Marks around a result that can be cited are added again. */
function isMark(block: Block): boolean {
  return block.type === "text" && (block.tags?.length ?? 0) > 0;
}

/** The part of messages that a model sees; results in the order of their calls, because parallel calls end in any order. */
function seenOf(messages: readonly Message[]): unknown {
  const calls = new Map<string, number>();
  const seen: {
    readonly role: string;
    readonly content: readonly unknown[];
    readonly at: number;
  }[] = [];
  for (const [index, { role, content }] of messages.entries()) {
    for (const block of content) if (block.type === "tool_use") calls.set(block.id, calls.size);
    const [first] = content;
    const visible = content.flatMap(seenBlock);
    const at = first?.type === "tool_result" ? -1e6 + (calls.get(first.id) ?? 0) : index;
    if (visible.length > 0) seen.push({ role, content: visible, at });
  }
  for (let from = 0; from < seen.length; from++) {
    let to = from;
    while (seen[to]?.role === "tool") to += 1;
    seen.splice(from, to - from, ...seen.slice(from, to).sort((a, b) => a.at - b.at));
    from = to;
  }
  return seen.map(({ role, content }) => ({ role, content }));
}

function seenBlock(block: Block): readonly unknown[] {
  switch (block.type) {
    case "hint":
      // Which tasks run depends on the moment; what they bring is compared.
      return isTasksNote(block.text) ? [] : [{ type: "hint", text: block.text }];
    case "text":
      return block.text === "" ? [] : [{ type: block.type, text: block.text }];
    case "tool_use":
      return [{ call: block.name, input: block.input }];
    case "tool_result":
      // How an interrupted call is told depends on the moment.
      if (block.state === "interrupted") return [{ result: block.name, state: block.state }];
      return [{ result: block.name, state: block.state, output: block.output.flatMap(seenBlock) }];
    case "image":
    case "audio":
    case "video":
    case "file":
      return [{ type: block.type, source: block.source }];
    default:
      return [];
  }
}
