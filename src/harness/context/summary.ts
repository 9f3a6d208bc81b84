import type { Turn } from "../../agent/index.ts";
import type { Message } from "../../contract/index.ts";
import { compactionTexts, summarizerPrompt, summaryHeadings } from "../prompts.ts";
import { askModel, type ModelAsker } from "./ask-model.ts";
import { estimateTokens, fittingCharacters } from "./context-files.ts";
import { messageText } from "./message-text.ts";

/** A summary, and the model call that made it. */
export interface Summary extends Pick<Turn, "usage" | "model"> {
  readonly text: string;
  /** Why the text cannot be used. */
  readonly problem?: string | undefined;
}

const minHeadings = 3;

/** Summarises messages with one model call; rejects when it fails or takes too long. */
export async function summarize(
  summarizer: ModelAsker,
  conversation: string,
  signal: AbortSignal,
): Promise<Summary> {
  const request = compactionTexts.conversation(conversation);
  const answer = await askModel(summarizer, summarizerPrompt, request, signal);
  const { text, usage, model, finishReason } = answer;
  const problem = summaryProblem(text, finishReason, estimateTokens(conversation));
  return { text, usage, model, problem };
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

/** The conversation as text, at most `maxTokens`: the beginning and the end are kept if it is longer. */
export function conversationText(
  messages: readonly Message[],
  earlier: string,
  maxTokens: number,
): string {
  const lines = messages.flatMap((message) => messageText(message) ?? []);
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

/** The beginning of a text, at most `maxTokens`. */
export function firstTokens(text: string, maxTokens: number): string {
  const fitting = fittingCharacters(text, maxTokens);
  if (fitting >= text.length) return text;
  return `${text.slice(0, fitting).toWellFormed()}\n${compactionTexts.cut(text.length - fitting)}`;
}
