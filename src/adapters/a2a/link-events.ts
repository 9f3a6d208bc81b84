import type {
  Message as A2aMessage,
  Artifact,
  Part,
  StreamResponse,
  Task,
  TaskArtifactUpdateEvent,
  TaskStatus,
} from "@a2a-js/sdk";
import { TaskState } from "@a2a-js/sdk";
import { isObject } from "../../base/plain.ts";
import { type Block, type RemoteAnswer, textOf } from "../../contract/index.ts";
import type { Usage, WireBlock } from "../../protocol/index.ts";
import type { ForeignTask, Question } from "../foreign-task.ts";

/** The largest file that comes inside a message instead of by reference, in base64. */
const maxInlineChars = 64 * 1024;

const asking: ReadonlySet<TaskState | undefined> = new Set([
  TaskState.TASK_STATE_INPUT_REQUIRED,
  TaskState.TASK_STATE_AUTH_REQUIRED,
]);
const resting: ReadonlySet<TaskState | undefined> = new Set([
  ...asking,
  TaskState.TASK_STATE_COMPLETED,
  TaskState.TASK_STATE_FAILED,
  TaskState.TASK_STATE_CANCELED,
  TaskState.TASK_STATE_REJECTED,
]);

/** Whether a task with this status moves only with a new message, or never again. */
export function isResting(status: TaskStatus | undefined): boolean {
  return resting.has(status?.state);
}

/** How a reader understands a task. */
interface ReaderOptions {
  /** The text of an answer that was sent. */
  readonly answerOf: (approvalId: string) => string;
  /** Whether an artifact that is only data is the value of the task. */
  readonly wantsValue: boolean;
}

/** Adds the updates of A2A to a task. All artifacts are one message, because together they are the result. */
export class A2aReader {
  readonly #task: ForeignTask;
  readonly #taskId: string;
  readonly #options: ReaderOptions;
  #value: unknown;

  constructor(task: ForeignTask, taskId: string, options: ReaderOptions) {
    this.#task = task;
    this.#taskId = taskId;
    this.#options = options;
  }

  take({ payload }: StreamResponse): void {
    switch (payload?.$case) {
      case "task":
        this.#takeTask(payload.value);
        break;
      case "message":
        this.#resume();
        this.#show({ artifactId: payload.value.messageId, parts: payload.value.parts });
        this.#task.end({ status: "completed", ...this.#structured() });
        break;
      case "artifactUpdate":
        this.#update(payload.value);
        break;
      case "statusUpdate":
        this.#takeStatus(payload.value.status, payload.value.metadata);
    }
  }

  /** A task that still asks the same question has not seen the answer. */
  #takeTask({ artifacts, status, metadata }: Task): void {
    const isAsking = asking.has(status?.state);
    const { message } = status ?? {};
    const isSame =
      isAsking && !this.#isNew(questionsIn(this.#taskId, message, textOfMessage(message)));
    if (!isSame) this.#resume();
    if (!this.#task.isSuspended) for (const artifact of artifacts) this.#replace(artifact);
    this.#takeStatus(status, metadata);
  }

  #isNew(questions: readonly Question[]): boolean {
    return questions.some(({ approvalId }) => !this.#task.knows(approvalId));
  }

  #resume(): void {
    this.#task.resume(this.#options.answerOf);
  }

  #update({ artifact, append }: TaskArtifactUpdateEvent): void {
    if (artifact === undefined) return;
    this.#resume();
    if (append) this.#show(artifact);
    else this.#replace(artifact);
  }

  /** Adds parts to an artifact. */
  #show({ artifactId, parts }: Pick<Artifact, "artifactId" | "parts">): void {
    const key = keyOf(artifactId);
    for (const part of parts) {
      this.#note(parts, part);
      this.#task.say("message", key, key, textIn(part));
      const block = fileOf(part);
      if (block) this.#task.show(key, `${key}/${fileKey(part)}`, block);
    }
  }

  #note(parts: readonly Part[], { content }: Part): void {
    if (parts.length === 1 && content?.$case === "data") this.#value = content.value;
  }

  /** Shows an artifact as it is; what was shown of it before may be a part of it. */
  #replace(artifact: Artifact): void {
    const key = keyOf(artifact.artifactId);
    const text = artifact.parts.map(textIn).join("");
    const shown = this.#shown(key);
    if (shown === undefined || text.startsWith(shown)) {
      for (const part of artifact.parts) this.#note(artifact.parts, part);
      this.#task.say("message", key, key, text.slice(shown?.length ?? 0));
      for (const part of artifact.parts) {
        const block = fileOf(part);
        if (block) this.#task.show(key, `${key}/${fileKey(part)}`, block);
      }
      return;
    }
    // The text was replaced: the message is shown again.
    const last = this.#task.lastMessage;
    if (!last?.isOpen) return;
    const others = last.parts.filter(({ id = "" }) => id !== key);
    this.#task.discard();
    for (const { id = "", kind, block, text: shownText } of others) {
      if (kind !== "text" && block) this.#task.show(id, id, block);
      else this.#task.say("message", id, id, shownText);
    }
    this.#task.say("message", key, key, text);
  }

  /** The text of an artifact so far, in any message. */
  #shown(key: string): string | undefined {
    for (const { type, parts } of this.#task.items.toReversed()) {
      const part = type === "message" ? parts.find(({ id = "" }) => id === key) : undefined;
      if (part) return part.text + part.held;
    }
    return undefined;
  }

  #takeStatus(status: TaskStatus | undefined, metadata: Task["metadata"]): void {
    const { message } = status ?? {};
    const text = textOfMessage(message);
    const extra = isObject(metadata?.rivulet) ? metadata.rivulet : {};
    const usage = usageIn(extra.usage);
    const more = usage === undefined ? {} : { usage };
    switch (status?.state) {
      case TaskState.TASK_STATE_INPUT_REQUIRED:
      case TaskState.TASK_STATE_AUTH_REQUIRED:
        this.#ask(message, text);
        break;
      case TaskState.TASK_STATE_COMPLETED:
        this.#resume();
        if (text !== "" && this.#shown("status") === undefined)
          this.#task.say("message", "status", "status", text);
        this.#task.end({ status: "completed", ...more, ...this.#structured() });
        break;
      case TaskState.TASK_STATE_FAILED:
      case TaskState.TASK_STATE_REJECTED:
        this.#fail(status.state, text, extra, more);
        break;
      case TaskState.TASK_STATE_CANCELED:
        this.#task.end({ status: "cancelled", ...(text !== "" && { reason: text }), ...more });
        break;
      default:
        this.#resume();
        if (message) this.#task.note(keyOf(message.messageId), text);
    }
  }

  #fail(
    state: TaskState,
    text: string,
    extra: Readonly<Record<string, unknown>>,
    more: { readonly usage?: Usage },
  ): void {
    if (extra.status === "incomplete") {
      this.#task.end({ status: "incomplete", ...more });
      return;
    }
    const code = state === TaskState.TASK_STATE_REJECTED ? "rejected" : "failed";
    const message = text === "" ? `The agent has ${code} the task.` : text.slice(0, 10_000);
    this.#task.end({ status: "failed", error: { code, message }, ...more });
  }

  #structured(): { readonly structured?: unknown } {
    return this.#options.wantsValue && this.#value !== undefined ? { structured: this.#value } : {};
  }

  #ask(message: A2aMessage | undefined, text: string): void {
    const questions = questionsIn(this.#taskId, message, text);
    if (this.#isNew(questions)) this.#resume();
    this.#task.ask(`ask${this.#task.items.length}`, questions);
  }
}

/** The approvals that a Rivulet server asks for, or one question with the text of the message. */
function questionsIn(
  taskId: string,
  message: A2aMessage | undefined,
  text: string,
): readonly Question[] {
  const approvals = (message?.parts ?? []).flatMap(({ content }) =>
    content?.$case === "data" && isObject(content.value) && content.value.type === "approval"
      ? [content.value]
      : [],
  );
  const questions = approvals.flatMap(({ approval_id: id, name, input, message: asked, kind }) => {
    if (typeof id !== "string") return [];
    const isCall = kind === "tool_call" || kind === "stop";
    return [
      {
        approvalId: `${callPrefix(taskId)}${keyOf(id)}`,
        callId: `call_${taskId}_${keyOf(id)}`,
        kind: isCall ? ("tool_call" as const) : ("question" as const),
        name: typeof name === "string" && name !== "" ? name.slice(0, 128) : "approval",
        input: JSON.stringify(input ?? {}),
        options: isCall ? (["approve", "deny", "edit"] as const) : (["answer"] as const),
        ...(typeof asked === "string" && { message: asked.slice(0, 10_000) }),
      },
    ];
  });
  if (questions.length > 0) return questions;
  const key = keyOf(message?.messageId || "input");
  return [
    {
      approvalId: `${questionPrefix(taskId)}${key}`,
      callId: `call_${taskId}_${key}`,
      kind: "question",
      name: "input_required",
      input: JSON.stringify({ message: text }),
      message: text || "The agent asks for input.",
      options: ["answer"],
    },
  ];
}

const callPrefix = (taskId: string) => `apr_${taskId}_call_`;
const questionPrefix = (taskId: string) => `apr_${taskId}_text_`;

/** An answer as the parts of a message. */
export function answerParts(taskId: string, answer: RemoteAnswer): Part[] {
  const { approvalId, decision, input, output, reason, always } = answer;
  const prefix = callPrefix(taskId);
  if (approvalId.startsWith(prefix)) {
    const value = {
      approval_id: approvalId.slice(prefix.length),
      decision,
      ...(input !== undefined && { input }),
      ...(output !== undefined && { output: textOf(output as readonly Block[]) }),
      ...(reason !== undefined && { reason }),
      ...(always !== undefined && { always }),
    };
    return [partOf({ $case: "data", value }, "application/json")];
  }
  const words = {
    answer: output === undefined ? "" : textOf(output as readonly Block[]),
    edit: JSON.stringify(input ?? null),
    approve: "approve",
    deny: reason === undefined ? "deny" : `deny: ${reason}`,
  };
  const value = words[decision as keyof typeof words] ?? "deny";
  return [partOf({ $case: "text", value }, "text/plain")];
}

function partOf(content: NonNullable<Part["content"]>, mediaType: string): Part {
  return { content, metadata: undefined, filename: "", mediaType };
}

/** A name of the server as a part of an id. */
function keyOf(name: string): string {
  return name.replace(/[^\w.-]/g, "_").slice(0, 100) || "none";
}

/** The text that a part adds; data is shown as JSON. */
function textIn({ content }: Part): string {
  if (content?.$case === "text") return content.value;
  return content?.$case === "data" ? JSON.stringify(content.value ?? null) : "";
}

function textOfMessage(message: A2aMessage | undefined): string {
  return (message?.parts ?? []).map(textIn).join("");
}

function fileKey({ content, filename }: Part): string {
  return keyOf(filename || (content?.$case === "url" ? content.value : "file"));
}

function fileOf({ content, filename, mediaType }: Part): WireBlock | undefined {
  const more = {
    ...(filename !== "" && { filename: filename.slice(0, 255) }),
    ...(mediaType !== "" && { mime_type: mediaType }),
  };
  if (content?.$case === "url")
    return { type: "file", url: content.value.slice(0, 8_192), ...more };
  if (content?.$case !== "raw") return undefined;
  const data = Buffer.from(content.value).toString("base64");
  const type = mediaType || "application/octet-stream";
  const isLarge = data.length > maxInlineChars;
  return { type: "file", url: isLarge ? "about:blank" : `data:${type};base64,${data}`, ...more };
}

function usageIn(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined;
  const { input_tokens, output_tokens, total_tokens } = value;
  const counts = [input_tokens, output_tokens, total_tokens];
  if (!counts.every((count) => Number.isInteger(count) && (count as number) >= 0)) return undefined;
  return { input_tokens, output_tokens, total_tokens } as Usage;
}
