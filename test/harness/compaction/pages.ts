import { z } from "zod";
import { tool } from "../../../src/index.ts";
import type { ScriptedRequest } from "../../../src/testing.ts";

/** A summary with all its headings. */
export const summaryWith = (facts: string) =>
  `## Goal\nCount the pages.\n\n## Decisions\nNone.\n\n## Facts\n${facts}\n\n## Files\nNone.\n\n## Open tasks\nNone.\n\n## Next steps\nGo on.`;

/** Whether a request asks for a summary of the conversation. */
export function isSummary({ prompt }: Pick<ScriptedRequest, "prompt">): boolean {
  const [first] = prompt;
  return first?.role === "system" && first.content.startsWith("You summarise");
}

/** A tool that returns a page of text; each page differs. */
export const readPage = tool({
  name: "read_page",
  description: "Reads a page.",
  input: z.object({ page: z.number() }),
  idempotent: true,
  execute: ({ page }) => pageText(page),
});
export const pageText = (page: number) => `page ${page} `.repeat(200).trim();
