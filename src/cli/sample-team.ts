import { accessSync, constants, cpSync, existsSync, statSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { z } from "zod";
import { demoProvider } from "../../sample/demo/provider.ts";
import { addProvider, type Model, tool } from "../agent/index.ts";
import { RivuletError } from "../base/error.ts";
import type { Store, Tool } from "../contract/index.ts";
import {
  type Filesystem,
  HarnessAgent,
  localFilesystem,
  type SubagentDeclaration,
} from "../harness/index.ts";
import { packageRoot } from "./package-root.ts";

const packagedWorkspace = join(packageRoot, "sample", "workspace");

/** Where the sample team works: a copy of the package's workspace, so that its reports are the user's. */
export const sampleWorkspace: string = join(".rivulet", "sample");

/** The database that the commands share. */
export const defaultStore = "sqlite:.rivulet/rivulet.db";

/** The model that needs no API key and no network. */
export const offlineModel = "demo:analyst";
addProvider("demo", demoProvider);

/** The question of the demo. */
export const sampleQuestion =
  "How do river deltas form, and why are many of them shrinking? Publish a report.";

/** How long a killed server's work waits for the next one. */
const demoLeaseMs = 1_500;

/** Creates the lead of the team that a workspace declares. */
export function sampleTeam(options: {
  readonly model: Model;
  readonly workspace: string;
  readonly store: Store | string;
}): HarnessAgent {
  const { workspace } = options;
  if (workspace === sampleWorkspace) copySample(workspace);
  checkFolder(workspace);
  const tools = [publishReport(localFilesystem(workspace), workspace)];
  const description = "Answers questions from the articles of its workspace, with a team.";
  return new HarnessAgent({
    ...{ name: "lead", description, ...options, tools, subagents: [researcherFor(workspace)] },
    ...{ references: true, leaseMs: demoLeaseMs },
    // Its files are the same on every machine.
    place: "sample",
  });
}

/** Copies the files that are missing; those that a person has changed stay. */
function copySample(workspace: string): void {
  try {
    for (const name of ["AGENTS.md", "library", "subagents", "synonyms.md"])
      cpSync(join(packagedWorkspace, name), join(workspace, name), {
        recursive: true,
        force: false,
      });
  } catch (cause) {
    const { code = "" } = cause as NodeJS.ErrnoException;
    const message = `The sample cannot be copied to ${resolve(workspace)}: ${code}.`;
    const hint = "Start in a folder that you may write to, or pass --workspace.";
    throw new RivuletError("invalid_workspace", message, { hint, cause });
  }
}

/** The researcher, with a critic of its own. Agents that are declared in files have no subagents. */
function researcherFor(workspace: string): SubagentDeclaration {
  const hasLibrary = existsSync(join(workspace, "library"));
  const articles = hasLibrary ? "the articles in `library/`" : "the files of the workspace";
  const lookUp = existsSync(join(workspace, "synonyms.md"))
    ? "Look up other words for those of the question in `synonyms.md`. "
    : "";
  return {
    name: "researcher",
    description:
      "Searches the articles for one question, has its findings checked, and reports the sentences that answer it, with their sources.",
    systemPrompt: `You answer one question from ${articles}.
${lookUp}Search for the words of the question, read the best matches, and let the critic check the sentences that answer it.
Report the sentences that it confirms, verbatim, one per line. After each sentence, cite the number of the result that it comes from, as in [^1], then the file and line in brackets.
If the articles do not answer the question, say so.`,
    workspaceMode: "shared",
    tools: ["grep_files", "read_file"],
    maxIters: 8,
    leaf: false,
    subagents: [
      {
        name: "critic",
        description:
          "Checks a list of claims against the articles and reports which of them the articles support.",
        systemPrompt: `You get a list of claims, one per line. Look for each claim in ${articles}.
Answer with a list. For a claim that you find, write "supported", the claim, the number of the result that contains it, the file and the line. Otherwise write "not found" and the claim.
Do not correct claims and do not add any.`,
        workspaceMode: "shared",
        tools: ["grep_files", "read_file"],
        maxIters: 6,
      },
    ],
  };
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

function publishReport(files: Filesystem, workspace: string): Tool {
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
      return `The report is in ${relative(".", join(workspace, path))}.`;
    },
  });
}
