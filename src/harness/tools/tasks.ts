import {
  childReport,
  foldTask,
  jsonSchema,
  outcomeOf,
  standing,
  type TaskRun,
  type ToolContext,
  ToolFailure,
  taskBehind,
  taskReached,
  tool,
} from "../../agent/index.ts";
import type { Block, TaskRecord, Tool } from "../../contract/index.ts";
import { isTerminal, type TaskStatus } from "../../protocol/index.ts";
import { executeName } from "./shell.ts";

const maxWaitMs = 600_000;
const maxListed = 100;
const maxShown = 40_000;

const execution = { timeoutMs: null, maxAttempts: 1 };

/** Creates the tools that read, await, cancel and list the tasks of children. */
export function taskTools(): readonly Tool[] {
  return [taskOutput, taskWait, taskCancel, taskList];
}

const taskIdProperty = { type: "string", description: "The task_id that agent_spawn returned." };

const taskOutput = tool({
  name: "task_output",
  readOnly: true,
  description:
    "Reads the result of a background task. By default it waits until the task ends or needs an answer.",
  input: jsonSchema<{ task_id: string; block?: boolean; timeout?: number; offset?: number }>({
    type: "object",
    properties: {
      task_id: taskIdProperty,
      block: { type: "boolean", description: "Whether to wait; defaults to true." },
      timeout: {
        type: "integer",
        minimum: 0,
        maximum: maxWaitMs,
        description: "How many milliseconds to wait; defaults to 30000.",
      },
      offset: {
        type: "integer",
        minimum: 0,
        description:
          "Only for a command in the background: returns its output from this character on, at once unless block is true.",
      },
    },
    required: ["task_id"],
    additionalProperties: false,
  }),
  idempotent: true,
  execution,
  async execute({ task_id, block, timeout = 30_000, offset }, context) {
    const task = taskBehind(context);
    await ownTask(task, task_id);
    if (block ?? offset === undefined) await waitFor(task, [task_id], timeout, context);
    if (offset !== undefined) return outputFrom(task, await ownTask(task, task_id), offset);
    return { content: await report(task, await ownTask(task, task_id), context) };
  },
});

/** Returns the output of a command from an offset on, while it runs or after. */
async function outputFrom(
  { conversation }: TaskRun,
  record: TaskRecord,
  offset: number,
): Promise<string> {
  const { taskId, rootTaskId, agentId, status } = record;
  if (agentId !== executeName) {
    const message = `The task "${taskId}" is not a command. Call task_output without offset.`;
    throw new ToolFailure("not_a_command", message);
  }
  const { task } = await foldTask(conversation.store, { taskId, rootTaskId });
  const results = (task?.output ?? []).flatMap((item) =>
    item.type === "tool_result" ? item.block_list : [],
  );
  const output = results.map((block) => (block.type === "text" ? block.text : "")).join("");
  const shown = output.slice(offset, offset + maxShown);
  const next = offset + shown.length;
  const left = output.length - next;
  const more = left > 0 ? `\n[${left} more characters; continue with offset ${next}]` : "";
  const lines = [
    `task_id: ${taskId}`,
    `status: ${status}`,
    `next_offset: ${Math.min(next, output.length)}`,
  ];
  return `${lines.join("\n")}\n\n${shown === "" ? "(no output from here)" : shown}${more}`;
}

const taskWait = tool({
  name: "task_wait",
  readOnly: true,
  description: "Waits until background tasks end or need an answer, and returns their results.",
  input: jsonSchema<{ task_ids?: readonly string[]; timeout_seconds?: number }>({
    type: "object",
    properties: {
      task_ids: {
        type: "array",
        items: { type: "string" },
        description:
          "The tasks; defaults to all that have not ended or whose result you have not seen.",
      },
      timeout_seconds: {
        type: "integer",
        minimum: 0,
        maximum: maxWaitMs / 1_000,
        description: "How many seconds to wait; defaults to 60.",
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
  description: "Stops a background task and all tasks that it has started.",
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
    if (isTerminal(status)) return `task_id: ${task_id}\nstatus: ${status}\nIt had already ended.`;
    await task.conversation.cancelTask(task_id, "Cancelled by the agent that started it.");
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
  readOnly: true,
  description: "Lists the tasks of the subagents that you have started.",
  input: jsonSchema<{ status_filter?: keyof typeof filters }>({
    type: "object",
    properties: {
      status_filter: {
        type: "string",
        enum: Object.keys(filters),
        description:
          "Only tasks with this status; running means queued or in progress. Defaults to all.",
      },
    },
    additionalProperties: false,
  }),
  execution,
  async execute({ status_filter = "all" }, context) {
    const { conversation, identity } = taskBehind(context);
    const { ref } = identity;
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

function lineOf({ taskId, agentId, label, status, mode }: TaskRecord): string {
  const named = label === undefined ? agentId : `${agentId} "${label}"`;
  return `${taskId} ${named}: ${status}${mode === "background" ? ", in the background" : ""}`;
}

async function ownTask(task: TaskRun, taskId: string): Promise<TaskRecord> {
  const record = await task.conversation.store.task(taskId);
  if (record?.parentSessionId === task.identity.ref.sessionId) return record;
  throw new ToolFailure(
    "unknown_task",
    `There is no task "${taskId}" of this session. Use task_list to see the tasks.`,
  );
}

/** Returns the background tasks that have not ended, or whose result the model has not seen. */
async function undelivered({ conversation, identity }: TaskRun): Promise<readonly string[]> {
  const { ref } = identity;
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
  const end = AbortSignal.any([signal, over.signal]);
  const isResting = ({ status }: TaskRecord) => isTerminal(status) || status === "suspended";
  settings.clock.sleep(timeoutMs, end).then(
    () => over.abort(),
    () => {},
  );
  try {
    await Promise.all(taskIds.map((id) => taskReached(conversation.store, id, isResting, end)));
  } finally {
    over.abort();
  }
}

/** Reports the state of a task; reading its result also counts as its delivery. */
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
  return [{ type: "text", text }, ...said];
}
