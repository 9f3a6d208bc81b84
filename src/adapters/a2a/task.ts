import {
  type Message as A2aMessage,
  type TaskStatus as A2aStatus,
  type Task as A2aTask,
  type Artifact,
  type Part,
  Role,
  type StreamResponse,
  TaskState,
} from "@a2a-js/sdk";
import { type Message, parseJson, streamedText, type TaskRecord } from "../../contract/index.ts";
import {
  type ApprovalState,
  type Item,
  type ItemChange,
  isTerminal,
  type LogEvent,
  subtreeOf,
  subtreeUsage,
  type Task,
  type TaskEvent,
  type Tree,
  taskOf,
  type WireBlock,
  waitingIn,
} from "../../protocol/index.ts";

/** The key of everything in metadata that A2A has no place for. */
const extra = "rivulet";

/** A task that has ended without finishing is a failure: A2A has no state for it. */
const states: Readonly<Record<Task["status"], TaskState>> = {
  unknown: TaskState.TASK_STATE_SUBMITTED,
  queued: TaskState.TASK_STATE_SUBMITTED,
  in_progress: TaskState.TASK_STATE_WORKING,
  suspended: TaskState.TASK_STATE_INPUT_REQUIRED,
  completed: TaskState.TASK_STATE_COMPLETED,
  failed: TaskState.TASK_STATE_FAILED,
  cancelled: TaskState.TASK_STATE_CANCELED,
  incomplete: TaskState.TASK_STATE_FAILED,
};

/** A root task and its log as it stands. */
export interface Standing {
  readonly record: TaskRecord;
  readonly tree: Tree;
  /** The address of the server, for the blobs that events name. */
  readonly base: string;
}

/** The task in the words of A2A: its messages are artifacts. */
export function a2aTask(standing: Standing, history: readonly A2aMessage[]): A2aTask {
  const { record, tree } = standing;
  const task = taskOf(tree, record.taskId);
  return {
    id: record.taskId,
    contextId: record.sessionId,
    status: a2aStatus(standing),
    artifacts: task === undefined ? [] : artifactsOf(task, standing.base),
    history: [...history],
    metadata: task && metadataOf(tree, task),
  };
}

/** The status of the task: what it waits for, or why it failed, is its message. */
function a2aStatus({ record, tree }: Standing): A2aStatus {
  const task = taskOf(tree, record.taskId);
  const status = task === undefined || task.status === "unknown" ? record.status : task.status;
  const parts = task === undefined ? [] : statusParts(tree, task);
  const [first] = waitingBelow(tree, record.taskId);
  const id = `${record.taskId}-${first?.approval_id ?? status}`;
  return {
    state: states[status],
    message: parts.length === 0 ? undefined : agentMessage(record, id, parts),
    timestamp: new Date(task?.completedAt ?? record.createdAt).toISOString(),
  };
}

function statusParts(tree: Tree, task: Task): Part[] {
  if (task.status === "suspended") {
    const waiting = waitingBelow(tree, task.id);
    return [textPart(waiting.map(questionOf).join("\n")), ...waiting.map(approvalPart)];
  }
  if (task.error) return [textPart(task.error.message)];
  if (task.status === "incomplete")
    return [textPart(`The task is incomplete: ${task.incompleteReason ?? "unknown"}.`)];
  return task.status === "cancelled" && task.reason ? [textPart(task.reason)] : [];
}

/** The approvals that a task and its descendants wait for. */
export function waitingBelow(tree: Tree, taskId: string): readonly ApprovalState[] {
  return subtreeOf(tree, taskId).flatMap(waitingIn);
}

function questionOf({ kind, name, message, arguments: input = "{}" }: ApprovalState): string {
  if (message !== undefined) return message;
  return kind === "tool_call" ? `Allow ${name}(${input})?` : `Answer ${name ?? kind}(${input}).`;
}

function approvalPart(approval: ApprovalState): Part {
  const { approval_id, kind, name, message, expires_at, arguments: input } = approval;
  return dataPart({
    type: "approval",
    approval_id,
    kind,
    ...(name !== undefined && { name }),
    ...(input !== undefined && { input: parseJson(input) }),
    ...(message !== undefined && { message }),
    ...(expires_at !== undefined && { expires_at }),
  });
}

function metadataOf(tree: Tree, task: Task): Record<string, unknown> | undefined {
  if (!isTerminal(task.status)) return undefined;
  const { status, incompleteReason, error, cost } = task;
  const usage = subtreeUsage(tree, task.id);
  return {
    [extra]: {
      status,
      usage,
      ...(cost && { cost }),
      ...(incompleteReason && { reason: incompleteReason }),
      ...(error && { error: { code: error.code, retryable: error.retryable } }),
    },
  };
}

function artifactsOf(task: Task, base: string): Artifact[] {
  const said = task.output.flatMap((item) =>
    item.type === "message" && item.block_list.length > 0
      ? [artifact(item.id, partsOf(item.block_list, base))]
      : [],
  );
  return task.structured === undefined ? said : [...said, structuredArtifact(task)];
}

function structuredArtifact({ id, structured }: Pick<Task, "id" | "structured">): Artifact {
  return { ...artifact(`${id}-structured`, [dataPart(structured)]), name: "structured" };
}

function artifact(artifactId: string, parts: Part[]): Artifact {
  return {
    artifactId,
    name: "message",
    description: "",
    parts,
    metadata: undefined,
    extensions: [],
  };
}

function partsOf(blocks: readonly WireBlock[], base: string): Part[] {
  return blocks.flatMap((block) => {
    if (block.type === "text") return [textPart(block.text)];
    if (block.type === "image") return [mediaPart(block.image_url.url, block.mime_type, base)];
    if (block.type === "file" || block.type === "audio" || block.type === "video")
      return [{ ...mediaPart(block.url, block.mime_type, base), filename: block.filename ?? "" }];
    return [];
  });
}

function mediaPart(url: string, mediaType = "", base = ""): Part {
  const data = /^data:([^;,]*);base64,(.*)$/s.exec(url);
  const blob = /^task:\/\/([^/]+)\/blobs\/(.+)$/.exec(url);
  const type = data?.[1] || mediaType;
  if (data) return part({ $case: "raw", value: Buffer.from(data[2] ?? "", "base64") }, type);
  const address = blob
    ? `${base}/v1/tasks/${encodeURIComponent(blob[1] ?? "")}/blobs/${blob[2]}`
    : url;
  return part({ $case: "url", value: address }, type);
}

function textPart(text: string): Part {
  return part({ $case: "text", value: text }, "text/plain");
}

function dataPart(value: unknown): Part {
  return part({ $case: "data", value }, "application/json");
}

function part(content: NonNullable<Part["content"]>, mediaType: string): Part {
  return { content, metadata: undefined, filename: "", mediaType };
}

function agentMessage(record: TaskRecord, messageId: string, parts: Part[]): A2aMessage {
  const { taskId, sessionId: contextId } = record;
  const rest = { metadata: undefined, extensions: [], referenceTaskIds: [] };
  return { messageId, taskId, contextId, role: Role.ROLE_AGENT, parts, ...rest };
}

/** The messages of the caller in a task. */
export function historyOf(record: TaskRecord, messages: readonly Message[]): A2aMessage[] {
  const own = messages.filter(
    ({ role, metadata }) => role === "user" && metadata?.taskId === record.taskId,
  );
  return (own.length > 0 ? own : (record.input ?? [])).map((message) => ({
    ...agentMessage(record, message.id, []),
    role: Role.ROLE_USER,
    parts: message.content.flatMap((block) =>
      block.type === "text" ? [textPart(block.text)] : [],
    ),
  }));
}

/** Translates the events of a root task that follow a snapshot of it to updates of A2A. */
export class A2aUpdates {
  readonly #standing: () => Promise<Standing>;
  readonly #record: TaskRecord;
  readonly #base: string;
  /** The items of the task, by index. */
  readonly #items = new Map<number, Pick<Item, "id" | "type">>();
  /** The artifacts that the client has. */
  readonly #known = new Set<string>();
  readonly #streamed = new Set<string>();
  readonly #callNames = new Map<string, string>();

  /** `standing` reads the log again, for a task that rests. */
  constructor({ record, tree, base }: Standing, standing: () => Promise<Standing>) {
    this.#standing = standing;
    this.#record = record;
    this.#base = base;
    this.#learn(taskOf(tree, record.taskId)?.output ?? []);
  }

  #learn(output: readonly Item[]): void {
    for (const [index, item] of output.entries()) {
      this.#items.set(index, item);
      if (item.type === "tool_call") this.#callNames.set(item.call_id, item.name);
      if (item.type !== "message" || item.block_list.length === 0) continue;
      this.#known.add(item.id);
      for (const at of item.block_list.keys()) this.#streamed.add(`${index} ${at}`);
    }
  }

  async translate(event: TaskEvent): Promise<readonly StreamResponse[]> {
    if (event.type === "error" || event.task_id !== this.#record.taskId) return [];
    if (event.type === "task.snapshot") {
      this.#learn(event.task.output ?? []);
      const value = a2aTask(await this.#standing(), []);
      return [{ payload: { $case: "task", value } }];
    }
    if (event.type === "task.suspended") return [await this.#status()];
    if ("task" in event && isTerminal(event.task.status)) {
      const { structured } = event.task;
      const last = structured === undefined ? [] : [this.#structured(structured)];
      return [...last, await this.#status()];
    }
    return this.#updates(event);
  }

  #updates(event: LogEvent): readonly StreamResponse[] {
    switch (event.type) {
      case "task.in_progress":
      case "task.resumed":
        return [this.#working()];
      case "task.output_item.added":
        this.#items.set(event.output_index, event.item);
        if (event.item.type === "tool_call")
          this.#callNames.set(event.item.call_id, event.item.name);
        return [];
      case "task.text.delta":
        this.#streamed.add(`${event.output_index} ${event.block_index}`);
        return this.#grow(event.output_index, [textPart(event.delta)]);
      case "task.text.done":
      case "task.image.done":
      case "task.block.done": {
        const isSent = this.#streamed.delete(`${event.output_index} ${event.block_index}`);
        return isSent ? [] : this.#grow(event.output_index, partsOf([event.item], this.#base));
      }
      case "task.output_item.done":
        return this.#done(event.item);
      case "task.output_item.discarded":
        return this.#discard(event.item_id);
      default:
        return [];
    }
  }

  /** Adds parts to the artifact of a message. */
  #grow(index: number, parts: Part[]): readonly StreamResponse[] {
    const item = this.#items.get(index);
    if (item?.type !== "message" || parts.length === 0) return [];
    const append = this.#known.has(item.id);
    this.#known.add(item.id);
    return [this.#update(artifact(item.id, parts), append, false)];
  }

  #done(item: ItemChange): readonly StreamResponse[] {
    switch (item.type) {
      case "message":
        // A part is required; an empty text changes nothing.
        return this.#known.has(item.id)
          ? [this.#update(artifact(item.id, [textPart("")]), true, true)]
          : [];
      case "reasoning": {
        const text = streamedText({ summary: [], ...item });
        return text === "" ? [] : [this.#note(item.id, [textPart(text)], "reasoning")];
      }
      case "tool_call": {
        const { call_id, name = this.#callNames.get(call_id) ?? "", arguments: input = "" } = item;
        const call = { type: "tool_call", call_id, name, input: parseJson(input) };
        return [this.#note(item.id, [dataPart(call)], "tool_call")];
      }
      case "tool_result": {
        const { call_id, status } = item;
        const text = streamedText({ block_list: [], ...item });
        const name = this.#callNames.get(call_id) ?? "";
        const result = { type: "tool_result", call_id, name, status, text };
        return [this.#note(item.id, [dataPart(result)], "tool_result")];
      }
    }
  }

  /** A client cannot forget an artifact, so the discarded one becomes empty. */
  #discard(itemId: string): readonly StreamResponse[] {
    if (!this.#known.delete(itemId)) return [];
    const empty = {
      ...artifact(itemId, [textPart("")]),
      metadata: { [extra]: { discarded: true } },
    };
    return [this.#update(empty, false, true)];
  }

  #structured(structured: unknown): StreamResponse {
    const whole = structuredArtifact({ id: this.#record.taskId, structured });
    return this.#update(whole, false, true);
  }

  #update(value: Artifact, append: boolean, lastChunk: boolean): StreamResponse {
    const { taskId, sessionId: contextId } = this.#record;
    const update = { taskId, contextId, artifact: value, append, lastChunk, metadata: undefined };
    return { payload: { $case: "artifactUpdate", value: update } };
  }

  /** What the agent does besides its messages, as a message of the status. */
  #note(id: string, parts: Part[], type: string): StreamResponse {
    const message = agentMessage(this.#record, id, parts);
    return this.#working({ ...message, metadata: { [extra]: { type } } });
  }

  #working(message?: A2aMessage): StreamResponse {
    const state = TaskState.TASK_STATE_WORKING;
    return this.#statusUpdate({ state, message, timestamp: undefined });
  }

  async #status(): Promise<StreamResponse> {
    const standing = await this.#standing();
    const task = taskOf(standing.tree, this.#record.taskId);
    return this.#statusUpdate(a2aStatus(standing), task && metadataOf(standing.tree, task));
  }

  #statusUpdate(status: A2aStatus, metadata?: Record<string, unknown>): StreamResponse {
    const { taskId, sessionId: contextId } = this.#record;
    return { payload: { $case: "statusUpdate", value: { taskId, contextId, status, metadata } } };
  }
}
