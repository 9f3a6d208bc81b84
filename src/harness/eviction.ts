import { createHash } from "node:crypto";
import type { Hook, HookContext, ToolCall } from "../agent/hook.ts";
import { cutText, maxResultCharacters, reasonOf } from "../agent/tool/result.ts";
import type { Block } from "../protocol/message.ts";
import type { Workspace } from "./workspace.ts";

/** What the model sees at once of a result that is in a file. */
const previewChars = 8_000;
const directory = "tool-results";

/**
 * Takes tool results that are too long out of the conversation: they go to a file that the model can read, and their
 * head and tail stay. Without a workspace they are cut.
 */
export function eviction(workspace?: Workspace, maxChars = maxResultCharacters): Hook {
  return {
    name: "tool-result-eviction",
    priority: 50,
    async postActing(context, call, result) {
      const texts = result.output.flatMap((block) => (block.type === "text" ? [block.text] : []));
      const text = texts.join("\n");
      if (text.length <= maxChars) return undefined;
      const edited = { ...result, keepsDisplay: true };
      if (!workspace) return { ...edited, output: cutText(result.output, maxChars).blocks };
      const others = result.output.filter(({ type }) => type !== "text");
      const notice = await keep(workspace, context, call, text);
      const preview = cutText([{ type: "text", text }], Math.min(previewChars, maxChars)).blocks;
      const output: Block[] = [{ type: "text", text: notice }, ...preview, ...others];
      return { ...edited, output };
    },
  };
}

/** Writes the text to a file, and says where it is. */
async function keep(
  workspace: Workspace,
  context: HookContext,
  call: ToolCall,
  text: string,
): Promise<string> {
  // Named by its content: the same result is the same file, so a call that goes in circles still looks like one.
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 16);
  const path = `${directory}/${call.name.replaceAll(/[^\w-]/g, "_").slice(0, 64)}-${hash}.txt`;
  const size = `The result has ${text.length} characters, which is too long for a conversation.`;
  const parts = "Only its beginning and its end follow.";
  try {
    const { files } = workspace.viewFor(context);
    await files.write(path, readable(text));
    return `${size} It was saved as ${path}: use read_file with offset and limit, or grep_files. ${parts}`;
  } catch (error) {
    return `${size} It could not be saved (${reasonOf(error)}). ${parts}`;
  }
}

/** As read_file can show it: no line is so long that it would be cut, and nothing in it looks binary. */
function readable(text: string): string {
  return text.replaceAll("\0", "\u{fffd}").replaceAll(/[^\n]{1000}(?=[^\n])/gu, "$&\n");
}
