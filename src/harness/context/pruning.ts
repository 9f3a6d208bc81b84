import type { HookContext, Message, ToolResultBlock } from "../../contract/index.ts";
import { compactionTexts } from "../prompts.ts";
import type { Workspace } from "../workspace.ts";
import { saveResult } from "./eviction.ts";
import type { ModelView } from "./notes.ts";
import { messageTokens } from "./token-count.ts";

/** Texts in place of tool results, by call id. */
export type Pruned = Readonly<Record<string, string>>;

/** Which results to prune. */
export interface PruneLimits {
  /** The newest results of this size stay. */
  readonly protectTokens: number;
  /** The index of the first message whose results all stay. */
  readonly protectFrom: number;
}

const minTokens = 200; // a smaller result is hardly longer than the text in its place
const previewChars = 200;
const savedAs = /It was saved as (\S+):/;

/** Replaces old tool results by short texts; their content stays readable in files. */
export async function pruneResults(
  context: HookContext,
  { from, compaction }: ModelView,
  workspace: Workspace | undefined,
  { protectTokens, protectFrom }: PruneLimits,
): Promise<Pruned> {
  const pruned = compaction?.pruned ?? {};
  const { messages } = context;
  const old: ToolResultBlock[] = [];
  let room = protectTokens;
  for (let at = messages.length - 1; at >= from; at--) {
    const message = messages[at] as Message;
    const [block] = message.content;
    if (block?.type !== "tool_result" || Object.hasOwn(pruned, block.id)) continue;
    const tokens = messageTokens(message);
    room -= tokens;
    if (room < 0 && at < protectFrom && tokens >= minTokens) old.push(block);
  }
  const added = await Promise.all(old.map((block) => replacementOf(block, context, workspace)));
  return Object.fromEntries([...Object.entries(pruned), ...added.flat()]);
}

/** Nothing for a result that cannot be saved: it stays in the prompt. */
async function replacementOf(
  { id, name, output }: ToolResultBlock,
  context: HookContext,
  workspace: Workspace | undefined,
): Promise<readonly (readonly [string, string])[]> {
  const text = output.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
  const preview = text.slice(0, previewChars).toWellFormed();
  const withPreview = (notice: string) => [[id, `${notice}\n${preview}`] as const];
  const evicted = savedAs.exec(text.slice(0, 500))?.[1];
  if (evicted !== undefined) return [[id, compactionTexts.prunedAgain(evicted)]];
  if (!workspace) return withPreview(compactionTexts.removed(text.length));
  try {
    const path = await saveResult(workspace, context, name, text);
    return withPreview(compactionTexts.pruned(text.length, path));
  } catch {
    return [];
  }
}
