import {
  iterationOf,
  type OnModelCall,
  processOf,
  type TaskRun,
  type TurnRequest,
  type TurnTool,
  toPrompt,
} from "../agent/index.ts";
import { notFound } from "../base/error.ts";
import * as is from "../base/options.ts";
import type { Message, Store, TaskRecord } from "../contract/index.ts";
import { findTask } from "./found-task.ts";
import { publicMessage } from "./messages.ts";
import type { Call, Route } from "./route.ts";

/** What the transcript does not hold of a model call; it also applies to later calls, up to the next stored one. */
interface KeptPrompt {
  readonly systemPrompt: string;
  readonly tools: readonly TurnTool[];
  readonly options: Readonly<Record<string, unknown>>;
  /** The index of the first message of the request in the session. */
  readonly offset: number;
  /** If a hook has edited the messages: how many it left as they are, and those that follow them. */
  readonly edited?: { readonly unchanged: number; readonly added: readonly Message[] };
}

/** Options without credentials: headers and provider options can contain them. */
const shownOptions = [
  ...["temperature", "maxOutputTokens", "topP", "topK", "seed", "stopSequences"],
  ...["presencePenalty", "frequencyPenalty", "toolChoice", "reasoning"],
];

const prefixOf = (taskId: string) => `blobs/${taskId}/prompt-`;

/** Stores the system prompt and the tools of model calls when they change; they are deleted with their session. */
export function keepPrompts(store: Store): void {
  processOf(store).onModelCall = promptKeeper(store);
}

function promptKeeper(store: Store): OnModelCall {
  const last = new WeakMap<TaskRun, string>();
  return (task, request) => {
    const text = JSON.stringify(keptPrompt(task, request));
    if (last.get(task) === text) return;
    last.set(task, text);
    const iteration = String(iterationOf(task) + 1).padStart(6, "0");
    const path = `${prefixOf(task.identity.ref.taskId)}${iteration}`;
    // A prompt that is missing must not fail the run.
    store.files.put(path, new TextEncoder().encode(text)).catch(() => {});
  };
}

function keptPrompt(
  { transcript: { messages, offset } }: TaskRun,
  request: TurnRequest,
): KeptPrompt {
  const { systemPrompt, tools, options } = request;
  return {
    systemPrompt,
    tools: tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })),
    options: Object.fromEntries(
      shownOptions.filter((name) => name in options).map((name) => [name, options[name]]),
    ),
    offset,
    ...(request.messages !== messages && editIn(request.messages, messages)),
  };
}

function editIn(
  sent: readonly Message[],
  messages: readonly Message[],
): Pick<KeptPrompt, "edited"> {
  const differs = sent.findIndex((message, index) => message !== messages[index]);
  const unchanged = differs < 0 ? sent.length : differs;
  if (unchanged === messages.length && unchanged === sent.length) return {};
  return { edited: { unchanged, added: sent.slice(unchanged) } };
}

/** The route of the prompts of a task. */
export const promptRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/v1/tasks/:id/prompts",
    needs: "read",
    summary: "List the model calls of a task; with `iteration`, one of them with its whole prompt.",
    query: { iteration: is.integer(1, 1_000_000) },
    ids: { id: "task" },
    returns: { status: 200, description: "`{ prompts: [{ iteration, message_id, model, … }] }`" },
    handle: showPrompts,
  },
];

/** A model call in the transcript. */
interface MadeCall {
  readonly iteration: number;
  /** The index in the session of the message that follows the prompt. */
  readonly at: number;
  /** Absent while the model replies. */
  readonly reply?: Message;
}

async function showPrompts(call: Call): Promise<Response> {
  const { record } = await findTask(call);
  const { store } = call.services;
  const { iteration } = call.query as { iteration?: number };
  const messages = await store.session(record.sessionId);
  const kept = await readKept(store, record.taskId);
  const calls = callsIn(messages, record, kept);
  const found =
    iteration === undefined ? calls : calls.filter((one) => one.iteration === iteration);
  if (iteration !== undefined && found.length === 0)
    throw notFound("task", `${record.taskId} with the model call ${iteration}`);
  const prompts = found.map((made) => ({
    ...shownCall(made),
    ...(iteration !== undefined && promptOf(made, kept, messages, record)),
  }));
  return Response.json({ prompts }, { headers: call.headers });
}

type Kept = ReadonlyMap<number, KeptPrompt>;

async function readKept(store: Store, taskId: string): Promise<Kept> {
  const prefix = prefixOf(taskId);
  const kept = new Map<number, KeptPrompt>();
  for (const { path } of await store.files.list(prefix)) {
    const file = await store.files.get(path);
    if (file === undefined) continue;
    const prompt = JSON.parse(new TextDecoder().decode(file.data)) as KeptPrompt;
    kept.set(Number(path.slice(prefix.length)), prompt);
  }
  return kept;
}

function callsIn(messages: readonly Message[], { taskId, status }: TaskRecord, kept: Kept) {
  const calls = messages.flatMap((reply, at): readonly MadeCall[] => {
    const { iteration, taskId: of } = reply.metadata ?? {};
    return reply.role === "assistant" && of === taskId && typeof iteration === "number"
      ? [{ iteration, at, reply }]
      : [];
  });
  const newest = Math.max(0, ...kept.keys());
  const isReplying = status === "in_progress" && newest > (calls.at(-1)?.iteration ?? 0);
  return isReplying ? [...calls, { iteration: newest, at: messages.length }] : calls;
}

function shownCall({ iteration, reply }: MadeCall) {
  return {
    iteration,
    ...(reply && {
      ...{ message_id: reply.id, model: reply.metadata?.model, usage: reply.usage },
      purpose: reply.metadata?.summary ? "summary" : "reply",
    }),
  };
}

/** The prompt as the provider got it, except for its own signatures, from the transcript and what is stored besides it. */
function promptOf(
  { iteration, at }: MadeCall,
  kept: Kept,
  session: readonly Message[],
  { agentName }: TaskRecord,
) {
  const stored = Math.max(0, ...[...kept.keys()].filter((key) => key <= iteration));
  const { systemPrompt, tools, options, offset = 0, edited } = kept.get(stored) ?? {};
  const messages = edited
    ? [...session.slice(offset, offset + edited.unchanged), ...edited.added]
    : session.slice(offset, at);
  // Copies, because the prompt of a running task is continued by the identity of its messages.
  const own = messages.map(publicMessage);
  return {
    system_prompt: systemPrompt,
    tools: tools?.map(({ inputSchema: input_schema, ...tool }) => ({ ...tool, input_schema })),
    options,
    messages: toPrompt(own, systemPrompt ?? "", "v4", agentName, offset),
  };
}
