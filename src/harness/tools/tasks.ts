import { cancelTask } from "../../agent/cancel.ts";
import { outcomeOf, standing } from "../../agent/child-outcome.ts";
import { childReport } from "../../agent/child-report.ts";
import { taskReached } from "../../agent/task-reached.ts";
import type { TaskRun } from "../../agent/task-run.ts";
import type { ToolContext } from "../../agent/tool/context.ts";
import { jsonSchema } from "../../agent/tool/schema.ts";
import { type Tool, tool } from "../../agent/tool/tool.ts";
import { ToolFailure } from "../../agent/tool/tool-failure.ts";
import { taskBehind } from "../../agent/tool-context.ts";
import type { Block } from "../../protocol/message.ts";
import type { TaskRecord } from "../../protocol/store.ts";
import { isTerminal, type TaskStatus } from "../../protocol/task.ts";

const maxWaitMs = 600_000;
const maxListed = 100;

const execution = { timeoutMs: null, maxAttempts: 1 };

/** The tools by which an agent looks after the tasks that it has given to others. */
export function taskTools(): readonly Tool[] {
  return [taskOutput, taskWait, taskCancel, taskList];
}

const taskIdProperty = { type: "string", description: "The task_id that agent_spawn returned." };

const taskOutput = tool({
  name: "task_output",
  description:
    "Reads the result of a background task. By default it waits until the task has ended, or asks for something.",
  input: jsonSchema<{ task_id: string; block?: boolean; timeout?: number }>({
    type: "object",
    properties: {
      task_id: taskIdProperty,
      block: { type: "boolean", description: "Whether to wait; true when absent." },
      timeout: {
        type: "integer",
        minimum: 0,
        maximum: maxWaitMs,
        description: "How many milliseconds to wait; 30000 when absent.",
      },
    },
    required: ["task_id"],
    additionalProperties: false,
  }),
  idempotent: true,
  execution,
  async execute({ task_id, block = true, timeout = 30_000 }, context) {
    const task = taskBehind(context);
    await ownTask(task, task_id);
    if (block) await waitFor(task, [task_id], timeout, context);
    return { content: await report(task, await ownTask(task, task_id), context) };
  },
});

const taskWait = tool({
  name: "task_wait",
  description:
    "Waits until background tasks have ended, or ask for something, and returns their results.",
  input: jsonSchema<{ task_ids?: readonly string[]; timeout_seconds?: number }>({
    type: "object",
    properties: {
      task_ids: {
        type: "array",
        items: { type: "string" },
        description:
          "Which; absent: all that have not ended, and all whose result you have not seen.",
      },
      timeout_seconds: {
        type: "integer",
        minimum: 0,
        maximum: maxWaitMs / 1_000,
        description: "How many seconds to wait; 60 when absent.",
      },
    },
    additionalProperties: false,
  }),
  idempotent: true,
  execution,
  async execute({ task_ids, timeout_seconds = 60 }, context) {
    const task = taskBehind(context);
    const ids = task_ids ?? (await undelivered(task));
    if (ids.length === 0) return "There is no task to wait for.";
    for (const id of ids) await ownTask(task, id);
    await waitFor(task, ids, timeout_seconds * 1_000, context);
    const content: Block[] = [];
    for (const id of new Set(ids)) {
      const shown = await report(task, await ownTask(task, id), context);
      if (content.length > 0) content.push({ type: "text", text: "\n" });
      content.push(...shown);
    }
    return { content };
  },
});

const taskCancel = tool({
  name: "task_cancel",
  description: "Stops a background task, and everything that it has started.",
  input: jsonSchema<{ task_id: string }>({
    type: "object",
    properties: { task_id: taskIdProperty },
    required: ["task_id"],
    additionalProperties: false,
  }),
  idempotent: true,
  execution,
  async execute({ task_id }, context) {
    const task = taskBehind(context);
    const { status } = await ownTask(task, task_id);
    if (isTerminal(status)) return `task_id: ${task_id}\nstatus: ${status}\nIt had ended before.`;
    await cancelTask(
      task.conversation.settings,
      task_id,
      "Cancelled by the agent that started it.",
    );
    const now = await ownTask(task, task_id);
    return `task_id: ${task_id}\nstatus: ${now.status}`;
  },
});

const filters = {
  running: ["queued", "in_progress"],
  suspended: ["suspended"],
  completed: ["completed"],
  failed: ["failed"],
  cancelled: ["cancelled"],
  incomplete: ["incomplete"],
  all: undefined,
} as const satisfies Record<string, readonly TaskStatus[] | undefined>;

const taskList = tool({
  name: "task_list",
  description: "Lists the tasks of the subagents that you have started.",
  input: jsonSchema<{ status_filter?: keyof typeof filters }>({
    type: "object",
    properties: {
      status_filter: {
        type: "string",
        enum: Object.keys(filters),
        description: "Only those; running are queued and in progress. All when absent.",
      },
    },
    additionalProperties: false,
  }),
  execution,
  async execute({ status_filter = "all" }, context) {
    const { conversation, ref } = taskBehind(context);
    const status: readonly TaskStatus[] | undefined = filters[status_filter];
    const records = await conversation.store.tasks({
      parentSessionId: ref.sessionId,
      ...(status && { status }),
    });
    if (records.length === 0) return "There are no such tasks.";
    const shown = records.slice(-maxListed).map((record) => `- ${lineOf(record)}`);
    const more = records.length - shown.length;
    return [...(more > 0 ? [`(${more} older ones are not shown)`] : []), ...shown].join("\n");
  },
});

/** One task in one line. */
function lineOf({ taskId, agentId, label, status, mode }: TaskRecord): string {
  const named = label === undefined ? agentId : `${agentId} "${label}"`;
  return `${taskId} ${named}: ${status}${mode === "background" ? ", in the background" : ""}`;
}

async function ownTask(task: TaskRun, taskId: string): Promise<TaskRecord> {
  const record = await task.conversation.store.task(taskId);
  if (record?.parentSessionId === task.ref.sessionId) return record;
  throw new ToolFailure(
    "unknown_task",
    `There is no task "${taskId}" of this session. task_list shows those that there are.`,
  );
}

/** Background tasks that have not ended, and those whose end nobody has read yet. */
async function undelivered({ conversation, ref }: TaskRun): Promise<readonly string[]> {
  const { store } = conversation;
  const records = await store.tasks({ parentSessionId: ref.sessionId });
  const posts = await store.posts({ sessionId: ref.sessionId });
  const told = new Set(
    posts.flatMap(({ message }) =>
      (message?.content ?? []).map((block) =>
        block.type === "hint" ? block.metadata?.taskId : "",
      ),
    ),
  );
  return records
    .filter(
      ({ taskId, mode, status }) =>
        mode === "background" && (!isTerminal(status) || told.has(taskId)),
    )
    .map(({ taskId }) => taskId);
}

async function waitFor(
  { conversation, settings }: TaskRun,
  taskIds: readonly string[],
  timeoutMs: number,
  { signal }: ToolContext,
): Promise<void> {
  const over = new AbortController();
  const onAbort = () => over.abort(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  const isResting = ({ status }: TaskRecord) => isTerminal(status) || status === "suspended";
  const all = Promise.all(
    taskIds.map((id) => taskReached(conversation.store, id, isResting, over.signal)),
  );
  settings.clock.sleep(timeoutMs, over.signal).then(
    () => over.abort(),
    () => {},
  );
  try {
    await all;
  } finally {
    over.abort();
    signal.removeEventListener("abort", onAbort);
  }
}

/** How a task stands, for the model; what it reads of the end of one, it need not be told again. */
async function report(
  task: TaskRun,
  record: TaskRecord,
  { callId }: ToolContext,
): Promise<readonly Block[]> {
  const { status } = record;
  const isRunning = status === "queued" || status === "in_progress";
  const outcome = isTerminal(status) ? await outcomeOf(task, record, callId) : standing(record);
  const { header, said } = childReport(outcome, ...(isRunning ? (["running"] as const) : []));
  const text = isTerminal(status) ? `task_id: ${record.taskId}\n${header}` : header;
  return [{ type: "text", text }, ...outcome.cited, ...said];
}
