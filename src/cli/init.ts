import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { RivuletError } from "../protocol/error.ts";
import type { Arguments } from "./arguments.ts";
import type { Console } from "./console.ts";

/** `rivulet init`: writes a small project that runs and whose test passes. */
export async function initProject({ operands }: Arguments, console: Console): Promise<number> {
  const [folder = "."] = operands;
  const root = resolve(folder);
  const files = projectFiles(basename(root), ownVersion());
  const written: string[] = [];
  for (const [path, text] of Object.entries(files)) {
    if (!existsSync(join(root, path))) {
      writeNew(join(root, path), text);
      written.push(path);
    }
  }
  const kept = Object.keys(files).filter((path) => !written.includes(path));
  for (const path of written) console.print(`created   ${join(folder, path)}`);
  for (const path of kept) console.print(`kept      ${join(folder, path)}, which exists already`);
  const enter = folder === "." ? "" : `cd ${folder} && `;
  console.print(`
Next
  ${enter}npm install
  npm test                 the team with a scripted model: no API key, no network
  npx rivulet              talk to your team; it uses the offline model until you set RIVULET_MODEL
  npx rivulet serve        the same in the browser, with an HTTP API`);
  if (kept.includes("package.json"))
    console.print('\nYour package.json needs "type": "module" and the packages rivulet and zod.');
  return 0;
}

function writeNew(path: string, text: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text, { flag: "wx" });
  } catch (cause) {
    const { code = "", message } = cause as NodeJS.ErrnoException;
    const reason = reasons[code] ?? message;
    throw new RivuletError("invalid_folder", `${path} cannot be written: ${reason}.`, {
      hint: "Pass a folder that you may write to: rivulet init <folder>.",
      cause,
    });
  }
}

const reasons: Readonly<Record<string, string>> = {
  EACCES: "permission denied",
  EPERM: "permission denied",
  EROFS: "the disk is read-only",
  ENOSPC: "the disk is full",
  ENOTDIR: "a part of its path is a file",
  EEXIST: "a part of its path is a file",
};

function ownVersion(): string {
  const path = fileURLToPath(new URL("../../package.json", import.meta.url));
  return (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}

function projectFiles(name: string, version: string): Readonly<Record<string, string>> {
  const manifest = {
    name:
      name
        .toLowerCase()
        .replace(/[^a-z0-9._-]+/g, "-")
        .replace(/^[._-]+/, "") || "agents",
    private: true,
    type: "module",
    engines: { node: ">=22.18" },
    scripts: { start: "rivulet", serve: "rivulet serve", test: "node --test" },
    dependencies: { rivulet: version === "0.0.0" ? "*" : `^${version}`, zod: "^4.0.0" },
  };
  return {
    "package.json": `${JSON.stringify(manifest, null, 2)}\n`,
    ".gitignore": "node_modules\n.rivulet\n",
    "rivulet.config.ts": configFile,
    "team.ts": teamFile,
    "team.test.ts": testFile,
    "workspace/AGENTS.md": leadFile,
    "workspace/subagents/researcher.md": researcherFile,
    "workspace/subagents/writer.md": writerFile,
    "workspace/notes/rivers.md": notesFile,
  };
}

const configFile = `import { createTeam } from "./team.ts";

// The offline model needs no API key. Set RIVULET_MODEL to use another, such as openai:gpt-5-mini.
const model = (process.env.RIVULET_MODEL ?? "demo:analyst") as \`\${string}:\${string}\`;

export default { agents: [createTeam({ model })] };
`;

const teamFile = `import { fileURLToPath } from "node:url";
import { HarnessAgent, type HarnessAgentOptions, tool } from "rivulet";
import { z } from "zod";

const wordCount = tool({
  name: "word_count",
  description: "Counts the words of a text.",
  input: z.object({ text: z.string() }),
  execute: ({ text }) => text.split(/\\s+/).filter((word) => word !== "").length,
});

/** The lead of a team. The workspace holds its instructions (AGENTS.md) and its subagents (subagents/*.md). */
export function createTeam(options: Pick<HarnessAgentOptions, "model" | "store">): HarnessAgent {
  const workspace = fileURLToPath(new URL("workspace", import.meta.url));
  return new HarnessAgent({ name: "lead", workspace, tools: [wordCount], references: true, ...options });
}
`;

const testFile = `import assert from "node:assert/strict";
import { test } from "node:test";
import { scriptedModel } from "rivulet/testing";
import { createTeam } from "./team.ts";

test("the lead asks the researcher and passes on the report", async () => {
  const model = scriptedModel(({ tools, prompt }) => {
    const isLead = tools?.some(({ name }) => name === "agent_spawn");
    if (!isLead) return "Salmon return to the river where they were born.";
    if (prompt.at(-1)?.role === "tool") return "They return to their river.";
    return [{ call: "agent_spawn", input: { agent_id: "researcher", task: "Where do salmon go?" } }];
  });
  const team = createTeam({ model, store: "memory" });

  const agents = new Set<string>();
  for await (const event of team.stream("Where do salmon go?"))
    agents.add(event.source?.agentId ?? "lead");

  assert.deepEqual([...agents], ["lead", "researcher"]);
});
`;

const leadFile = `# Lead

You answer questions from the notes in \`notes/\`.

- Give each part of a question to a researcher.
- Let the writer turn the findings into a short text.
- If the notes do not contain the answer, say so.
`;

const researcherFile = `---
description: Searches the notes for one question and reports the sentences that answer it, with their sources.
tools: [grep_files, read_file]
workspace:
  mode: shared
---

You answer one question from the notes in \`notes/\`.
Search for its words, read the best matches, and report the sentences that answer it, one per line.
After each sentence, cite the number of the result that it comes from, as in [^1], then the file and line in brackets.
`;

const writerFile = `---
description: Writes a short text from notes without adding anything.
tools: []
workspace:
  mode: shared
---

You get a question and notes. Write the answer in one paragraph and add nothing.
`;

const notesFile = `# Rivers

Salmon return to the river where they were born.
They find it by the smell of its water.
`;
