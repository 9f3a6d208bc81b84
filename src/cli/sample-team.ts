import { accessSync, constants, statSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { Model } from "../agent/model/resolve.ts";
import { type Tool, tool } from "../agent/tool/tool.ts";
import type { Filesystem } from "../harness/filesystem/filesystem.ts";
import { localFilesystem } from "../harness/filesystem/local.ts";
import { HarnessAgent } from "../harness/harness-agent.ts";
import { RivuletError } from "../protocol/error.ts";
import { packageRoot } from "./package-root.ts";

/** The path of the workspace in this package. */
export const sampleWorkspace: string = join(packageRoot, "sample", "workspace");

/** The database that the commands share. */
export const defaultStore = "sqlite:.rivulet/rivulet.db";

/** The model that needs no API key and no network. */
export const offlineModel = "demo:analyst";

/** The question of the demo. */
export const sampleQuestion = "How do river deltas form, and why are many of them shrinking?";

/** How long a killed server's work waits for the next one. */
const demoLeaseMs = 1_500;

/** Creates the lead of the team that a workspace declares. */
export function sampleTeam(options: {
  readonly model: Model;
  readonly workspace: string;
  readonly store: string;
}): HarnessAgent {
  checkFolder(options.workspace);
  const tools = [publishReport(localFilesystem(options.workspace))];
  const description = "Answers questions from the articles of its workspace, with a team.";
  return new HarnessAgent({
    ...{ name: "lead", description, ...options, tools },
    ...{ references: true, leaseMs: demoLeaseMs },
  });
}

function checkFolder(path: string): void {
  const problem = folderProblem(path);
  if (problem === undefined) return;
  throw new RivuletError("invalid_workspace", `The workspace ${path} cannot be used: ${problem}.`, {
    hint: "Pass --workspace with a folder that you may read.",
  });
}

function folderProblem(path: string): string | undefined {
  try {
    if (!statSync(path).isDirectory()) return "it is not a folder";
    accessSync(path, constants.R_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return "it does not exist";
    return code === "EACCES" || code === "EPERM" ? "permission denied" : code;
  }
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
