import { flattenModels, type Model, modelField, tellAnyway } from "../../agent/index.ts";
import { reasonOf } from "../../base/error.ts";
import { createIds } from "../../base/id.ts";
import type { Fields } from "../../base/options.ts";
import * as is from "../../base/options.ts";
import type {
  CompactionBlock,
  Hook,
  HookContext,
  Message,
  Store,
  TaskRef,
  TurnAddition,
  UpcomingTurn,
} from "../../contract/index.ts";
import type { Harness } from "../harness.ts";
import { transcriptBehind } from "../hook-task.ts";
import { compactionTexts } from "../prompts.ts";
import { commonOptions, type ModelAsker } from "./ask-model.ts";
import { type ModelView, ViewState } from "./notes.ts";
import { type Pruned, pruneResults } from "./pruning.ts";
import { conversationText, type Summary, summarize } from "./summary.ts";
import { messageTokens, promptTokens, viewTokens } from "./token-count.ts";

/** Called with the messages that a summary is about to replace; it is not awaited, and its errors are ignored. */
export type OnCompact = (context: HookContext, leaving: readonly Message[]) => unknown;

/** When and how a session is compacted. */
export interface CompactionOptions {
  /** The context window of the model in tokens; defaults to 128 000. */
  readonly window?: number;
  /** Compacts when the prompt has this many tokens; defaults to the window minus 20 000. */
  readonly triggerTokens?: number;
  /** Compacts when the model sees this many messages; off by default. */
  readonly triggerMessages?: number;
  /** How many tokens of the newest messages stay; defaults to a quarter of `triggerTokens`, at most 20 000. */
  readonly keepTokens?: number;
  /** The model that summarises; defaults to the agent's. */
  readonly model?: Model;
  /** The time limit of a summary; defaults to 60 000. */
  readonly timeoutMs?: number;
  readonly onCompact?: OnCompact;
}

/** The rules for the options. */
export const compactionFields: Fields<CompactionOptions> = {
  window: is.count,
  triggerTokens: is.count,
  triggerMessages: is.integer(2),
  keepTokens: is.count,
  model: modelField,
  timeoutMs: is.duration,
  onCompact: is.callback,
};

const defaultWindow = 128_000;
const reservedTokens = 20_000; // for the reply and what a batch of tools adds
const maxKeepTokens = 20_000;
const minLimit = 4_000; // a provider can refuse a short prompt for other reasons
/** The prompt must grow by this share of the trigger before the next compaction. */
const minGrowth = 0.1;
/** A compaction aims at this share of the size that caused it. */
const goalShare = 0.5;
/** The name of the event that tells about a compaction. */
const compactionEvent = "rivulet.compaction";
const failedAtKey = "compaction.failedAt";

/** Shortens what the model sees of a long session: prunes old tool results, then summarises old messages. */
export function compaction(
  { options: agent, workspace, clock }: Harness,
  options: CompactionOptions = {},
  listeners: readonly OnCompact[] = [],
): Hook {
  const { window = defaultWindow, triggerMessages, timeoutMs = 60_000, onCompact } = options;
  const triggerTokens =
    options.triggerTokens ?? Math.max(window - reservedTokens, Math.ceil(window / 2));
  const keepTokens = options.keepTokens ?? Math.min(maxKeepTokens, Math.ceil(triggerTokens / 4));
  const told = [...listeners, ...(onCompact ? [onCompact] : [])];
  const summarizer: ModelAsker = {
    models: flattenModels(options.model ?? agent.model),
    options: options.model === undefined ? commonOptions(agent.modelOptions) : {},
    clock,
    ids: agent.ids ?? createIds({ clock }),
    timeoutMs,
  };

  /** Whether a prompt of this size must be shortened now. */
  function isDue(
    context: HookContext,
    { reason }: UpcomingTurn,
    view: ModelView,
    tokens: number,
    trigger: number,
  ): boolean {
    if (reason !== "turn") return true;
    const failedAt = context.state.get(failedAtKey) as number | undefined;
    const floor = Math.max(failedAt ?? 0, view.compaction?.tokens?.after ?? 0);
    // A compaction that does not help enough must not follow every reply.
    if (tokens >= trigger) return floor === 0 || tokens >= floor + trigger * minGrowth;
    if (triggerMessages === undefined || failedAt !== undefined) return false;
    return transcriptBehind(context).length - view.from >= triggerMessages;
  }

  function preTurn(
    context: HookContext,
    turn: UpcomingTurn,
  ): Promise<TurnAddition | undefined> | undefined {
    const view = ViewState.of(context, turn.offset);
    const before = promptTokens(transcriptBehind(context), view);
    const trigger = Math.min(triggerTokens, view.compaction?.limit ?? triggerTokens);
    const due = isDue(context, turn, view, before, trigger);
    return due ? compact(context, turn, view, before, trigger) : undefined;
  }

  async function compact(
    context: HookContext,
    { reason, signal }: UpcomingTurn,
    view: ModelView,
    before: number,
    trigger: number,
  ): Promise<TurnAddition | undefined> {
    const { messages } = context;
    const goal = Math.min(before, trigger) * goalShare;
    const keep = Math.min(keepTokens, goal / 2);
    // Results that the model has not read yet are pruned only if the prompt would not fit otherwise.
    const isTight = reason === "overflow" || before >= window - reservedTokens / 5;
    const lastReply = messages.findLastIndex(
      ({ role, name }) => role === "assistant" && name === context.agent,
    );
    const pruned = await pruneResults(context, view, workspace, {
      protectTokens: keep,
      protectFrom: isTight ? messages.length : Math.max(lastReply, view.from),
    });
    const draft = {
      ...{ context, view, pruned, before, reason },
      ...(reason === "overflow" && { limit: Math.max(minLimit, Math.round(before * 0.9)) }),
    };
    const pruneOnly = blockOf(draft, view.compaction?.summary ?? "", view.from);
    const isByTokens = reason === "overflow" || (reason === "turn" && before >= trigger);
    const isEnough = isByTokens && pruneOnly.tokens.after <= goal;
    const tail = { keepTokens: keep, keepMessages: (triggerMessages ?? Infinity) / 2 };
    const cut = isEnough ? view.from : cutBefore(messages, view.from, lastReply, tail);
    if (cut <= view.from) return outcomeOf(draft, pruneOnly);

    const leaving = messages.slice(view.from, cut);
    const earlier = view.compaction?.summary ?? "";
    try {
      const text = conversationText(leaving, earlier, Math.min(window, before) * goalShare);
      const summary = await summarize(summarizer, text, signal);
      if (summary.problem !== undefined) return pruneInstead(summary.problem, summary);
      for (const tell of told) tellAnyway(() => tell(context, leaving));
      const block = blockOf(draft, compactionTexts.summary(summary.text), cut);
      return outcomeOf(draft, block, { summary });
    } catch (error) {
      signal.throwIfAborted();
      return pruneInstead(reasonOf(error));
    }

    function pruneInstead(problem: string, summary?: Summary): TurnAddition | undefined {
      context.state.set(failedAtKey, pruneOnly.tokens.after);
      return outcomeOf(draft, pruneOnly, { problem, ...(summary && { summary }) });
    }
  }

  return { name: "compaction", priority: 10, preTurn };
}

/** The size of the prompt before and after the compaction of a task; undefined if it made none. */
export async function compactionOf(
  store: Store,
  { sessionId, taskId }: TaskRef,
): Promise<CompactionBlock["tokens"]> {
  const [session] = await store.sessions({ sessionId, limit: 1 });
  const messages = await store.session(sessionId, session?.visibleFrom);
  const own = messages.findLast(({ content: [block], metadata }) => {
    return block?.type === "compaction" && metadata?.taskId === taskId;
  });
  const [block] = own?.content ?? [];
  return block?.type === "compaction" ? block.tokens : undefined;
}

/** A compaction in the making. */
interface Draft {
  readonly context: HookContext;
  readonly view: ModelView;
  readonly pruned: Pruned;
  readonly before: number;
  readonly reason: UpcomingTurn["reason"];
  readonly limit?: number;
}

type SizedBlock = Omit<CompactionBlock, "type"> & Required<Pick<CompactionBlock, "tokens">>;

/** The block that keeps the messages from index `from` on, with an estimate of the new size. */
function blockOf(
  { context, view, pruned, before, limit = view.compaction?.limit }: Draft,
  summary: string,
  from: number,
): SizedBlock {
  const { messages } = context;
  const kept = new Set(
    messages
      .slice(from)
      .flatMap(({ content: [block] }) => (block?.type === "tool_result" ? block.id : [])),
  );
  const stillPruned = Object.entries(pruned).filter(([id]) => kept.has(id));
  const block = {
    summary,
    keepFrom: view.offset + from,
    ...(stillPruned.length > 0 && { pruned: Object.fromEntries(stillPruned) }),
    ...(limit !== undefined && { limit }),
  };
  const removed =
    viewTokens(messages, view.from, view.compaction) - viewTokens(messages, from, block);
  return { ...block, tokens: { before, after: Math.max(0, Math.round(before - removed)) } };
}

/** Nothing to write when the view would stay as long as it is. */
function outcomeOf(
  { before, reason, pruned, view }: Draft,
  block: SizedBlock,
  { summary, problem }: { readonly summary?: Summary; readonly problem?: string } = {},
): TurnAddition | undefined {
  const { after } = block.tokens;
  const isShorter = after < before;
  if (!isShorter && problem === undefined) return undefined;
  const event = {
    reason,
    from_tokens: Math.round(before),
    to_tokens: isShorter ? after : Math.round(before),
    pruned: Object.keys(pruned).length - Object.keys(view.compaction?.pruned ?? {}).length,
    summarized: summary !== undefined && problem === undefined,
    ...(problem !== undefined && { problem: problem.slice(0, 500) }),
  };
  return {
    events: { [compactionEvent]: event },
    ...(isShorter && { compaction: block }),
    ...(summary && {
      usage: summary.usage,
      model: `${summary.model.provider}/${summary.model.modelId}`,
    }),
  };
}

/** The index of the first message to keep: the tail with the last reply, without splitting a call from its result. */
function cutBefore(
  messages: readonly Message[],
  from: number,
  lastReply: number,
  { keepTokens, keepMessages }: { readonly keepTokens: number; readonly keepMessages: number },
): number {
  let tail = messages.length;
  for (let room = keepTokens; tail > from && messages.length - tail < keepMessages; tail--) {
    room -= messageTokens(messages[tail - 1] as Message);
    if (room < 0) break;
  }
  const latest = Math.min(tail, lastReply < 0 ? tail : lastReply);
  const open = new Set<string>();
  let cut = from;
  for (let at = from; at <= latest && at < messages.length; at++) {
    const { role, content } = messages[at] as Message;
    if (open.size === 0 && role !== "tool") cut = at;
    for (const block of content) {
      if (block.type === "tool_use") open.add(block.id);
      else if (block.type === "tool_result") open.delete(block.id);
    }
  }
  return cut;
}
