import type { Answer, Awaitable, Input } from "../protocol/agent.ts";
import { RivuletError } from "../protocol/error.ts";
import type { IdSource } from "../protocol/id.ts";
import type { Block, Decision, Message, ToolResultBlock } from "../protocol/message.ts";
import { userMessage } from "../protocol/message.ts";
import type { TaskRecord } from "../protocol/store.ts";
import { isResultState, messageProblem, outputProblem } from "./check-message.ts";
import { copyJson, freezePlain } from "./plain.ts";
import type { AgentSettings } from "./settings.ts";
import { reasonOf } from "./tool/result.ts";
import { isCancel, untilCancelled } from "./until-cancelled.ts";

/** What a caller sent, by what it is. All of it is a copy: the caller's own stays the caller's. */
export interface ReadInput {
  readonly messages: readonly Message[];
  readonly answers: readonly Answer[];
  /** Results of outside calls, by call id. */
  readonly results: ReadonlyMap<string, OutsideResult>;
}
/** What became of a call that somebody else has made. */
export type OutsideResult = Pick<ToolResultBlock, "output" | "state">;

/** Makes what is stored of what a caller said. It is asked once: whoever resumes the task reads what was stored. */
export type PrepareInput = (
  messages: readonly Message[],
  task: Pick<TaskRecord, "sessionId" | "userId" | "agentId">,
) => Awaitable<readonly Message[]>;

/** The loop's own marks: what they say of a message in one transcript is not true in another. */
const ownMarks = new Set(["taskId", "iteration", "goto", "structuredRetry"]);
const ownBlockMarks = new Set(["references", "repeat", "ran"]);

/** The messages of a caller as they go into the transcript of a task. */
export async function storedInput(
  messages: readonly Message[],
  task: TaskRecord,
  settings: Pick<AgentSettings, "prepareInput" | "clock" | "ids">,
  signal: AbortSignal,
): Promise<readonly Message[]> {
  if (messages.length === 0) return [];
  const stored = await prepared(messages, task, settings, signal).catch((error: unknown) => {
    throw notPrepared(error, signal);
  });
  return stored.map((message) => {
    // What was said and done before is no work of this task.
    const whose = isHistory(message) ? {} : { taskId: task.taskId };
    return freezePlain({ ...message, metadata: { ...message.metadata, ...whose, input: true } });
  });
}

async function prepared(
  messages: readonly Message[],
  task: TaskRecord,
  { prepareInput, clock, ids }: Pick<AgentSettings, "prepareInput" | "clock" | "ids">,
  signal: AbortSignal,
): Promise<readonly Message[]> {
  if (prepareInput === undefined) return messages;
  const given = await untilCancelled({ signal, clock }, () =>
    prepareInput(freezePlain(messages), task),
  );
  const read = readGiven(given, ids);
  if (read.answers.length === 0 && read.results.size === 0) return read.messages;
  throw new Error("it gave more than messages");
}

function readGiven(given: readonly Message[], ids: IdSource): ReadInput {
  try {
    return readInput(given, ids);
  } catch (cause) {
    throw new Error(`it gave what cannot be stored: ${reasonOf(cause)}`, { cause });
  }
}

/** Whether a message tells of an agent's work in the past, and not what this one is asked. */
export function isHistory({ role }: Message): boolean {
  return role === "assistant" || role === "tool";
}

/** Sorts what `call`, `stream` and `run` take; anything else is an error that changes nothing. */
export function readInput(input: Input, ids: IdSource): ReadInput {
  const list: readonly unknown[] =
    input === undefined ? [] : Array.isArray(input) ? input : [input];
  const messages: Message[] = [];
  const answers: Answer[] = [];
  const results = new Map<string, OutsideResult>();
  /** The calls of the input itself: where each stands, until its result has come. */
  const calls = new Map<string, string>();
  const known = new Set<string>();
  for (const [index, entry] of list.entries()) {
    const place = Array.isArray(input) ? `input[${index}]` : "input";
    if (typeof entry === "string") messages.push(userMessage(entry));
    else if (typeOf(entry) === "answer") answers.push(readAnswer(entry, place));
    else {
      const message = readMessage(entry, place, ids);
      const past: ToolResultBlock[] = [];
      for (const [at, block] of message.content.entries()) {
        if (block.type === "tool_use") {
          if (known.has(block.id)) throw duplicate(`Two calls with the id ${block.id}.`);
          known.add(block.id);
          calls.set(block.id, `${place}.content[${at}]`);
        } else if (block.type === "tool_result") {
          if (calls.delete(block.id)) past.push(block);
          else if (results.has(block.id) || known.has(block.id)) {
            throw duplicate(`Two results for call ${block.id}.`);
          } else results.set(block.id, { output: block.output, state: block.state });
        }
      }
      messages.push(...withoutResults(message, past, ids));
    }
  }
  for (const place of calls.values()) throw invalid(`${place} is a call without a result.`);
  const seen = new Set<string>();
  for (const { approvalId } of answers) {
    if (seen.has(approvalId)) throw duplicate(`Two answers to approval ${approvalId}.`);
    seen.add(approvalId);
  }
  return { messages, answers, results };
}

/** What is put before the model while it works: the words of a user or of the system. */
export function readSteering(said: string | Message, ids: IdSource): Message {
  if (typeof said === "string") return userMessage(said);
  const message = readMessage(said, "message", ids);
  const problem = steeringProblem(message);
  if (problem !== undefined) throw invalid(problem);
  return message;
}

/** What is wrong with a message that is to be put before the model in between. */
export function steeringProblem(message: unknown): string | undefined {
  const problem = messageProblem(message, "message");
  if (problem !== undefined) return problem;
  const { role, content } = message as Message;
  if (isHistory(message as Message))
    return `message.role is ${role}: only users and systems steer.`;
  const at = content.findIndex(({ type }) => type === "tool_result");
  return at < 0 ? undefined : `message.content[${at}] is a result, which cannot steer.`;
}

/** A message apart from results: those of the input's own calls stand by themselves, those of outside calls are answers. */
function withoutResults(
  message: Message,
  past: readonly ToolResultBlock[],
  ids: IdSource,
): readonly Message[] {
  const rest = message.content.filter(({ type }) => type !== "tool_result");
  if (rest.length === message.content.length) return [message];
  if (message.role === "tool") return past.length > 0 ? [{ ...message, content: past }] : [];
  const told: Message[] = past.map((block) => ({
    id: ids.next("msg"),
    role: "tool",
    content: [block],
  }));
  return rest.length > 0 ? [...told, { ...message, content: rest }] : told;
}

function readMessage(entry: unknown, place: string, ids: IdSource): Message {
  const copy = copied(entry, place);
  const problem = messageProblem(copy, place);
  if (problem !== undefined) throw invalid(problem);
  const { id, content, metadata, ...rest } = copy as Message;
  return {
    id: id || ids.next("msg"),
    ...rest,
    content: content.map(withoutMarks),
    ...(metadata && { metadata: without(metadata, ownMarks) }),
  };
}

function withoutMarks(block: Block): Block {
  if ((block.type !== "tool_result" && block.type !== "hint") || !block.metadata) return block;
  return { ...block, metadata: without(block.metadata, ownBlockMarks) };
}

function without(fields: object, names: ReadonlySet<string>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !names.has(name)));
}

const decisions = new Set<unknown>([
  "approve",
  "deny",
  "edit",
  "answer",
  "expire",
  "cancel",
] satisfies readonly Decision[]);

function readAnswer(entry: unknown, place: string): Answer {
  const answer = copied(entry, place) as Answer;
  const problem = answerProblem(answer, place);
  if (problem !== undefined) throw invalid(problem);
  if (typeof answer.taskId !== "string") throw invalid(`${place}.taskId is no string.`);
  if (typeof answer.rootTaskId !== "string") throw invalid(`${place}.rootTaskId is no string.`);
  return answer;
}

/** What is wrong with an answer, as a caller has given it or as a row of the inbox has it. */
export function answerProblem(
  { approvalId, decision, output, reason, state, always }: Partial<Record<keyof Answer, unknown>>,
  place: string,
): string | undefined {
  if (typeof approvalId !== "string") return `${place}.approvalId is no string.`;
  if (!decisions.has(decision)) return `${place}.decision is none of ${[...decisions].join(", ")}.`;
  if (reason !== undefined && typeof reason !== "string") return `${place}.reason is no string.`;
  if (always !== undefined && typeof always !== "boolean") return `${place}.always is no boolean.`;
  if (state !== undefined && !isResultState(state))
    return `${place}.state is no state of a result.`;
  return output === undefined ? undefined : outputProblem(output, `${place}.output`);
}

function copied(entry: unknown, place: string): unknown {
  try {
    return copyJson(entry);
  } catch (cause) {
    throw invalid(`${place} is not plain JSON: ${reasonOf(cause)}.`, cause);
  }
}

function typeOf(value: unknown): unknown {
  return (value as { type?: unknown } | null)?.type;
}

function invalid(message: string, cause?: unknown): RivuletError {
  return new RivuletError("invalid_input", message, {
    ...(cause !== undefined && { cause }),
    hint: "Pass a string, messages, results of outside calls, or answers to approvals. Nothing has changed.",
  });
}

/** Nothing has been written yet: the call fails, and all is as it was. */
function notPrepared(error: unknown, signal: AbortSignal): RivuletError {
  if (error instanceof RivuletError) return error;
  if (isCancel(signal, error)) {
    return new RivuletError("cancelled", "Cancelled before its input was prepared.", {
      cause: error,
    });
  }
  return new RivuletError("prepare_input_failed", `prepareInput failed: ${reasonOf(error)}`, {
    cause: error,
    hint: "It gives the messages that are to be stored. Nothing was stored.",
  });
}

/** Two of a kind, where one would be lost. */
export function duplicate(message: string): RivuletError {
  return new RivuletError("duplicate_input", message, { hint: "Send each of them once." });
}
