import { RivuletError } from "../../base/error.ts";
import type { Block, Budget, Message, Store, TaskRecord } from "../../contract/index.ts";
import { type Item, type TaskEvent, type TaskStatus, TaskTree } from "../../protocol/index.ts";
import { readPages } from "../../store/index.ts";
import { type RunView, runOf } from "./agents-view.ts";

/** A run as a test replays it: plain JSON with what the models, the tools and the people have said. */
export interface RunRecording {
  readonly version: 1;
  /** The name of the agent of the root tasks. */
  readonly agent: string;
  /** When the first task was created, in milliseconds since the epoch. */
  readonly startedAt: number;
  /** The tasks of the session up to the recorded run, with all their subagents, in the order of their creation. */
  readonly tasks: readonly RecordedTask[];
  /** The order in which items, tasks and hints came: the index of the task, and its reply, result or event. */
  readonly order: readonly (readonly [task: number, key: string])[];
  /** The outcome of each root task. */
  readonly runs: readonly RunView[];
}

/** A task of a recorded run; a child has the id of its parent's call. */
export interface RecordedTask {
  readonly taskId: string;
  readonly parentTaskId?: string;
  readonly agentKey: string;
  readonly sessionId: string;
  readonly path: string;
  readonly status: TaskStatus;
  readonly model?: string;
  /** The JSON Schema of the answer of a root task. */
  readonly outputSchema?: object;
  readonly budget?: Budget;
  readonly error?: { readonly code: string; readonly message: string };
  /** Why the task was cancelled. */
  readonly reason?: string;
  readonly messages: readonly Message[];
  /** The system prompts and tools that the models were given, where they changed; filled in by the first replay. */
  readonly prompts?: readonly RecordedPrompt[];
}

/** The system prompt and the tools of a model call and of those after it. */
export interface RecordedPrompt {
  readonly iteration: number;
  readonly system: string;
  /** The tools, each with its description and its schema as JSON. */
  readonly tools: Readonly<Record<string, string>>;
}

/**
 * Reads the recording of a root task from a store, with the earlier tasks of its session. Only the fields that a replay
 * needs are copied, so headers, users, metadata and the context of tools are not in it. Throws `replay_unsupported` for a
 * run that cannot be replayed.
 */
export async function recordingOf(store: Store, taskId: string): Promise<RunRecording> {
  const asked = await store.task(taskId);
  const root = asked && (await store.task(asked.rootTaskId));
  if (root === undefined)
    throw new RivuletError(
      "not_found",
      `There is no task ${JSON.stringify(taskId.slice(0, 100))}.`,
      { hint: "Pass the id of a task in the store of its agent." },
    );
  const records = await store.tasks({ conversation: root.sessionId });
  const roots = records.filter(
    ({ depth, observes, compacts }) => depth === 0 && !observes && !compacts,
  );
  const kept = roots.slice(0, roots.findIndex((record) => record.taskId === root.taskId) + 1);
  const ids = new Set(kept.map((record) => record.taskId));
  const tree = records.filter(({ rootTaskId }) => ids.has(rootTaskId));
  const before = records.slice(0, records.indexOf(kept.at(-1) as TaskRecord));
  const other = before.find(({ observes, compacts }) => observes || compacts);
  if (other !== undefined)
    throw unsupported(
      `its session was ${other.observes ? "given messages without a run" : "compacted by a call"}`,
    );
  const indexes = new Map(tree.map((record, index) => [record.taskId, index]));
  const order: (readonly [number, string])[] = [];
  const runs: RunView[] = [];
  const reasons = new Map<string, string>();
  for (const record of kept) {
    const fold = new TaskTree();
    for await (const { frames } of readPages(store, record.taskId))
      for (const event of frames) {
        fold.apply(event);
        const key = milestoneOf(event);
        const index = "task_id" in event && event.task_id && indexes.get(event.task_id);
        if (key !== undefined && typeof index === "number") order.push([index, key]);
      }
    for (const { id, reason } of Object.values(fold.tree.tasks))
      if (reason) reasons.set(id, reason);
    runs.push(runOf(fold.tree));
  }
  return {
    version: 1,
    agent: root.agentName,
    startedAt: kept[0]?.createdAt ?? root.createdAt,
    tasks: await Promise.all(
      tree.map((record) => taskOf(store, record, reasons.get(record.taskId))),
    ),
    order,
    runs,
  };
}

const moments: Readonly<Record<string, true>> = {
  "task.hint.added": true,
  "task.approval.requested": true,
  "task.cancelling": true,
  "task.suspended": true,
  "task.completed": true,
  "task.failed": true,
  "task.cancelled": true,
  "task.incomplete": true,
};

/** The name of a moment that a replay waits for: an item ends, a task rests or gets a hint; undefined for other events. */
export function milestoneOf(event: TaskEvent): string | undefined {
  if (Object.hasOwn(moments, event.type)) return event.type;
  if (event.type !== "task.output_item.done") return undefined;
  const item = event.item as Partial<Item & { message_id: string; call_id: string }>;
  return item.type === "tool_result" ? `result ${item.call_id}` : `reply ${item.message_id}`;
}

async function taskOf(
  store: Store,
  record: TaskRecord,
  reason: string | undefined,
): Promise<RecordedTask> {
  const { taskId, parentTaskId, agentKey, sessionId, path, status, model, error } = record;
  const { agentName, outputSchema, budget } = record;
  if (record.remote) throw unsupported(`${agentName} is an agent of another server or program`);
  if (record.outsideTools?.length) throw unsupported(`its caller runs tools of ${agentName}`);
  const messages = ownMessages(await store.session(sessionId), taskId);
  if (messages.some(({ content }) => content.some(({ type }) => type === "compaction")))
    throw unsupported(`the session of ${agentName} was compacted`);
  return {
    ...{ taskId, ...(parentTaskId !== undefined && { parentTaskId }) },
    ...{ agentKey, sessionId, path, status },
    ...(model !== undefined && { model }),
    ...(outputSchema && { outputSchema }),
    ...(budget && { budget }),
    ...(error && { error: { code: error.code, message: error.message } }),
    ...(reason !== undefined && { reason }),
    messages: messages.map(keptMessage),
  };
}

/** The error for a run that a replay cannot repeat. */
export function unsupported(why: string): RivuletError<"replay_unsupported"> {
  return new RivuletError("replay_unsupported", `The run cannot be replayed: ${why}.`, {
    hint: "The guide to tests from runs lists what is not recorded. Record a run without it.",
  });
}

/** The messages that a task has added to its session. */
export function ownMessages(messages: readonly Message[], taskId: string): readonly Message[] {
  return messages.filter(({ metadata }) => metadata?.taskId === taskId);
}

const messageMarks = ["taskId", "iteration", "input", "finish", "model", "summary"] as const;

function keptMessage({ id, role, name, content, metadata = {}, usage }: Message): Message {
  const marks = messageMarks.filter((mark) => metadata[mark] !== undefined);
  return {
    ...{ id, role, ...(name !== undefined && { name }) },
    content: content.map(keptBlock),
    metadata: Object.fromEntries(marks.map((mark) => [mark, metadata[mark]])),
    ...(usage && { usage }),
  };
}

/** The fields that are kept of each type of block. */
const blockFields: Readonly<Record<Block["type"], readonly string[]>> = {
  text: ["text", "tags"],
  thinking: ["text"],
  hint: ["text"],
  image: ["source"],
  audio: ["source"],
  video: ["source"],
  file: ["source"],
  tool_use: ["id", "name", "input", "raw", "providerCallId"],
  tool_result: ["id", "name", "output", "state"],
  suspension: ["callId", "kind", "approvalId", "reason", "input", "edited", "responseSchema"],
  answer: ["approvalId", "callId", "decision", "input", "output", "state", "reason", "always"],
  compaction: ["summary", "keepFrom", "pruned"],
};

function keptBlock(block: Block): Block {
  const fields = block as unknown as Readonly<Record<string, unknown>>;
  const kept = (blockFields[block.type] ?? []).filter((name) => fields[name] !== undefined);
  const entries = kept.map((name) => [
    name,
    name === "output" ? (fields[name] as readonly Block[]).map(keptBlock) : fields[name],
  ]);
  // Only whether the tool continues with the answer; what it needs for that may be secret.
  const resumes = block.type === "suspension" && block.resume !== undefined && { resume: {} };
  return { type: block.type, ...Object.fromEntries(entries), ...resumes };
}
