import { fileURLToPath } from "node:url";
import { HarnessAgent, type HarnessAgentOptions, tool } from "rivulet";
import { z } from "zod";

const wordCount = tool({
  name: "word_count",
  description: "Counts the words of a text.",
  input: z.object({ text: z.string() }),
  execute: ({ text }) => text.split(/\s+/).filter((word) => word !== "").length,
});

/** The lead of a team. The workspace holds its instructions (AGENTS.md) and its subagents (subagents/*.md). */
export function createTeam(options: Pick<HarnessAgentOptions, "model" | "store">): HarnessAgent {
  const workspace = fileURLToPath(new URL("workspace", import.meta.url));
  return new HarnessAgent({
    name: "lead",
    workspace,
    tools: [wordCount],
    references: true,
    ...options,
  });
}
