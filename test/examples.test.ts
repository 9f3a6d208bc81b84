import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { codeBlocks } from "./house/docs-code.ts";

/** What each example prints last. */
const endings: Readonly<Record<string, string>> = {
  "01-hello.ts": "Your table for 2 is booked, at eight.",
  "02-tools.ts": "trip says Take the train at 9:05, with a jumper and a hat.",
  "03-hooks.ts": "secretary says after 2 tool calls: I have asked Ann. Yours, secretary",
  "04-approval.ts": "Done, as far as I was allowed to. Left: notes.md, draft.md",
  "05-structured-output.ts": "  cheese   9.00 €",
  "06-resume.ts": "The electricity is paid, and the receipt is in the post.",
  "07-workspace.ts": "The workspace made the difference.",
  "08-research-team.ts": "Every number leads to what a researcher has read.",
  "09-background.ts": "tuesday: You have 7 books.",
  "10-grandchild-approval.ts": "Everything is ready for the party.",
};

function node(...args: readonly string[]) {
  return spawnSync(process.execPath, args, { encoding: "utf8", timeout: 60_000 });
}

it("every example is listed here", () => {
  const examples = readdirSync("examples").filter((file) => /^\d/.test(file));
  expect(examples.sort()).toEqual(Object.keys(endings));
});

it.each(Object.entries(endings))("%s runs by the command that it names", (file, ending) => {
  const [, number = "none"] =
    /^\/\/ .*npm run example (\d+)$/m.exec(readFileSync(`examples/${file}`, "utf8")) ?? [];
  expect(file.startsWith(`${number}-`)).toBe(true);
  const { status, stdout, stderr } = node("examples/run.ts", number);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  expect(stdout.endsWith(`${ending}\n`), stdout).toBe(true);
});

it("an example that is not there is a sentence", () => {
  const { status, stderr } = node("examples/run.ts", "99");
  expect(status).toBe(1);
  expect(stderr).toMatch(/^There is no example 99\. There are:\n {2}01-hello\.ts\n/);
});

/** Runs code of a document as it stands, between `first` and `last`. */
function runBlock(code: string, first = "", last = "") {
  const flags = ["--import", "./examples/from-source.ts", "--input-type=module-typescript"];
  const { status, stdout, stderr } = node(...flags, "--eval", `${first}\n${code}\n${last}`);
  return { status, stdout, stderr };
}

const blocksOf = (path: string) => codeBlocks(path, readFileSync(path, "utf8"));

const checked = blocksOf("docs/guide/testing.md").filter(({ code }) => code.includes("assert"));
it.each(checked)("docs/guide/testing.md runs: line $line", ({ code }) => {
  expect(runBlock(code)).toEqual({ status: 0, stdout: "", stderr: "" });
});

const [hello, approval] = blocksOf("README.md").map(({ code }) => code);
const linesOf = (code = "") => code.trimEnd().split("\n");

it("README's hello with a tool is 12 lines, and approval adds 4", () => {
  const first = linesOf(hello);
  const second = linesOf(approval);
  expect(first.length).toBeLessThanOrEqual(12);
  expect(second.length - first.length).toBeLessThanOrEqual(4);
  for (const line of [...first, ...second]) expect(line.length).toBeLessThanOrEqual(100);
});

it.each([
  ["hello", hello, "true", "Booked."],
  ["a yes", approval, "true", "Booked."],
  ["a no", approval, "false", "A pity."],
])("README's programs run: %s", (_, code = "", answer, printed) => {
  const model = 'model: "openai:gpt-5-mini"';
  expect(code).toContain(model);
  // It says what became of its call, so that only the tool can make it say "Booked.".
  const script = `({ prompt }) => {
    const last = JSON.stringify(prompt.at(-1).content);
    if (last.includes("A table for 2, at eight.")) return "Booked.";
    return last.includes("Not today.") ? "A pity." : { call: "book_table", input: { people: 2 } };
  }`;
  const first = `import { scriptedModel } from "rivulet/testing"; const ask = () => ${answer};`;
  const program = code.replace(model, `model: scriptedModel(${script})`);
  expect(runBlock(program, first)).toEqual({ status: 0, stdout: `${printed}\n`, stderr: "" });
});

/** The settings of a lead whose researcher is asked one thing, and which keeps nothing on disk. */
const team = `store: "memory", filesystem: false, model: scriptedModel(({ tools, assistantCount }) => {
  if (!tools?.some(({ name }) => name === "agent_spawn")) return { text: ["Fo", "und."] };
  const input = { agent_id: "researcher", task: "Look." };
  return assistantCount > 0 ? "Done." : { call: "agent_spawn", input };
})`;

it("a subagent that streams is 15 lines, and they run", () => {
  const [code = ""] = blocksOf("docs/guide/08-subagents.md").map((block) => block.code);
  expect(linesOf(code).length).toBeLessThanOrEqual(15);
  const model = 'model: "openai:gpt-5-mini"';
  expect(code).toContain(model);
  const first = 'import { scriptedModel } from "rivulet/testing";';
  const { status, stdout, stderr } = runBlock(code.replace(model, team), first);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  expect(stdout).toMatch(/^sess_\w+\/researcher Fo\nsess_\w+\/researcher und\.\nlead Done\.\n$/);
});

const patterns = blocksOf("docs/guide/streaming.md").filter(({ code }) => /\blead\b/.test(code));
const readSse = `
import { decodeSse } from "rivulet/protocol";
server.listen(0, async () => {
  const response = await fetch(\`http://localhost:\${server.address().port}/?message=Plan.\`);
  for await (const { type, source } of decodeSse(response.body)) {
    if (type === "task.created" || type === "task.completed") {
      console.log(type, source?.agentId ?? "lead", source?.agentKey?.slice(0, 17) ?? "");
    }
  }
  server.close();
});`;

it.each([
  [
    "a panel for each agent",
    0,
    "tonight \ntonight/researcher Fo\ntonight/researcher Found.\ntonight/researcher Found.\ntonight Done.\ntonight Done.\n",
  ],
  ["what one child says", 1, "Found.\n"],
  [
    "everything, by agent",
    2,
    "lead reasoning tool_result reasoning agent_result\nresearcher reasoning agent_result\n",
  ],
  [
    "over HTTP",
    3,
    "task.created lead \ntask.created researcher agent:researcher:\ntask.completed researcher \ntask.completed lead \n",
  ],
])("docs/guide/streaming.md runs: %s", (_, index, printed) => {
  expect(patterns).toHaveLength(4);
  const first = `import { HarnessAgent } from "rivulet"; import { scriptedModel } from "rivulet/testing";
    const subagents = [{ name: "researcher", description: "Looks." }];
    const lead = new HarnessAgent({ name: "lead", subagents, ${team} });`;
  const last = index === 3 ? readSse : "";
  const code = patterns[index]?.code ?? "";
  expect(runBlock(code, first, last)).toEqual({ status: 0, stdout: printed, stderr: "" });
});
