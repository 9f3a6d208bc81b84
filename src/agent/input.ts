import type { Answer, Awaitable, Input } from "../protocol/agent.ts";
import { RivuletError } from "../protocol/error.ts";
import type { IdSource } from "../protocol/id.ts";
import type { Block, Decision, Message } from "../protocol/message.ts";
import { userMessage } from "../protocol/message.ts";
import type { TaskRecord } from "../protocol/store.ts";
import { isBlocks } from "./block-shape.ts";
import type { AgentSettings } from "./settings.ts";
import { isCancel, untilCancelled } from "./until-cancelled.ts";

/** What a caller sent, by what it is. */
export interface ReadInput {
  readonly messages: readonly Message[];
  readonly answers: readonly Answer[];
  /** Results of outside calls, by call id. */
  readonly results: ReadonlyMap<string, readonly Block[]>;
}

/** Makes what is stored of what a caller said. It is asked once: whoever resumes the task reads what was stored. */
export type PrepareInput = (
  messages: readonly Message[],
  task: Pick<TaskRecord, "sessionId" | "userId" | "agentId">,
) => Awaitable<readonly Message[]>;

/** The messages of a caller as they go into the transcript of a task. */
export async function storedInput(
  messages: readonly Message[],
  task: TaskRecord,
  { prepareInput: prepare, clock }: Pick<AgentSettings, "prepareInput" | "clock">,
  signal: AbortSignal,
): Promise<readonly Message[]> {
  const prepared =
    messages.length > 0
      ? await untilCancelled({ signal, clock }, () => prepare?.(messages, task)).catch((error) => {
          throw notPrepared(error, signal);
        })
      : undefined;
  const marks = { input: true, taskId: task.taskId } as const;
  return (prepared ?? messages).map((message) => ({
    ...message,
    metadata: { ...message.metadata, ...marks },
  }));
}

/** Sorts what `call`, `stream` and `run` take; anything else is an error that changes nothing. */
export function readInput(input: Input, ids: IdSource): ReadInput {
  const list = input === undefined ? [] : Array.isArray(input) ? input : [input];
  const messages: Message[] = [];
  const answers: Answer[] = [];
  const results = new Map<string, readonly Block[]>();
  for (const entry of list as readonly unknown[]) {
    if (typeof entry === "string") messages.push(userMessage(entry));
    else if (isAnswer(entry)) answers.push(entry);
    else if (isMessage(entry)) {
      const found = entry.content.filter((block) => block.type === "tool_result");
      for (const block of found) {
        if (results.has(block.id)) throw duplicate(`Two results for call ${block.id}.`);
        results.set(block.id, block.output);
      }
      if (found.length === 0) messages.push(entry.id ? entry : { ...entry, id: ids.next("msg") });
    } else {
      throw new RivuletError("invalid_input", "An agent cannot be called with this.", {
        hint: "Pass a string, messages, tool results, or answers to approvals.",
      });
    }
  }
  const seen = new Set<string>();
  for (const { approvalId } of answers) {
    if (seen.has(approvalId)) throw duplicate(`Two answers to approval ${approvalId}.`);
    seen.add(approvalId);
  }
  return { messages, answers, results };
}

const decisions = new Set<unknown>([
  "approve",
  "deny",
  "edit",
  "answer",
  "expire",
  "cancel",
] satisfies readonly Decision[]);

function isAnswer(value: unknown): value is Answer {
  const answer = value as Partial<Answer> | null;
  return (
    typeof answer === "object" &&
    answer !== null &&
    answer.type === "answer" &&
    typeof answer.approvalId === "string" &&
    typeof answer.taskId === "string" &&
    decisions.has(answer.decision) &&
    (answer.output === undefined || isBlocks(answer.output))
  );
}

function isMessage(value: unknown): value is Message {
  const message = value as Partial<Message> | null;
  return (
    typeof message === "object" &&
    message !== null &&
    typeof message.role === "string" &&
    Array.isArray(message.content)
  );
}

/** Nothing has been written yet: the call fails, and all is as it was. */
function notPrepared(error: unknown, signal: AbortSignal): RivuletError {
  if (error instanceof RivuletError) return error;
  if (isCancel(signal, error)) {
    return new RivuletError("cancelled", "Cancelled before its input was prepared.", {
      cause: error,
    });
  }
  const reason = error instanceof Error ? error.message : String(error);
  return new RivuletError("prepare_input_failed", `prepareInput failed: ${reason}`, {
    cause: error,
    hint: "It gives the messages that are to be stored. Nothing was stored.",
  });
}

/** Two of a kind, where one would be lost. */
export function duplicate(message: string): RivuletError {
  return new RivuletError("duplicate_input", message, { hint: "Send each of them once." });
}
