import type {
  ContentBlock,
  PlanEntry,
  SessionUpdate,
  ToolCallContent,
  ToolKind,
} from "@agentclientprotocol/sdk";
import { isObject } from "../../base/plain.ts";
import {
  type Block,
  type Message,
  parseJson,
  stateOf,
  streamedText,
} from "../../contract/index.ts";
import {
  type ApprovalQuestion,
  type LogEvent,
  noUsage,
  type Task,
  type TaskEvent,
  TaskTree,
  type ToolCallItem,
  type ToolResultItem,
  type Tree,
  type Usage,
  type WireBlock,
} from "../../protocol/index.ts";
import { unfold, unfoldTree } from "../foreign-snapshot.ts";

/** An update of a child carries the end of its text, so that the bytes of a token do not grow with the text. */
const shownTail = 2_000;
/** The new text of a child after which an editor gets an update. */
const updateEvery = 200;
const maxTitle = 200;

/** The text of a child, as far as the editor has it. */
interface ChildText {
  text: string;
  sent: number;
}

/**
 * Translates the log of a root task to the updates of an ACP session. The editor sees the text of the root as messages,
 * its calls as tool calls, and each descendant as the tool call that started it, with its text as the content.
 */
export class AcpUpdates {
  readonly #window: number;
  #fold = new TaskTree();
  #rootId: string | undefined;
  /** The calls that the editor has. */
  readonly #shown = new Set<string>();
  readonly #children = new Map<string, ChildText>();
  /** The blocks of the root whose text the editor has, by item and index. */
  readonly #begun = new Set<string>();
  #used: Usage = noUsage;

  /** `window` is the context window of the model in tokens. */
  constructor(window: number) {
    this.#window = window;
  }

  /** The log as far as it was translated. */
  get tree(): Tree {
    return this.#fold.tree;
  }

  /** The root task, as far as its log was translated. */
  get root(): Task | undefined {
    return this.#rootId === undefined ? undefined : this.#fold.task(this.#rootId);
  }

  /** The updates that show a stored run; events after it continue them. */
  replay(tree: Tree, rootId: string): readonly SessionUpdate[] {
    this.#fold = new TaskTree({ from: tree });
    this.#rootId = rootId;
    const events = unfoldTree(tree, rootId);
    const todos = this.root?.state?.["rivulet.todos"];
    const plan = todos === undefined ? [] : planUpdates(todos);
    return [...events.flatMap((event) => this.#updatesOf(event)), ...plan];
  }

  /** The updates for one event of the log. */
  translate(event: TaskEvent): readonly SessionUpdate[] {
    if (event.type === "error") return [];
    this.#rootId ??= event.task_id;
    this.#fold.apply(event);
    const events = event.type === "task.snapshot" ? unfold(event) : [event];
    return events.flatMap((each) => this.#updatesOf(each));
  }

  /** The tool call that an approval is about; an editor must have it before it is asked. */
  callOf(approval: Pick<ApprovalQuestion, "call_id" | "approval_id">): string {
    return approval.call_id || approval.approval_id;
  }

  /** The title of a call: the agents between the root and the call, its name and what it is for. */
  titleOf(taskId: string, name: string, input: unknown): string {
    return `${this.#whoCalls(taskId)}${titleOf(name, input)}`.slice(0, maxTitle);
  }

  #updatesOf(event: LogEvent): readonly SessionUpdate[] {
    if (event.type === "task.approval.requested") return this.#asked(event);
    return event.task_id === this.#rootId ? this.#rootUpdates(event) : this.#childUpdates(event);
  }

  #rootUpdates(event: LogEvent): readonly SessionUpdate[] {
    switch (event.type) {
      case "task.output_item.added":
        return this.#added(event);
      case "task.output_item.done":
        return [...this.#wholeBlocks(event), ...this.#done(event.task_id, event.output_index)];
      case "task.output_item.discarded":
        return this.#discarded(event.task_id, event.item_id);
      case "task.tool_call_arguments.done":
        return this.#input(event.task_id, event.output_index, event.arguments);
      case "task.tool_result.progress":
        return this.#isChild(event.call_id) ? [] : [progressUpdate(event)];
      case "task.custom":
        return event.name === "rivulet.todos" ? planUpdates(event.value) : [];
      case "task.usage":
        return this.#usage(event);
      default:
        return this.#textUpdates(event);
    }
  }

  #textUpdates(event: LogEvent): readonly SessionUpdate[] {
    switch (event.type) {
      case "task.text.added":
        return this.#said(event, event.item.text);
      case "task.text.delta":
        return this.#said(event, event.delta);
      case "task.text.done":
        return this.#said(event, event.item.text, true);
      case "task.image.done":
      case "task.block.done":
        return this.#media(event, event.item);
      case "task.reasoning_summary_text.delta":
      case "task.reasoning_text.delta":
        return thoughtUpdates(event.item_id, event.delta);
      case "task.reasoning_summary_item.added":
        return event.summary_index > 0 ? thoughtUpdates(event.item_id, "\n\n") : [];
      default:
        return [];
    }
  }

  #isMessage({ task_id, output_index }: Pick<BlockEvent, "task_id" | "output_index">): boolean {
    return this.#fold.task(task_id)?.output[output_index]?.type === "message";
  }

  /** A text that came without deltas is sent with its end. */
  #said(event: BlockEvent, text: string, isWhole = false): readonly SessionUpdate[] {
    const key = `${event.item_id}#${event.block_index}`;
    if (!this.#isMessage(event) || text === "" || (isWhole && this.#begun.has(key))) return [];
    this.#begun.add(key);
    return [chunk("agent_message_chunk", event.item_id, { type: "text", text })];
  }

  /** An image or a file, once. */
  #media(event: BlockEvent, block: WireBlock): readonly SessionUpdate[] {
    const key = `${event.item_id}#${event.block_index}`;
    if (!this.#isMessage(event) || this.#begun.has(key)) return [];
    this.#begun.add(key);
    return mediaUpdates(event.item_id, block);
  }

  /** The blocks of a message that came with its end, or that its end has cut off. */
  #wholeBlocks({ task_id, output_index }: Pick<BlockEvent, "task_id" | "output_index">) {
    const item = this.#fold.task(task_id)?.output[output_index];
    if (item?.type !== "message") return [];
    return item.block_list.flatMap((block, block_index) => {
      const place = { task_id, output_index, item_id: item.id, block_index };
      if (block.type !== "text") return task_id === this.#rootId ? this.#media(place, block) : [];
      return task_id === this.#rootId
        ? this.#said(place, block.text, true)
        : this.#childSaid(place, block.text, true);
    });
  }

  #added({ item, task_id }: Extract<LogEvent, { type: "task.output_item.added" }>) {
    if (item.type === "tool_call") return this.#show(item.call_id, task_id, item.name, undefined);
    if (item.type !== "tool_result" || this.#isChild(item.call_id)) return [];
    return [callUpdate(item.call_id, { status: "in_progress" })];
  }

  /** Shows a call of a task; nothing if the editor has it. */
  #show(
    toolCallId: string,
    taskId: string,
    name: string,
    input: unknown,
  ): readonly SessionUpdate[] {
    if (this.#shown.has(toolCallId)) return [];
    this.#shown.add(toolCallId);
    const title = this.titleOf(taskId, name, input);
    return [
      {
        ...{ sessionUpdate: "tool_call", toolCallId, title, name, kind: kindOf(name) },
        ...{ status: "pending", ...(input !== undefined && { rawInput: input }) },
      },
    ];
  }

  #input(taskId: string, index: number, text: string): readonly SessionUpdate[] {
    const item = this.#fold.task(taskId)?.output[index];
    if (item?.type !== "tool_call") return [];
    const rawInput = parseJson(text || "{}");
    const title = titleOf(item.name, rawInput);
    return [callUpdate(item.call_id, { title, rawInput })];
  }

  #done(taskId: string, index: number): readonly SessionUpdate[] {
    const item = this.#fold.task(taskId)?.output[index];
    if (item?.type !== "tool_result" || !this.#shown.has(item.call_id)) return [];
    return this.#isChild(item.call_id) ? [] : [resultUpdate(item)];
  }

  /** The call of a child ends with the child, which may continue in the background. */
  #isChild(callId: string): boolean {
    return this.#fold.task(callId) !== undefined;
  }

  /** ACP cannot take back what a message said; a call that does not count fails. */
  #discarded(taskId: string, itemId: string): readonly SessionUpdate[] {
    const call = this.#callWith(taskId, ({ id }) => id === itemId);
    return call && this.#shown.has(call.call_id)
      ? [callUpdate(call.call_id, { status: "failed" })]
      : [];
  }

  #callWith(taskId: string, test: (item: ToolCallItem) => boolean): ToolCallItem | undefined {
    const { output = [] } = this.#fold.task(taskId) ?? {};
    return output.find((item): item is ToolCallItem => item.type === "tool_call" && test(item));
  }

  #childUpdates(event: LogEvent): readonly SessionUpdate[] {
    switch (event.type) {
      case "task.created":
        return this.#childStarted(event.task_id);
      case "task.text.added":
        return this.#childSaid(event, event.item.text);
      case "task.text.delta":
        return this.#childSaid(event, event.delta);
      case "task.text.done":
        return this.#childSaid(event, event.item.text, true);
      case "task.output_item.done":
        return [...this.#wholeBlocks(event), ...this.#done(event.task_id, event.output_index)];
      case "task.completed":
      case "task.incomplete":
      case "task.failed":
      case "task.cancelled":
        return this.#childEnded(event.task_id);
      default:
        return [];
    }
  }

  /** The call of a child has the id of the child. */
  #childStarted(taskId: string): readonly SessionUpdate[] {
    const { agentId = "agent", parentTaskId = "" } = this.#fold.task(taskId) ?? {};
    const call = this.#callWith(parentTaskId, ({ call_id }) => call_id === taskId);
    const input = parseJson(call?.arguments || "{}");
    const shown = this.#show(taskId, parentTaskId, call?.name ?? agentId, input);
    this.#children.set(taskId, { text: "", sent: 0 });
    const rivulet = { taskId, agentId, parentTaskId };
    return [...shown, callUpdate(taskId, { status: "in_progress", _meta: { rivulet } })];
  }

  /** The agents between the root and a call, for its title. */
  #whoCalls(taskId: string): string {
    const { agentId = "agent", parentTaskId = "" } = this.#fold.task(taskId) ?? {};
    return taskId === this.#rootId || taskId === "" || parentTaskId === taskId
      ? ""
      : `${this.#whoCalls(parentTaskId)}${agentId} › `;
  }

  #childSaid(event: BlockEvent, text: string, isWhole = false): readonly SessionUpdate[] {
    const child = this.#children.get(event.task_id);
    const key = `${event.item_id}#${event.block_index}`;
    if (child === undefined || !this.#isMessage(event)) return [];
    if (isWhole && this.#begun.has(key)) return this.#childText(event.task_id, 1);
    if (text === "") return [];
    if (!this.#begun.has(key) && child.text !== "") child.text += "\n\n";
    this.#begun.add(key);
    child.text += text;
    return this.#childText(event.task_id, isWhole ? 1 : updateEvery);
  }

  /** The end of a child's text, if there is enough that the editor does not have. */
  #childText(taskId: string, least: number): readonly SessionUpdate[] {
    const child = this.#children.get(taskId);
    if (child === undefined || child.text.length - child.sent < least) return [];
    child.sent = child.text.length;
    const isCut = child.text.length > shownTail;
    const text = isCut ? `…${child.text.slice(-shownTail)}` : child.text;
    return [callUpdate(taskId, { content: [textContent(text)] })];
  }

  #childEnded(taskId: string): readonly SessionUpdate[] {
    const { status, error, reason } = this.#fold.task(taskId) ?? {};
    const { text = "" } = this.#children.get(taskId) ?? {};
    this.#children.delete(taskId);
    const hasFailed = status === "failed" || status === "cancelled";
    const why = hasFailed ? (error?.message ?? reason ?? `The agent is ${status}.`) : "";
    const whole = [text, why].filter((part) => part !== "").join("\n\n");
    return [
      callUpdate(taskId, {
        status: hasFailed ? "failed" : "completed",
        ...(whole !== "" && { content: [textContent(whole)] }),
      }),
    ];
  }

  /** An approval at any depth: the editor gets the call that it is about. */
  #asked(asked: ApprovalQuestion & { readonly task_id: string }): readonly SessionUpdate[] {
    const { name = asked.kind, arguments: input = "{}", message, task_id } = asked;
    const title = asked.call_id ? name : (message ?? name);
    const rawInput = parseJson(input);
    return this.#show(this.callOf(asked), task_id, title, rawInput);
  }

  /** A usage is a total; what it has grown by is the last call, whose prompt is the context. */
  #usage({ usage, cost }: Extract<LogEvent, { type: "task.usage" }>): readonly SessionUpdate[] {
    const used = Math.max(0, usage.total_tokens - this.#used.total_tokens);
    this.#used = usage;
    const amount = Number(cost?.amount);
    return [
      {
        ...{ sessionUpdate: "usage_update", used, size: this.#window },
        ...(cost && Number.isFinite(amount) && { cost: { amount, currency: cost.currency } }),
      },
    ];
  }
}

type BlockEvent = Pick<
  Extract<LogEvent, { readonly block_index: number }>,
  "task_id" | "item_id" | "output_index" | "block_index"
>;
type CallFields = Omit<Extract<SessionUpdate, { sessionUpdate: "tool_call_update" }>, "toolCallId">;

function callUpdate(toolCallId: string, fields: Omit<CallFields, "sessionUpdate">): SessionUpdate {
  return { sessionUpdate: "tool_call_update", toolCallId, ...fields };
}

function chunk(
  sessionUpdate: "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk",
  messageId: string,
  content: ContentBlock,
): SessionUpdate {
  return { sessionUpdate, messageId, content };
}

function thoughtUpdates(itemId: string, text: string): readonly SessionUpdate[] {
  return text === "" ? [] : [chunk("agent_thought_chunk", itemId, { type: "text", text })];
}

function textContent(text: string): ToolCallContent {
  return { type: "content", content: { type: "text", text } };
}

function resultUpdate(item: ToolResultItem): SessionUpdate {
  const state = stateOf(item);
  const text = streamedText(item) || (item.error?.message ?? (state === "success" ? "" : state));
  const media = item.block_list.flatMap((block) => mediaContent(block));
  const content = [
    ...(text === "" ? [] : [textContent(text)]),
    ...media.map((each): ToolCallContent => ({ type: "content", content: each })),
  ];
  const status = state === "success" ? "completed" : "failed";
  return callUpdate(item.call_id, { status, ...(content.length > 0 && { content }) });
}

function progressUpdate(
  event: Extract<LogEvent, { type: "task.tool_result.progress" }>,
): SessionUpdate {
  const { call_id, progress, total, message } = event;
  const share = total === undefined ? `${progress}` : `${progress}/${total}`;
  const text = message === undefined ? share : `${share} ${message}`;
  return callUpdate(call_id, { status: "in_progress", content: [textContent(text)] });
}

/** The todo list of an agent. */
function planUpdates(value: unknown): readonly SessionUpdate[] {
  if (!Array.isArray(value)) return [];
  const entries = value.flatMap((entry: unknown): readonly PlanEntry[] => {
    if (!isObject(entry) || typeof entry.content !== "string") return [];
    const { content, status } = entry;
    const isKnown = status === "in_progress" || status === "completed";
    return [{ content, priority: "medium", status: isKnown ? status : "pending" }];
  });
  return [{ sessionUpdate: "plan", entries }];
}

function mediaUpdates(itemId: string, block: WireBlock): readonly SessionUpdate[] {
  return mediaContent(block).map((content) => chunk("agent_message_chunk", itemId, content));
}

/** A file of the wire: with its bytes if it has them, else a link. */
function mediaContent(block: WireBlock): readonly ContentBlock[] {
  const url = block.type === "image" ? block.image_url.url : "url" in block ? block.url : "";
  if (typeof url !== "string" || url === "") return [];
  const [, mimeType = "", data = ""] = /^data:([^;,]+);base64,(.+)$/s.exec(url) ?? [];
  const isPlayable = block.type === "image" || block.type === "audio";
  if (isPlayable && mimeType !== "") return [{ type: block.type, mimeType, data }];
  const filename = "filename" in block ? block.filename : undefined;
  const name = typeof filename === "string" ? filename : block.type;
  return [{ type: "resource_link", uri: url, name }];
}

const kinds: readonly (readonly [pattern: RegExp, kind: ToolKind])[] = [
  [/^(read|list|glob|load|get)_|_(get|read)$/, "read"],
  [/^(grep|search|find)_?|_search$/, "search"],
  [/^(write|edit|create|patch)_/, "edit"],
  [/^(delete|remove)(_|$)/, "delete"],
  [/^(move|rename)_/, "move"],
  [/^(execute|bash|shell|run)(_|$)/, "execute"],
  [/^(fetch|web|http|browse)(_|$)/, "fetch"],
  [/^(think|todo|plan)/, "think"],
];

/** The kind of a tool by its name, which an editor shows as an icon. */
function kindOf(name: string): ToolKind {
  return kinds.find(([pattern]) => pattern.test(name))?.[1] ?? "other";
}

/** The name of a tool and what it is called for. */
function titleOf(name: string, input: unknown): string {
  if (!isObject(input)) return name;
  const fields = [input.agent_id, input.path, input.command, input.task, input.prompt, input.query];
  const texts = fields.filter((field): field is string => typeof field === "string");
  const [first = ""] = texts.join(": ").split("\n", 1);
  return (first === "" ? name : `${name}: ${first}`).slice(0, maxTitle);
}

/** The updates that show a message of a stored session. */
export function messageUpdates({ id, role, content }: Message): readonly SessionUpdate[] {
  return content.flatMap((block) => blockUpdates(id, role, block));
}

function blockUpdates(id: string, role: Message["role"], block: Block): readonly SessionUpdate[] {
  const isUser = role === "user";
  switch (block.type) {
    case "text":
      return [
        chunk(isUser ? "user_message_chunk" : "agent_message_chunk", id, {
          type: "text",
          text: block.text,
        }),
      ];
    case "thinking":
      return thoughtUpdates(id, block.text);
    case "tool_use": {
      const { id: toolCallId, name, input: rawInput } = block;
      const title = titleOf(name, rawInput);
      const call = { sessionUpdate: "tool_call", toolCallId, title, name, rawInput } as const;
      return [{ ...call, kind: kindOf(name), status: "in_progress" }];
    }
    case "tool_result": {
      const text = block.output.flatMap((each) => (each.type === "text" ? [each.text] : []));
      const status = block.state === "success" ? "completed" : "failed";
      return [callUpdate(block.id, { status, content: [textContent(text.join(""))] })];
    }
    case "image":
    case "audio":
      return "data" in block.source
        ? [
            chunk(isUser ? "user_message_chunk" : "agent_message_chunk", id, {
              type: block.type,
              data: block.source.data,
              mimeType: block.source.mimeType,
            }),
          ]
        : [];
    default:
      return [];
  }
}
