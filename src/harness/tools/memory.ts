import { jsonSchema, type ToolContext, ToolFailure, tool } from "../../agent/index.ts";
import { RivuletError } from "../../base/error.ts";
import type { Tool } from "../../contract/index.ts";
import { problemReason } from "../filesystem/file-loader.ts";
import { rulesBehind } from "../filesystem/file-rules.ts";
import { linesOf } from "../filesystem/text.ts";
import type { AgentMemory } from "../memory/memory.ts";
import { memoryFile, memoryPath } from "../memory/memory-files.ts";
import { frameFile, memoryTexts } from "../prompts.ts";
import { withRules } from "../workspace.ts";

const defaultResults = 10;
const maxResults = 50;
const defaultLines = 200;
const maxCharacters = 20_000;

/** Creates the tools that search and read what the agent remembers. */
export function memoryTools(memory: AgentMemory): readonly Tool[] {
  const viewFor = (context: ToolContext) => {
    const { userId, sessionId, agent } = context;
    const owner = { sessionId, ...agent, ...(userId !== undefined && { userId }) };
    return withRules(memory.viewOf(owner), rulesBehind(context));
  };

  const search = tool({
    name: "memory_search",
    description:
      "Searches what you remember from earlier conversations. Returns path:line: text, the best match first.",
    input: jsonSchema<{ query: string; limit?: number }>({
      type: "object",
      properties: {
        query: { type: "string", description: "Words to look for; not all of them must match." },
        limit: { type: "integer", minimum: 1, maximum: maxResults },
      },
      required: ["query"],
      additionalProperties: false,
    }),
    idempotent: true,
    readOnly: true,
    async execute({ query, limit = defaultResults }, context) {
      const found = await memory.search(viewFor(context), query, limit);
      if (found.length === 0) return memoryTexts.noMatch;
      const lines = found.map(({ path, line, text }) => `${path}:${line}: ${text}`);
      return frameFile("memory", "search", lines.join("\n").slice(0, maxCharacters));
    },
  });

  const get = tool({
    name: "memory_get",
    description: `Reads a file of your memory: ${memoryFile}, or a daily file such as memory/2030-12-31.md.`,
    input: jsonSchema<{ path?: string; offset?: number; limit?: number }>({
      type: "object",
      properties: {
        path: { type: "string", description: `The file; defaults to ${memoryFile}.` },
        offset: { type: "integer", minimum: 1, description: "The first line; defaults to 1." },
        limit: { type: "integer", minimum: 1, description: `Defaults to ${defaultLines} lines.` },
      },
      additionalProperties: false,
    }),
    idempotent: true,
    readOnly: true,
    paths: { path: (path, context) => viewFor(context).files.normalize(path) },
    async execute({ path = memoryFile, offset = 1, limit = defaultLines }, context) {
      const { files } = viewFor(context);
      try {
        const normal = memoryPath(files, path);
        const found = linesOf((await files.read(normal)).data, offset, limit);
        if (!found) throw new ToolFailure("not_text", memoryTexts.notText(normal));
        const text = found.lines.join("\n");
        const shown = text.slice(0, maxCharacters).toWellFormed();
        const next = offset + shown.split("\n").length;
        const isCut = shown.length < text.length || next <= found.total;
        const rest = isCut ? [memoryTexts.more(next, found.total)] : [];
        return [frameFile("memory", normal, shown), ...rest].join("\n");
      } catch (error) {
        if (!(error instanceof RivuletError)) throw error;
        if (error.code === "not_found") return memoryTexts.noFile(path);
        throw new ToolFailure(error.code, problemReason(error));
      }
    },
  });
  return [search, get];
}
