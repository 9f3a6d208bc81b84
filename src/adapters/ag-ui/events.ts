import type { Event as AguiEvent, EventType, Interrupt } from "@ag-ui/core";
import { stateOf, streamedText } from "../../contract/index.ts";
import {
  type ApprovalRequested,
  type ApprovalState,
  type Item,
  isTerminal,
  type LogEvent,
  type Task,
  type TaskEvent,
  TaskTree,
  type Tree,
  type WireBlock,
} from "../../protocol/index.ts";
import { unfold, unfoldTree } from "../foreign-snapshot.ts";

/** The ids of a run in AG-UI: a session, and one request of the client. */
export interface RunIds {
  readonly threadId: string;
  readonly runId: string;
}

type Body = { readonly type: `${EventType}`; readonly [field: string]: unknown };

/** An open part of the client's run, and the events that close it. */
interface Open {
  readonly taskId: string;
  readonly closes: readonly Body[];
}

/**
 * Translates the log of a root task, which must be read from its beginning, to one run of AG-UI. `begin` starts the run
 * where the log stands; what came before only tells what a client knows.
 */
export class AguiEvents {
  readonly #rootId: string;
  readonly #ids: RunIds;
  readonly #addressOf: (url: string) => string;
  #tree = new TaskTree();
  /** The tasks below the root that have not ended, in the order of their starts. */
  readonly #running = new Set<string>();
  /** The texts, reasonings and calls that are open in this run, by id. */
  readonly #open = new Map<string, Open>();
  /** The approvals that wait, with the task that asks. */
  readonly #asking = new Map<string, ApprovalRequested | ApprovalState>();
  readonly #askers = new Map<string, string>();
  #isBegun = false;
  #isOver = false;

  constructor(rootId: string, ids: RunIds, addressOf: (url: string) => string) {
    this.#rootId = rootId;
    this.#ids = ids;
    this.#addressOf = addressOf;
  }

  /** Whether the run of the client has ended. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** The first events of the run; with messages, the client starts its own anew. */
  begin(messages?: readonly object[]): readonly AguiEvent[] {
    this.#isBegun = true;
    const started: Body = { type: "RUN_STARTED", ...this.#ids, protocolVersion: "1.0" };
    const snapshot: readonly Body[] =
      messages === undefined ? [] : [{ type: "MESSAGES_SNAPSHOT", messages }];
    const children = [...this.#running].map((taskId) => this.#started(taskId));
    return asEvents([started, ...snapshot, ...children]);
  }

  /** The first events of a run that a client joins: its messages, then the state of the log. */
  join(tree: Tree, messages: readonly object[]): readonly AguiEvent[] {
    this.#tree = new TaskTree({ from: tree });
    const started = this.begin(messages);
    const bodies = unfoldTree(tree, this.#rootId).flatMap((event) => {
      this.#note(event);
      return this.#isOver ? [] : this.#bodiesOf(event);
    });
    return [...started, ...asEvents(bodies)];
  }

  /** The events of the run for one event of the log. */
  translate(event: TaskEvent): readonly AguiEvent[] {
    if (event.type === "error" || this.#isOver) return [];
    this.#tree.apply(event);
    this.#note(event);
    if (!this.#isBegun) return [];
    const events = event.type === "task.snapshot" ? unfold(event) : [event];
    return asEvents(events.flatMap((each) => this.#bodiesOf(each)));
  }

  /** Keeps what the next run needs, whether or not this one has begun. */
  #note(event: Exclude<TaskEvent, { type: "error" }>): void {
    const { task_id: taskId } = event;
    if (event.type === "task.created" && taskId !== this.#rootId) this.#running.add(taskId);
    if (event.type === "task.approval.requested") {
      this.#asking.set(event.approval_id, event);
      this.#askers.set(event.approval_id, taskId);
    }
    if (event.type === "task.approval.resolved") this.#asking.delete(event.approval_id);
    if (event.type === "task.snapshot") {
      for (const approval of event.task.approvals ?? []) {
        if (approval.decision !== undefined) continue;
        this.#asking.set(approval.approval_id, approval);
        this.#askers.set(approval.approval_id, taskId);
      }
      if (taskId !== this.#rootId && !isTerminal(event.task.status)) this.#running.add(taskId);
    }
    if (this.#isBegun) return;
    if ("task" in event && isTerminal(event.task.status)) this.#running.delete(taskId);
  }

  #bodiesOf(event: LogEvent): readonly Body[] {
    const { task_id: taskId } = event;
    switch (event.type) {
      case "task.created":
        return taskId === this.#rootId ? [] : [this.#started(taskId)];
      case "task.suspended":
        return taskId === this.#rootId ? this.#interrupted() : [];
      case "task.completed":
      case "task.incomplete":
      case "task.failed":
      case "task.cancelled":
        return taskId === this.#rootId ? this.#runEnded() : this.#childEnded(taskId);
      case "task.output_item.added":
        return this.#added(taskId, event.item);
      case "task.output_item.done":
        return this.#done(taskId, event.output_index);
      case "task.output_item.discarded":
        return this.#discarded(taskId, event.item_id);
      case "task.custom":
        return [{ type: "CUSTOM", name: event.name, value: event.value, ...this.#by(taskId) }];
      default:
        return this.#partOf(taskId, event);
    }
  }

  #partOf(taskId: string, event: LogEvent): readonly Body[] {
    switch (event.type) {
      case "task.reasoning_summary_text.delta":
        return this.#thought(taskId, event.item_id, event.summary_index, event.delta);
      case "task.reasoning_summary_item.done":
        return this.#thoughtDone(taskId, event.item_id, event.summary_index, event.item.text);
      case "task.tool_call_arguments.delta":
        return this.#arguments(taskId, event.output_index, event.delta);
      case "task.tool_result.progress": {
        const { call_id, progress, total, message } = event;
        const content = { call_id, progress, total, message };
        return [this.#activity(taskId, `${event.item_id}#progress`, "rivulet.progress", content)];
      }
      case "task.text.delta":
        return this.#text(taskId, event, event.delta);
      case "task.text.done":
        return this.#textDone(taskId, event, event.item.text);
      case "task.image.done":
      case "task.block.done":
        return this.#file(taskId, event, event.item);
      default:
        return [];
    }
  }

  #added(taskId: string, item: Item): readonly Body[] {
    const by = this.#by(taskId);
    if (item.type === "reasoning") {
      const messageId = item.id;
      return this.#opened(taskId, messageId, { type: "REASONING_START", messageId, ...by }, [
        { type: "REASONING_END", messageId, ...by },
      ]);
    }
    if (item.type !== "tool_call") return [];
    const { call_id: toolCallId, name: toolCallName, id: parentMessageId } = item;
    const start: Body = {
      type: "TOOL_CALL_START",
      toolCallId,
      toolCallName,
      parentMessageId,
      ...by,
    };
    return this.#opened(taskId, parentMessageId, start, [
      { type: "TOOL_CALL_END", toolCallId, ...by },
    ]);
  }

  #done(taskId: string, index: number): readonly Body[] {
    const item = this.#tree.task(taskId)?.output[index];
    if (item === undefined) return [];
    const closed = this.#closed(item.id);
    if (item.type !== "tool_result") return closed;
    const content = streamedText(item) || (item.error?.message ?? stateOf(item));
    const result = { messageId: item.id, toolCallId: item.call_id, content, role: "tool" };
    return [{ type: "TOOL_CALL_RESULT", ...result, ...this.#by(taskId) }];
  }

  /** AG-UI cannot take a message back: it ends, and an event names it. */
  #discarded(taskId: string, itemId: string): readonly Body[] {
    const value = { item_id: itemId };
    const named: Body = { type: "CUSTOM", name: "rivulet.discarded", value, ...this.#by(taskId) };
    return [...this.#closed(itemId), named];
  }

  #thought(taskId: string, itemId: string, index: number, delta: string): readonly Body[] {
    const messageId = `${itemId}#s${index}`;
    const by = this.#by(taskId);
    const start: Body = {
      type: "REASONING_MESSAGE_START",
      messageId,
      role: "reasoning",
      ...by,
    };
    const begun = this.#opened(taskId, messageId, start, [
      { type: "REASONING_MESSAGE_END", messageId, ...by },
    ]);
    if (delta === "") return begun;
    return [...begun, { type: "REASONING_MESSAGE_CONTENT", messageId, delta, ...by }];
  }

  #thoughtDone(taskId: string, itemId: string, index: number, text: string): readonly Body[] {
    const messageId = `${itemId}#s${index}`;
    const begun = this.#open.has(messageId) ? [] : this.#thought(taskId, itemId, index, text);
    return [...begun, ...this.#closed(messageId)];
  }

  #arguments(taskId: string, index: number, delta: string): readonly Body[] {
    const item = this.#tree.task(taskId)?.output[index];
    if (item?.type !== "tool_call" || delta === "" || !this.#open.has(item.id)) return [];
    return [{ type: "TOOL_CALL_ARGS", toolCallId: item.call_id, delta, ...this.#by(taskId) }];
  }

  #text(taskId: string, place: BlockPlace, delta: string): readonly Body[] {
    if (!this.#isMessage(taskId, place)) return [];
    const messageId = `${place.item_id}#${place.block_index}`;
    const by = this.#by(taskId);
    const start: Body = { type: "TEXT_MESSAGE_START", messageId, role: "assistant", ...by };
    const begun = this.#opened(taskId, messageId, start, [
      { type: "TEXT_MESSAGE_END", messageId, ...by },
    ]);
    if (delta === "") return begun;
    return [...begun, { type: "TEXT_MESSAGE_CONTENT", messageId, delta, ...by }];
  }

  #textDone(taskId: string, place: BlockPlace, text: string): readonly Body[] {
    const messageId = `${place.item_id}#${place.block_index}`;
    const begun = this.#open.has(messageId) ? [] : this.#text(taskId, place, text);
    return [...begun, ...this.#closed(messageId)];
  }

  #file(taskId: string, place: BlockPlace, block: WireBlock): readonly Body[] {
    if (!this.#isMessage(taskId, place)) return [];
    const url = block.type === "image" ? block.image_url.url : "url" in block ? block.url : "";
    if (typeof url !== "string" || url === "") return [];
    const content = { type: block.type, url: this.#addressOf(url) };
    const id = `${place.item_id}#${place.block_index}`;
    return [this.#activity(taskId, id, "rivulet.file", content)];
  }

  #activity(taskId: string, messageId: string, activityType: string, content: object): Body {
    const activity = { messageId, activityType, content: withoutUndefined(content), replace: true };
    return { type: "ACTIVITY_SNAPSHOT", ...activity, ...this.#by(taskId) };
  }

  #isMessage(taskId: string, { output_index }: BlockPlace): boolean {
    return this.#tree.task(taskId)?.output[output_index]?.type === "message";
  }

  /** Events of the root name no subagent. */
  #by(taskId: string): { readonly subagentRunId?: string } {
    return taskId === this.#rootId ? {} : { subagentRunId: taskId };
  }

  #opened(taskId: string, id: string, start: Body, closes: readonly Body[]): readonly Body[] {
    if (this.#open.has(id)) return [];
    this.#open.set(id, { taskId, closes });
    return [start];
  }

  /** Closes a part, or an item with all its parts. */
  #closed(id: string): readonly Body[] {
    const inner = [...this.#open.keys()].filter((key) => key.startsWith(`${id}#`));
    return [...inner, id].flatMap((key) => {
      const { closes = [] } = this.#open.get(key) ?? {};
      this.#open.delete(key);
      return closes;
    });
  }

  /** Closes everything of some tasks, the last opened first. */
  #closedOf(taskIds: ReadonlySet<string>): readonly Body[] {
    const ids = [...this.#open].filter(([, { taskId }]) => taskIds.has(taskId));
    return ids.toReversed().flatMap(([id]) => this.#closed(id));
  }

  #started(taskId: string): Body {
    const { agentId = "agent", parentTaskId } = this.#tree.task(taskId) ?? {};
    const isNested = parentTaskId !== undefined && parentTaskId !== this.#rootId;
    return {
      type: "SUBAGENT_STARTED",
      subagentRunId: taskId,
      name: agentId,
      // A child has the id of the call that started it.
      parentToolCallId: taskId,
      ...(isNested && { parentSubagentRunId: parentTaskId }),
    };
  }

  #childEnded(taskId: string): readonly Body[] {
    if (!this.#running.delete(taskId)) return [];
    const { status, error, reason } = this.#tree.task(taskId) as Task;
    const closed = this.#closedOf(new Set([taskId]));
    const id = { subagentRunId: taskId };
    if (status === "completed" || status === "incomplete")
      return [...closed, { type: "SUBAGENT_FINISHED", ...id, outcome: { type: "success" } }];
    const message = error?.message ?? reason ?? `The agent is ${status}.`;
    return [...closed, { type: "SUBAGENT_ERROR", ...id, message, code: error?.code ?? status }];
  }

  /** Suspends all subagents, the innermost first: none may be open when a run ends. */
  #childrenSuspended(): readonly Body[] {
    const running = [...this.#running].toReversed();
    const closed = this.#closedOf(new Set([this.#rootId, ...running]));
    const finished = running.map((subagentRunId): Body => {
      const ids = [...this.#asking.keys()].filter((id) => this.#askers.get(id) === subagentRunId);
      const asked = ids.length > 0 ? { interruptIds: ids } : {};
      const outcome = { type: "suspended", ...asked };
      return { type: "SUBAGENT_FINISHED", subagentRunId, outcome };
    });
    return [...closed, ...finished];
  }

  #interrupted(): readonly Body[] {
    const waiting = [...this.#asking.values()];
    const outside = waiting.filter(({ kind }) => kind === "external");
    const interrupts = waiting
      .filter(({ kind }) => kind !== "external")
      .map((approval) => this.#interruptOf(approval));
    const pendingToolCallIds = outside.flatMap(({ call_id }) => call_id ?? []);
    if (interrupts.length > 0) return this.#finished({ type: "interrupt", interrupts });
    const pending = pendingToolCallIds.length > 0 ? { pendingToolCallIds } : {};
    return this.#finished({ type: "success", ...pending });
  }

  #interruptOf(approval: ApprovalRequested | ApprovalState): Interrupt {
    const {
      approval_id: id,
      kind,
      call_id,
      name,
      arguments: input,
      message,
      response_schema,
      expires_at,
    } = approval;
    const asker = this.#askers.get(id) ?? this.#rootId;
    return {
      id,
      reason: kind,
      ...(message !== undefined && { message }),
      ...(response_schema && { responseSchema: response_schema }),
      ...(call_id !== undefined && call_id !== "" && { toolCallId: call_id }),
      ...(expires_at !== undefined && { expiresAt: new Date(expires_at).toISOString() }),
      ...this.#by(asker),
      metadata: withoutUndefined({ name, arguments: input }),
    };
  }

  #runEnded(): readonly Body[] {
    const { status, error, structured } = this.#tree.task(this.#rootId) as Task;
    if (status === "cancelled") return this.#finished({ type: "cancelled" });
    if (status !== "failed") return this.#finished({ type: "success" }, structured);
    this.#isOver = true;
    const message = error?.message ?? "The task failed.";
    return [
      ...this.#childrenSuspended(),
      { type: "RUN_ERROR", message, ...(error && { code: error.code }) },
    ];
  }

  #finished(outcome: object, result?: unknown): readonly Body[] {
    const children = this.#childrenSuspended();
    this.#isOver = true;
    const { usage } = this.#tree.task(this.#rootId) ?? {};
    const used = usage && {
      inputTokens: usage.input_tokens,
      outputTokens: usage.output_tokens,
      totalTokens: usage.total_tokens,
    };
    const end: Body = {
      type: "RUN_FINISHED",
      ...this.#ids,
      outcome,
      ...(result !== undefined && { result }),
      ...(used && { usage: [used] }),
    };
    return [...children, end];
  }
}

interface BlockPlace {
  readonly item_id: string;
  readonly output_index: number;
  readonly block_index: number;
}

function asEvents(bodies: readonly Body[]): readonly AguiEvent[] {
  return bodies as unknown as readonly AguiEvent[];
}

function withoutUndefined(fields: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
