import { cutText, maxResultCharacters } from "../../agent/index.ts";
import { reasonOf } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import { sha256 } from "../../base/plain.ts";
import type { Block, Hook, HookContext, ToolCall, ToolResult } from "../../contract/index.ts";
import { notes } from "../prompts.ts";
import type { Workspace } from "../workspace.ts";

const previewChars = 8_000;
const directory = "tool-results";

/** The rule for the option. */
export const evictionField = is.options({ maxChars: is.integer(1, maxResultCharacters) });

/** The directory of a conversation's saved results; it is deleted with the conversation. */
export function resultsDirectory(rootSessionId: string): string {
  const isName = /^[a-z0-9][\w-]{0,63}$/i.test(rootSessionId);
  return `${directory}/${isName ? rootSessionId : `session-${sha256(rootSessionId).slice(0, 32)}`}`;
}

/** Moves long tool results to a file that the model can read, and keeps a preview; without a workspace, cuts them. */
export function eviction(workspace?: Workspace, maxChars = maxResultCharacters): Hook {
  return {
    name: "tool-result-eviction",
    priority: 50,
    postActing(context, call, result) {
      const { output } = result;
      const length = output.reduce((sum, block) => sum + textLength(block) + 1, -1);
      return length <= maxChars ? undefined : evict(context, call, result);
    },
  };

  async function evict(
    context: HookContext,
    call: ToolCall,
    result: ToolResult,
  ): Promise<ToolResult | undefined> {
    const texts = result.output.flatMap((block) => (block.type === "text" ? [block.text] : []));
    const text = texts.join("\n");
    if (text.length <= maxChars) return undefined;
    const edited = { ...result, keepsDisplay: true };
    if (!workspace) return { ...edited, output: cutText(result.output, maxChars) };
    const others = result.output.filter(({ type }) => type !== "text");
    const notice = await save(workspace, context, call.name, text);
    const preview = cutText([{ type: "text", text }], Math.min(previewChars, maxChars));
    const output: Block[] = [{ type: "text", text: notice }, ...preview, ...others];
    return { ...edited, output };
  }
}

function textLength(block: Block): number {
  return block.type === "text" ? block.text.length : 0;
}

async function save(workspace: Workspace, context: HookContext, tool: string, text: string) {
  try {
    return notes.evicted(text.length, await saveResult(workspace, context, tool, text));
  } catch (error) {
    return notes.notSaved(text.length, reasonOf(error));
  }
}

/** Saves the text of a tool result in a file that the model can read, and returns its path. */
export async function saveResult(
  workspace: Workspace,
  context: HookContext,
  tool: string,
  text: string,
): Promise<string> {
  // Named by its content, so that repeated calls still have equal results.
  const hash = sha256(text).slice(0, 16);
  const name = `${tool.replaceAll(/[^\w-]/g, "_").slice(0, 64)}-${hash}.txt`;
  const [root = ""] = (context.source?.path ?? context.task.sessionId).split("/");
  const path = `${resultsDirectory(root)}/${name}`;
  await workspace.viewFor(context).files.write(path, readable(text));
  return path;
}

/** Breaks long lines and replaces NUL, which read_file would cut or refuse. */
function readable(text: string): string {
  return text.replaceAll("\0", "\u{fffd}").replaceAll(/[^\n]{1000}(?=[^\n])/gu, "$&\n");
}
