import { isRecord } from "../agent/base/plain.ts";
import { after } from "../agent/base/time.ts";
import { runTurn } from "../agent/model/model.ts";
import type { flattenModels } from "../agent/model/resolve.ts";
import type { Turn, TurnSink } from "../agent/model/turn.ts";
import type { Clock } from "../protocol/clock.ts";
import { RivuletError } from "../protocol/error.ts";
import type { IdSource } from "../protocol/id.ts";
import { type Block, type Message, textOf, userMessage } from "../protocol/message.ts";
import { estimateTokens, fittingCharacters } from "./context-files.ts";
import { compactionTexts, summarizerPrompt, summaryHeadings } from "./prompts.ts";

/** How summaries are made. */
export interface Summarizer {
  readonly models: ReturnType<typeof flattenModels>;
  readonly options: Readonly<Record<string, unknown>>;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly timeoutMs: number;
}

/** A summary, and the model call that made it. */
export interface Summary extends Pick<Turn, "usage" | "model"> {
  readonly text: string;
  /** Why the text cannot be used. */
  readonly problem?: string | undefined;
}

const maxMessageChars = 8_000;
const maxResultChars = 1_000;
const maxInputChars = 2_000;
const minHeadings = 3;

const silent: TurnSink = {
  open() {},
  delta() {},
  close() {},
  block() {},
  source() {},
  discard() {},
};

/** Summarises messages with one model call; rejects when it fails or takes too long. */
export async function summarize(
  { models, options, clock, ids, timeoutMs }: Summarizer,
  conversation: string,
  signal: AbortSignal,
): Promise<Summary> {
  const limit = new AbortController();
  const stop = after(clock, timeoutMs, () => limit.abort(tooSlow(timeoutMs)));
  try {
    const request = {
      messages: [userMessage(compactionTexts.conversation(conversation))],
      systemPrompt: summarizerPrompt,
      tools: [],
      options,
      signal: AbortSignal.any([signal, limit.signal]),
    };
    const dependencies = { ids, clock, random: Math.random, execution: { timeoutMs } };
    const turn = await runTurn(models, request, silent, dependencies);
    const text = textOf(turn.content).trim();
    const problem = summaryProblem(text, turn.finishReason, estimateTokens(conversation));
    return { text, usage: turn.usage, model: turn.model, problem };
  } catch (error) {
    signal.throwIfAborted();
    throw limit.signal.aborted ? limit.signal.reason : error;
  } finally {
    stop();
  }
}

/** Why a text cannot replace a conversation; undefined when it can. */
function summaryProblem(
  text: string,
  finishReason: Turn["finishReason"],
  conversationTokens: number,
): string | undefined {
  if (text === "") return "The summary is empty.";
  if (finishReason === "length") return "The summary was cut off.";
  if (finishReason === "content-filter") return "The provider filtered the summary.";
  const found = summaryHeadings.filter((heading) =>
    new RegExp(`^#+ *${heading}\\b`, "im").test(text),
  );
  if (found.length < minHeadings) return "The summary lacks its headings.";
  // A short conversation can have a summary that is longer than itself.
  const allowed = Math.max(2_000, conversationTokens / 2);
  return estimateTokens(text) > allowed ? "The summary is too long." : undefined;
}

function tooSlow(ms: number): RivuletError {
  return new RivuletError("timeout", `The summary took more than ${ms / 1_000} seconds.`);
}

/** The conversation as text, at most `maxTokens`: the beginning and the end are kept if it is longer. */
export function conversationText(
  messages: readonly Message[],
  earlier: string,
  maxTokens: number,
): string {
  const lines = messages.flatMap((message) => lineOf(message) ?? []);
  const head = earlier === "" ? [] : [compactionTexts.earlier(earlier)];
  let room = maxTokens - estimateTokens(head.join("\n"));
  let start = lines.length;
  while (start > 0) {
    const tokens = estimateTokens(lines[start - 1] as string) + 1;
    if (tokens > room) break;
    room -= tokens;
    start -= 1;
  }
  if (start > 0) head.push(compactionTexts.left(start));
  return [...head, ...lines.slice(start)].join("\n\n");
}

function lineOf({ role, name, content }: Message): string | undefined {
  const parts = content.flatMap((block) => partOf(block, role) ?? []);
  if (parts.length === 0) return undefined;
  return `${role === "assistant" && name ? `${role} ${name}` : role}: ${parts.join("\n")}`;
}

function partOf(block: Block, role: Message["role"]): string | undefined {
  switch (block.type) {
    case "text":
      return cutMiddle(block.text, maxMessageChars);
    case "hint":
      // Notes are added to the summary as they are.
      return block.metadata?.note === undefined
        ? cutMiddle(block.text, maxMessageChars)
        : undefined;
    case "tool_use":
      return `[calls ${block.name} ${cutMiddle(JSON.stringify(block.input) ?? "", maxInputChars)}]`;
    case "tool_result": {
      const text = block.output.map((part) => partOf(part, role) ?? "").join("\n");
      return `[${block.name}, ${block.state}] ${cutMiddle(text, maxResultChars)}`;
    }
    case "image":
    case "audio":
    case "video":
    case "file":
      return `[${block.type}${"url" in block.source ? ` ${block.source.url.slice(0, 200)}` : ""}]`;
    default:
      return undefined;
  }
}

/** The beginning and the end of a text. */
function cutMiddle(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const half = Math.floor(maxChars / 2);
  const [head, tail] = [text.slice(0, half).toWellFormed(), text.slice(-half).toWellFormed()];
  return `${head}\n${compactionTexts.cut(text.length - 2 * half)}\n${tail}`;
}

/** The beginning of a text, at most `maxTokens`. */
export function firstTokens(text: string, maxTokens: number): string {
  const fitting = fittingCharacters(text, maxTokens);
  if (fitting >= text.length) return text;
  return `${text.slice(0, fitting).toWellFormed()}\n${compactionTexts.cut(text.length - fitting)}`;
}

/** The call options of an agent that apply to its summaries as well. */
export function summaryOptions(options: unknown = {}): Readonly<Record<string, unknown>> {
  const { headers, providerOptions } = isRecord(options) ? options : {};
  return {
    ...(headers !== undefined && { headers }),
    ...(providerOptions !== undefined && { providerOptions }),
  };
}
