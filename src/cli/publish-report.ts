import { z } from "zod";
import { type Tool, tool } from "../agent/tool/tool.ts";
import type { Filesystem } from "../harness/filesystem/filesystem.ts";

/** A tool that puts a report into the folder `reports`; somebody has to agree each time. */
export function publishReport(files: Filesystem): Tool {
  return tool({
    name: "publish_report",
    description:
      "Publishes a report: writes it to the folder reports, where everybody can read it.",
    input: z.object({
      title: z.string().describe("What the report is about."),
      text: z.string().describe("The report, as Markdown, with its sources."),
    }),
    needsApproval: true,
    async execute({ title, text }) {
      const { path } = await files.write(`reports/${nameFor(title)}.md`, `# ${title}\n\n${text}\n`);
      return `The report is in ${path}.`;
    },
  });
}

function nameFor(title: string): string {
  const words = title.toLowerCase().match(/[a-z0-9]+/g) ?? ["report"];
  return words.join("-").slice(0, 60).replace(/-$/, "");
}
