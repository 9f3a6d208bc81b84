import type { AgentEvent, Approval, StandardSchema, StreamOptions } from "../protocol/agent.ts";
import type { TaskEvent } from "../protocol/event.ts";
import type { Block, GenerateReason, Message, Reply } from "../protocol/message.ts";
import { textOf } from "../protocol/message.ts";
import type { Source } from "../protocol/source.ts";
import type { Item, TaskObject, TerminalStatus } from "../protocol/task.ts";
import { isTerminal } from "../protocol/task.ts";
import { blockOf, contentOf, parsed } from "./project-content.ts";
import type { AgentSettings } from "./settings.ts";
import { approvalOf } from "./tool/approval.ts";

/** What the projection knows of one task. */
interface Seen {
  readonly taskId: string;
  readonly rootTaskId: string;
  readonly source: Source | undefined;
  readonly name: string;
  readonly items: Map<number, SeenItem>;
  readonly callNames: Map<string, string>;
  readonly approvals: Map<string, Approval>;
  /** The items of the model's turn that is being shown, in order. */
  turn: SeenItem[];
  last: Message & { readonly text: string };
}
interface SeenItem {
  item: Item;
  text: string;
}

/** Task events made into agent events: chunks as they come, then each message whole, then how each agent ended. */
export class Projection {
  readonly #settings: AgentSettings;
  readonly #options: StreamOptions<StandardSchema | undefined>;
  readonly #tasks = new Map<string, Seen>();
  #root: Seen | undefined;
  #rootStatus: TerminalStatus | "suspended" = "completed";
  /** Whether the root has ended, in a way that leaves a reply. */
  isRootOver = false;

  constructor(settings: AgentSettings, options: StreamOptions<StandardSchema | undefined>) {
    this.#settings = settings;
    this.#options = options;
  }

  apply(event: TaskEvent, out: AgentEvent[]): void {
    if (event.type === "error") return;
    // What is told after it begins anew.
    if (event.type === "task.snapshot") this.#tasks.delete(event.task_id);
    const seen = this.#tasks.get(event.task_id) ?? this.#meet(event);
    switch (event.type) {
      case "task.output_item.added": {
        const entry: SeenItem = { item: event.item, text: "" };
        seen.items.set(event.output_index, entry);
        if (event.item.type !== "tool_result") seen.turn.push(entry);
        if (event.item.type === "tool_call") {
          seen.callNames.set(event.item.call_id, event.item.name);
        }
        return;
      }
      case "task.output_item.discarded":
        this.#takeBack(seen, event.output_index, out);
        return;
      case "task.text.delta":
      case "task.reasoning_summary_text.delta":
      case "task.reasoning_text.delta":
        this.#chunk(seen, event.output_index, event.delta, out);
        return;
      case "task.output_item.done":
        this.#itemDone(seen, event.output_index, event.item as Item, out);
        return;
      case "task.usage":
        this.#turnDone(seen, out);
        return;
      case "task.custom":
        if (event.name === "rivulet.hint") this.#hint(seen, event.value, out);
        return;
      case "task.approval.requested":
        this.#asked(seen, event, out);
        return;
      case "task.approval.resolved":
        seen.approvals.delete(event.approval_id);
        return;
      case "task.suspended":
        this.#rest(seen, "suspended", event.generate_reason, out);
        return;
      case "task.completed":
      case "task.failed":
      case "task.cancelled":
      case "task.incomplete":
        this.#turnDone(seen, out);
        this.#rest(seen, event.task.status, (event.task as TaskObject).generate_reason, out);
        return;
      default:
        return;
    }
  }

  /** The root's own end: what `result()` gives, so that all doors agree. */
  end(reply: Reply<unknown>, out: AgentEvent[]): void {
    const { text, generateReason, approvals, structured: _, task: __, ...message } = reply;
    this.#push(out, {
      type: "agent_result",
      last: true,
      text,
      message: { ...message, text },
      status: this.#rootStatus,
      generateReason,
      approvals,
    });
  }

  #meet(event: TaskEvent & { task_id: string }): Seen {
    const source = event.type === "error" ? undefined : (event.source as Source | undefined);
    const name = source?.agentName ?? source?.agentId ?? this.#settings.name;
    const seen: Seen = {
      taskId: event.task_id,
      rootTaskId: this.#root?.taskId ?? event.task_id,
      source,
      name,
      items: new Map(),
      callNames: new Map(),
      approvals: new Map(),
      turn: [],
      last: { id: event.task_id, role: "assistant", name, content: [], text: "" },
    };
    if (source === undefined) this.#root = seen;
    this.#tasks.set(event.task_id, seen);
    return seen;
  }

  #chunk(seen: Seen, index: number, delta: string, out: AgentEvent[]): void {
    const entry = seen.items.get(index);
    if (entry === undefined) return;
    entry.text += delta;
    const said = this.#options.incremental === false ? entry.text : delta;
    if (this.#options.chunks !== false) this.#push(out, this.#part(seen, entry.item, said));
  }

  /** Whoever has shown chunks of an item that does not count has to know. */
  #takeBack(seen: Seen, index: number, out: AgentEvent[]): void {
    const entry = seen.items.get(index);
    if (entry === undefined) return;
    seen.items.delete(index);
    seen.turn = seen.turn.filter((other) => other !== entry);
    if (entry.text === "" || this.#options.chunks === false) return;
    this.#push(out, { ...this.#part(seen, entry.item, ""), retracted: true });
  }

  /** Text of an item that is not whole yet. */
  #part(seen: Seen, item: Item, said: string): AgentEvent {
    if (item.type === "tool_result") {
      const output: Block[] = [{ type: "text", text: said }];
      return this.#result(seen, item.call_id, output, "success", said, false);
    }
    const isText = item.type === "message";
    const text = isText ? said : "";
    const content: Block[] = [{ type: isText ? "text" : "thinking", text: said }];
    const message = { id: item.id, role: "assistant", name: seen.name, content, text } as const;
    const type = isText && item.purpose === "summary" ? "summary" : "reasoning";
    return { type, last: false, text, message, ...from(seen) };
  }

  #itemDone(seen: Seen, index: number, item: Item, out: AgentEvent[]): void {
    const entry = seen.items.get(index);
    if (entry === undefined) return;
    entry.item = { ...entry.item, ...item } as Item;
    if (entry.item.type !== "tool_result") return;
    const { call_id, block_list, status, error } = entry.item;
    const output = block_list.flatMap(blockOf);
    const child = entry.item.child_task_id && this.#tasks.get(entry.item.child_task_id);
    const text = textOf(output) || (error?.message ?? (child ? child.last.text : entry.text));
    const state =
      status === "completed"
        ? "success"
        : status === "cancelled"
          ? "interrupted"
          : error?.code === "denied"
            ? "denied"
            : "error";
    this.#push(out, this.#result(seen, call_id, output, state, text, true));
  }

  #result(
    seen: Seen,
    callId: string,
    output: readonly Block[],
    state: "success" | "error" | "denied" | "interrupted",
    text: string,
    last: boolean,
  ): AgentEvent {
    const name = seen.callNames.get(callId) ?? "";
    const content: Block[] = [{ type: "tool_result", id: callId, name, output, state }];
    const message = { id: callId, role: "tool", name: seen.name, content, text } as const;
    return { type: "tool_result", last, text, message, ...from(seen) };
  }

  /** The model's turn is committed: its message, whole. */
  #turnDone(seen: Seen, out: AgentEvent[]): void {
    if (seen.turn.length === 0) return;
    const content = seen.turn.flatMap(({ item }) => contentOf(item));
    const isSummary = seen.turn.some(
      ({ item }) => item.type === "message" && item.purpose === "summary",
    );
    const first = seen.turn[0] as SeenItem;
    seen.turn = [];
    const text = textOf(content);
    const message = {
      id: first.item.id,
      role: "assistant",
      name: seen.name,
      content,
      text,
    } as const;
    seen.last = message;
    this.#push(out, {
      type: isSummary ? "summary" : "reasoning",
      last: true,
      text,
      message,
      ...from(seen),
    });
  }

  #hint(seen: Seen, value: unknown, out: AgentEvent[]): void {
    const text = (value as { text?: string } | undefined)?.text ?? "";
    const content: Block[] = [{ type: "hint", text }];
    const message = { id: seen.taskId, role: "user", content, text } as const;
    this.#push(out, { type: "hint", last: true, text, message, ...from(seen) });
  }

  #asked(
    seen: Seen,
    event: TaskEvent & { type: "task.approval.requested" },
    out: AgentEvent[],
  ): void {
    const { taskId, rootTaskId, source } = seen;
    const approval = approvalOf(
      { taskId, rootTaskId, path: source?.path ?? "", depth: source?.depth ?? 0 },
      { id: event.call_id, name: event.name, input: parsed(event.arguments) },
      {
        type: "suspension",
        callId: event.call_id,
        kind: event.kind === "external" || event.kind === "question" ? event.kind : "approval",
        approvalId: event.approval_id,
        ...(event.message !== undefined && { reason: event.message }),
        ...(event.expires_at !== undefined && { expiresAt: event.expires_at }),
      },
    );
    seen.approvals.set(approval.id, approval);
    const text = event.message ?? "";
    const message = {
      id: event.approval_id,
      role: "tool",
      name: seen.name,
      content: [],
      text,
    } as const;
    this.#push(out, { type: "approval", last: true, text, message, approval, ...from(seen) });
  }

  #rest(
    seen: Seen,
    status: TerminalStatus | "suspended",
    generateReason: GenerateReason | undefined,
    out: AgentEvent[],
  ): void {
    // The root's end comes with the reply, so that all doors agree; a failed root has none.
    if (seen.source === undefined && status !== "failed") {
      this.#rootStatus = status;
      this.isRootOver = isTerminal(status);
      return;
    }
    this.#push(out, {
      type: "agent_result",
      last: true,
      text: seen.last.text,
      message: seen.last,
      status,
      generateReason: generateReason ?? "failed",
      approvals: [...seen.approvals.values()],
      ...from(seen),
    });
  }

  #push(out: AgentEvent[], event: AgentEvent): void {
    const { types } = this.#options;
    if (types === undefined || types.includes(event.type)) out.push(event);
  }
}

function from(seen: Seen): { readonly source?: Source } {
  return seen.source === undefined ? {} : { source: seen.source };
}
