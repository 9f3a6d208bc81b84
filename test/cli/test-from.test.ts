import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, it } from "vitest";
import { sampleQuestion, sampleTeam } from "../../src/cli/sample-team.ts";
import { memoryStore } from "../../src/index.ts";
import { replayRun } from "../../src/testing.ts";
import { rivulet } from "./support/program.ts";

const folder = mkdtempSync(join(tmpdir(), "test-from-"));
const test = join(folder, "delta.test.ts");
const recording = join(folder, "delta.recording.json");
const workspace = resolve("sample/workspace");
const team = () => sampleTeam({ model: "demo:analyst", workspace, store: memoryStore() });
type Json = Record<string, unknown>;

beforeAll(async () => {
  const sources = resolve("src");
  writeFileSync(
    join(folder, "rivulet.config.ts"),
    `import { sampleTeam } from "${sources}/cli/sample-team.ts";
const workspace = ${JSON.stringify(workspace)};
const store = "sqlite:${folder}/rivulet.db";
export default { agents: [sampleTeam({ model: "demo:analyst", workspace, store })], store };
`,
  );
  writeFileSync(
    join(folder, "vitest.config.ts"),
    `export default { resolve: { alias: { "rivulet/testing": "${sources}/testing.ts" } } };\n`,
  );
  const config = ["--config", join(folder, "rivulet.config.ts")];
  const ran = await rivulet(["run", ...config, sampleQuestion], { cwd: folder });
  expect(ran.output + ran.errors).toContain("river");
  const made = await rivulet(["test", "from", ...config, "--out", test], { cwd: folder });
  expect(made.errors).toBe("");
  expect(made.code).toBe(0);
});

it("makes a test of the sample team's run, which passes offline", async () => {
  expect(readFileSync(test, "utf8")).toContain('"lead/researcher/critic"');
  const vitest = resolve("node_modules/vitest/vitest.mjs");
  const args = [vitest, "run", "--root", folder, "--config", join(folder, "vitest.config.ts")];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder });
  expect(stdout).toMatch(/1 passed/);
});

it("does not replace a test without --force", async () => {
  const config = ["--config", join(folder, "rivulet.config.ts")];
  const again = await rivulet(["test", "from", ...config, "--out", test], { cwd: folder });
  expect(again).toMatchObject({ code: 2, errors: expect.stringContaining("Pass --force") });
});

it("names agent, step and difference when a prompt has changed", async () => {
  const changed = edited((text) =>
    text.replaceAll("You answer one question", "You answer questions"),
  );
  await expect(replayRun(team(), changed)).rejects.toMatchObject({
    code: "replay_differs",
    message: expect.stringMatching(
      /^lead\/researcher, step 1, has another prompt: system:\n- ".*answer questions.*\n\+ ".*answer one question/,
    ),
  });
});

it("names agent, step and difference when the output of a tool has changed", async () => {
  const run = replayRun(team(), edited(withOtherOutput), { tools: "live" });
  await expect(run).rejects.toMatchObject({
    code: "replay_differs",
    message: expect.stringMatching(/^lead\/researcher.*, step \d+, has another prompt: messages/),
  });
});

it("names agent, step and difference when two children change their order", async () => {
  const run = replayRun(team(), edited(withOtherOrder));
  await expect(run).rejects.toMatchObject({
    code: "replay_differs",
    message: expect.stringMatching(/^lead, step \d+, has another prompt: messages/),
  });
});

/** The path of a changed copy of the recording. */
function edited(change: (text: string) => string): string {
  const path = join(mkdtempSync(join(folder, "edited-")), "edited.recording.json");
  const text = readFileSync(recording, "utf8");
  const changed = change(text);
  expect(changed).not.toBe(text);
  writeFileSync(path, changed);
  return path;
}

/** Changes the result of the first search. */
function withOtherOutput(text: string): string {
  return changeBlocks(text, (block) => {
    if (block.type !== "tool_result" || block.name !== "grep_files") return false;
    (block.output as Json[])[0] = { type: "text", text: "Nothing." };
    return true;
  });
}

/** Swaps the results of the first two researchers. */
function withOtherOrder(text: string): string {
  const results: Json[] = [];
  return changeBlocks(text, (block) => {
    if (block.type !== "tool_result" || block.name !== "agent_spawn") return false;
    results.push(block);
    const [first, second] = results;
    if (first === undefined || second === undefined) return false;
    [first.output, second.output] = [second.output, first.output];
    return true;
  });
}

/** Calls `change` with the blocks of all messages until it returns true. */
function changeBlocks(text: string, change: (block: Json) => boolean): string {
  const recorded = JSON.parse(text) as {
    readonly tasks: readonly {
      readonly messages: readonly { readonly content: readonly Json[] }[];
    }[];
  };
  const blocks = recorded.tasks.flatMap(({ messages }) =>
    messages.flatMap(({ content }) => content),
  );
  blocks.some(change);
  return JSON.stringify(recorded);
}
