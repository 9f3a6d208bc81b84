import { RivuletError, reasonOf } from "../../base/error.ts";
import type { IdSource } from "../../base/id.ts";
import { required, text } from "../../base/options.ts";
import { copyJson, freezePlain, isObject } from "../../base/plain.ts";
import type { Awaitable } from "../../base/time.ts";
import { isCancel, untilCancelled } from "../../base/time.ts";
import {
  type Answer,
  answerProblem,
  asBlocks,
  type Block,
  fieldsProblem,
  type Input,
  type Message,
  messageProblem,
  type TaskRecord,
  type ToolResultBlock,
  userMessage,
} from "../../contract/index.ts";
import { callHooks, unexpected } from "./hooks.ts";
import type { AgentSettings } from "./settings.ts";
import { commitStep, type TaskRun } from "./task-run.ts";

/** The input of a caller, copied and sorted. */
export interface ReadInput {
  readonly messages: readonly Message[];
  readonly answers: readonly Answer[];
  /** The results of external calls, by call id. */
  readonly results: ReadonlyMap<string, OutsideResult>;
}
/** The result of an external call. */
export type OutsideResult = Pick<ToolResultBlock, "output" | "state">;

/** Converts the messages of a caller before they are stored; called once, because a resumed task reads the stored ones. */
export type PrepareInput = (
  messages: readonly Message[],
  task: Pick<TaskRecord, "sessionId" | "userId" | "agentId" | "depth" | "origin">,
) => Awaitable<readonly Message[]>;

/** Metadata of the loop, which is wrong in another transcript. */
const ownMarks = new Set(["taskId", "iteration", "goto", "structuredRetry"]);
const ownBlockMarks = new Set(["references", "repeat", "ran"]);

/** Prepares the messages of a caller for the transcript of a task. */
export async function storedInput(
  messages: readonly Message[],
  task: TaskRecord,
  settings: Pick<AgentSettings, "prepareInput" | "clock" | "ids">,
  signal: AbortSignal,
): Promise<readonly Message[]> {
  if (messages.length === 0) return [];
  const stored = await prepare(messages, task, settings, signal).catch((error: unknown) => {
    throw prepareFailed(error, signal);
  });
  return markInput(stored, task);
}

/** Marks messages as the input of a task. */
function markInput(
  messages: readonly Message[],
  { taskId }: Pick<TaskRecord, "taskId">,
): readonly Message[] {
  return messages.map((message) => {
    // History does not belong to this task.
    const owner = isHistory(message) ? {} : { taskId };
    return freezePlain({ ...message, metadata: { ...message.metadata, ...owner, input: true } });
  });
}

async function prepare(
  messages: readonly Message[],
  task: TaskRecord,
  { prepareInput, clock, ids }: Pick<AgentSettings, "prepareInput" | "clock" | "ids">,
  signal: AbortSignal,
): Promise<readonly Message[]> {
  if (prepareInput === undefined) return messages;
  const returned = await untilCancelled({ signal, clock }, () =>
    prepareInput(freezePlain(messages), task),
  );
  return readMessages(returned, ids);
}

/** Reads messages that a function of the user returned. */
function readMessages(returned: Input, ids: IdSource): readonly Message[] {
  let input: ReadInput;
  try {
    input = readInput(returned, ids);
  } catch (cause) {
    throw new Error(`it returned a value that cannot be stored: ${reasonOf(cause)}`, { cause });
  }
  if (input.answers.length === 0 && input.results.size === 0) return input.messages;
  throw new Error("it must return only messages");
}

/** Whether a message is earlier work of an agent, and not a request. */
export function isHistory({ role }: Message): boolean {
  return role === "assistant" || role === "tool";
}

/** Reads the input of `call`, `stream` and `run`; throws for anything else, before anything is stored. */
export function readInput(input: Input, ids: IdSource): ReadInput {
  const list = entriesOf(input);
  const messages: Message[] = [];
  const answers: Answer[] = [];
  const results = new Map<string, OutsideResult>();
  /** The places of calls in the input that have no result yet. */
  const openCalls = new Map<string, string>();
  const callIds = new Set<string>();
  for (const { given, place } of list) {
    const entry = typeof given === "string" ? given : copied(given, place);
    if (typeof entry === "string") messages.push(userMessage(entry));
    else if (isObject(entry) && entry.type === "answer") answers.push(readAnswer(entry, place));
    else {
      const message = readMessage(entry, place, ids);
      const past: ToolResultBlock[] = [];
      for (const [at, block] of message.content.entries()) {
        if (block.type === "tool_use") {
          if (callIds.has(block.id)) throw duplicate(`Two calls have the id ${block.id}.`);
          callIds.add(block.id);
          openCalls.set(block.id, `${place}.content[${at}]`);
        } else if (block.type === "tool_result") {
          if (openCalls.delete(block.id)) past.push(block);
          else if (results.has(block.id) || callIds.has(block.id)) {
            throw duplicate(`Call ${block.id} has two results.`);
          } else results.set(block.id, { output: block.output, state: block.state });
        }
      }
      messages.push(...withoutResults(message, past, ids));
    }
  }
  for (const place of openCalls.values()) throw invalid(`\`${place}\` is a call without a result.`);
  const approvalIds = new Set<string>();
  for (const { approvalId } of answers) {
    if (approvalIds.has(approvalId)) throw duplicate(`Approval ${approvalId} has two answers.`);
    approvalIds.add(approvalId);
  }
  return { messages, answers, results };
}

function entriesOf(input: Input): readonly { readonly given: unknown; readonly place: string }[] {
  try {
    if (!Array.isArray(input)) return input === undefined ? [] : [{ given: input, place: "input" }];
    return input.map((given, index) => ({ given, place: `input[${index}]` }));
  } catch (cause) {
    throw invalid(`\`input\` cannot be read: ${reasonOf(cause)}.`, cause);
  }
}

/** Reads a user or system message that steers a running task. */
export function readSteering(input: string | Message, ids: IdSource): Message {
  if (typeof input === "string") return userMessage(input);
  const message = readMessage(copied(input, "message"), "message", ids);
  const problem = steeringProblem(message);
  if (problem !== undefined) throw invalid(problem);
  return message;
}

/** Why a message cannot steer a task; undefined when it can. */
export function steeringProblem(message: unknown): string | undefined {
  const problem = messageProblem(message, "message");
  if (problem !== undefined) return problem;
  const { role, content } = message as Message;
  if (isHistory(message as Message)) {
    return `\`message.role\` must be user or system to steer, got ${role}.`;
  }
  const at = content.findIndex(({ type }) => type === "tool_result");
  return at < 0 ? undefined : `\`message.content[${at}]\` is a result, which cannot steer.`;
}

/** Removes results from a message; those of calls in the input become messages of their own, before it. */
function withoutResults(
  message: Message,
  past: readonly ToolResultBlock[],
  ids: IdSource,
): readonly Message[] {
  const rest = message.content.filter(({ type }) => type !== "tool_result");
  if (rest.length === message.content.length) return [message];
  if (message.role === "tool") return past.length > 0 ? [{ ...message, content: past }] : [];
  const resultMessages: Message[] = past.map((block) => ({
    id: ids.next("msg"),
    role: "tool",
    content: [block],
  }));
  return rest.length > 0 ? [...resultMessages, { ...message, content: rest }] : resultMessages;
}

function readMessage(plain: unknown, place: string, ids: IdSource): Message {
  const isText = isObject(plain) && typeof plain.content === "string";
  const copy = isText ? { ...plain, content: asBlocks(plain.content as string) } : plain;
  const problem = messageProblem(copy, place);
  if (problem !== undefined) throw invalid(problem);
  // A reply of another agent has more fields, which are no part of a message.
  const { id, role, name, content, metadata } = copy as Message;
  return {
    id: id || ids.next("msg"),
    role,
    ...(name !== undefined && { name }),
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

function readAnswer(entry: unknown, place: string): Answer {
  const answer = entry as Answer;
  const problem =
    answerProblem(answer, place) ??
    fieldsProblem({ ...answer }, place, { taskId: required(text), rootTaskId: required(text) });
  if (problem !== undefined) throw invalid(problem);
  return answer;
}

function copied(entry: unknown, place: string): unknown {
  try {
    return copyJson(entry);
  } catch (cause) {
    throw invalid(`\`${place}\` must be plain JSON: ${reasonOf(cause)}.`, cause);
  }
}

function invalid(message: string, cause?: unknown): RivuletError {
  return new RivuletError("invalid_input", message, {
    ...(cause !== undefined && { cause }),
    hint: "Pass a string, messages, results of external calls, or answers to approvals. Nothing was stored.",
  });
}

function prepareFailed(error: unknown, signal: AbortSignal): RivuletError {
  if (error instanceof RivuletError) return error;
  if (isCancel(signal, error)) {
    return new RivuletError("cancelled", "The call was cancelled before its input was prepared.", {
      cause: error,
    });
  }
  return new RivuletError("prepare_input_failed", `prepareInput failed: ${reasonOf(error)}`, {
    cause: error,
    hint: "Return the messages to store. Nothing was stored.",
  });
}

/** The error for an entry that is in the input twice. */
export function duplicate(message: string): RivuletError {
  return new RivuletError("duplicate_input", message, { hint: "Send each of them once." });
}

/** Calls the `preCall` hooks; input that waits for them is stored as they leave it, or as it was if one fails. */
export async function takeInput(task: TaskRun, input: readonly Message[]): Promise<void> {
  const { hookContext } = task.scope;
  const isHeld = task.state.record.input !== undefined;
  let taken = input;
  try {
    await callHooks(
      task,
      "preCall",
      input,
      (hook, current) => {
        const messages = isHeld ? [...hookContext.messages, ...current] : hookContext.messages;
        return hook.preCall?.({ ...hookContext, messages }, current);
      },
      (current, returned) => {
        taken = readInputVerdict(task, current, returned);
        return taken;
      },
    );
  } finally {
    if (isHeld) {
      const { input: _, ...record } = task.state.record;
      task.state.record = record;
      await commitStep(task, { messages: taken });
    }
  }
}

/** Reads the return value of `preCall`: what takes the place of the input. */
function readInputVerdict(
  { settings, identity: { ref } }: TaskRun,
  given: readonly Message[],
  returned: unknown,
) {
  if (given.length === 0)
    throw new Error("it returned input, but a call that resumes a task has none.");
  if (!Array.isArray(returned) || returned.length === 0) throw unexpected(returned, "messages");
  return markInput(readMessages(returned as readonly Message[], settings.ids), ref);
}
