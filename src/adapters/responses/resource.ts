import type {
  Response as OpenAiResponse,
  ResponseOutputItem,
} from "openai/resources/responses/responses";
import type { TaskRecord } from "../../contract/index.ts";
import type { Task, Usage } from "../../protocol/index.ts";

/** The settings of a request that its response repeats. */
export interface Settings {
  readonly model: string;
  readonly instructions?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly text?: object;
  readonly background?: boolean;
  readonly previous?: string;
}

/** The key of a task's metadata that keeps the settings of its request. */
export const settingsKey = "openai.settings";

/** The id of a response: the task, and how often the client has answered it before. */
export function responseId(taskId: string, part: number): string {
  const id = taskId.replace(/^task_/, "");
  return part === 0 ? `resp_${id}` : `resp_${id}.${part}`;
}

/** The task of a response, and which part of it the response is; undefined if the id is not one of ours. */
export function partOf(id: string): { readonly taskId: string; readonly part: number } | undefined {
  const [, name, part = "0"] = /^resp_([\w~-]{1,123})(?:\.(\d{1,6}))?$/.exec(id) ?? [];
  return name === undefined ? undefined : { taskId: `task_${name}`, part: Number(part) };
}

/** An item of the output, as it is built. */
export interface Output {
  readonly type: string;
  readonly id: string;
  [field: string]: unknown;
}

/** Where a response stands. */
interface Standing {
  readonly task: Task | undefined;
  readonly output: readonly Output[];
  readonly usage: Usage;
  /** Whether the client has answered what the response ended with. */
  readonly isAnswered: boolean;
}

/** The response as clients of OpenAI read it. */
export function resourceOf(record: TaskRecord, part: number, standing: Standing): OpenAiResponse {
  const { taskId, sessionId, agentName, metadata: kept, outsideTools = [], createdAt } = record;
  const settings = (kept?.[settingsKey] ?? { model: agentName }) as Settings;
  const { model, instructions = null, metadata = {}, background = false } = settings;
  const { task, output } = standing;
  const { status, incomplete } = statusOf(standing);
  const previous = part > 0 ? responseId(taskId, part - 1) : settings.previous;
  const resource = {
    id: responseId(taskId, part),
    object: "response",
    created_at: seconds(createdAt),
    completed_at: task?.completedAt === undefined ? null : seconds(task.completedAt),
    status,
    incomplete_details: incomplete === undefined ? null : { reason: incomplete },
    error: task?.error ? { code: "server_error", message: task.error.message } : null,
    model,
    previous_response_id: previous ?? null,
    conversation: { id: sessionId },
    instructions,
    output: structuredClone(output) as unknown as ResponseOutputItem[],
    output_text: textIn(output),
    tools: outsideTools.map(({ name, description = null, parameters = {} }) => ({
      type: "function",
      name,
      description,
      parameters,
      strict: false,
    })),
    usage: task ? usageOf(standing.usage) : null,
    metadata,
    text: settings.text ?? { format: { type: "text" } },
    background,
    ...constants,
  };
  return resource as unknown as OpenAiResponse;
}

function statusOf({ task, isAnswered }: Standing): {
  readonly status: string;
  readonly incomplete?: string;
} {
  const { status = "queued", incompleteReason } = task ?? {};
  if (isAnswered) return { status: "completed" };
  switch (status) {
    case "suspended":
      return { status: "completed" };
    case "incomplete":
      return { status, incomplete: incompleteReason ?? "max_output_tokens" };
    case "unknown":
      return { status: "queued" };
    default:
      return { status };
  }
}

/** The settings of a model that an agent decides itself. */
const constants = {
  tool_choice: "auto",
  truncation: "disabled",
  parallel_tool_calls: true,
  top_p: 1,
  temperature: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  top_logprobs: 0,
  reasoning: null,
  user: null,
  max_output_tokens: null,
  max_tool_calls: null,
  store: true,
  service_tier: "default",
  safety_identifier: null,
  prompt_cache_key: null,
} as const;

function seconds(ms: number): number {
  return Math.floor(ms / 1_000);
}

function usageOf(usage: Usage) {
  const { input_tokens, output_tokens, total_tokens } = usage;
  const { cached_input_tokens = 0, reasoning_tokens = 0 } = usage;
  return {
    input_tokens,
    input_tokens_details: { cached_tokens: cached_input_tokens },
    output_tokens,
    output_tokens_details: { reasoning_tokens },
    total_tokens,
  };
}

function textIn(output: readonly Output[]): string {
  const parts = output.flatMap(({ content }) => (content ?? []) as { readonly text: string }[]);
  return parts.map(({ text }) => text).join("");
}
