import { fileURLToPath } from "node:url";
import { z } from "zod";
import type { Model } from "../agent/model/resolve.ts";
import { type Tool, tool } from "../agent/tool/tool.ts";
import type { Filesystem } from "../harness/filesystem/filesystem.ts";
import { localFilesystem } from "../harness/filesystem/local.ts";
import { HarnessAgent } from "../harness/harness-agent.ts";

/** The path of the workspace in this repository. */
export const sampleWorkspace = fileURLToPath(new URL("../../sample/workspace", import.meta.url));

/** Creates the lead of the team that a workspace declares. */
export function sampleTeam(options: {
  readonly model: Model;
  readonly workspace: string;
  readonly store: string;
}): HarnessAgent {
  const tools = [publishReport(localFilesystem(options.workspace))];
  return new HarnessAgent({ name: "lead", ...options, tools, references: true });
}

function publishReport(files: Filesystem): Tool {
  return tool({
    name: "publish_report",
    description: "Publishes a report in the folder reports, where everybody can read it.",
    input: z.object({
      title: z.string().describe("The subject of the report."),
      text: z.string().describe("The report in Markdown, with its sources."),
    }),
    needsApproval: true,
    async execute({ title, text }) {
      const words = title.toLowerCase().match(/[a-z0-9]+/g) ?? ["report"];
      const name = words.join("-").slice(0, 60).replace(/-$/, "");
      const { path } = await files.write(`reports/${name}.md`, `# ${title}\n\n${text}\n`);
      return `The report is in ${path}.`;
    },
  });
}
