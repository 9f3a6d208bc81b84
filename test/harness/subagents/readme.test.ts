// The README's claim about subagents: a few lines, none of them for streaming, and the child's events arrive.
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { codeBlocks } from "../../house/docs-code.ts";

const run = promisify(execFile);
const source = (path: string) =>
  JSON.stringify(new URL(`../../../src/${path}`, import.meta.url).href);

async function example(): Promise<string> {
  const readme = await readFile("README.md", "utf8");
  const section = /^## Subagents\n(.*?)^## /ms.exec(readme)?.[1] ?? "";
  const [block, ...others] = codeBlocks("README.md", section);
  expect(others).toEqual([]);
  expect(block?.context).toBe("");
  return block?.code ?? "";
}

/** Replaces the model of the example. */
const model = `
import { scriptedModel } from ${source("testing.ts")};
const model = scriptedModel(({ tools, assistantCount }) => {
  if (!tools?.some(({ name }) => name === "agent_spawn")) return { text: ["The Rhine ", "is longer."] };
  const spawn = { call: "agent_spawn", input: { agent_id: "researcher", task: "Compare them." } };
  return assistantCount === 0 ? [spawn] : "I have heard.";
});
`;

it("is at most 15 lines, without streaming code before the loop", async () => {
  const code = await example();
  const lines = code.trimEnd().split("\n");
  expect(code.slice(0, code.indexOf("for await"))).not.toMatch(/stream|event|source|delta|emit/i);
  expect(lines.length).toBeGreaterThan(1);
  expect(lines.length).toBeLessThanOrEqual(15);
});

it("streams the child's text live", async () => {
  const code = await example();
  const program = code
    .replace('"rivulet"', source("index.ts"))
    .replace(/const model = "[^"]+";/, "");
  const directory = await mkdtemp(join(tmpdir(), "readme-"));
  try {
    await writeFile(join(directory, "example.mts"), model + program);
    const { stdout } = await run(process.execPath, ["example.mts"], { cwd: directory });
    expect(stdout.split("\n")).toEqual([
      "rivers/researcher The Rhine ",
      "rivers/researcher is longer.",
      "rivers I have heard.",
      "",
    ]);
  } finally {
    await rm(directory, { recursive: true });
  }
});
