import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { expect, it } from "vitest";
import { codeBlocks } from "./house/docs-code.ts";

/** The last line that each example prints. */
const endings: Readonly<Record<string, string>> = {
  "01-hello.ts": "Your table for 2 is booked, at eight.",
  "02-tools.ts": "trip says Take the train at 9:05, with a jumper and a hat.",
  "03-hooks.ts": "secretary says after 2 tool calls: I have asked Ann. Yours, secretary",
  "04-approval.ts": "Done, as far as I was allowed to. Left: notes.md, draft.md",
  "05-structured-output.ts": "  cheese   9.00 €",
  "06-resume.ts": "The electricity is paid, and the receipt is in the post.",
  "07-workspace.ts": "All checks passed.",
  "08-research-team.ts": "All checks passed.",
  "09-background.ts": "tuesday: You have 7 books.",
  "10-grandchild-approval.ts": "Everything is ready for the party.",
  "11-attach.ts": "The room is booked, and the invitations are sent.",
  "12-serve.ts": "text: is online.",
  "13-react-page.ts": "The letter is on its way.",
  "14-mount.ts": "Mounted under /ai.",
  "15-skill.ts": "All checks passed.",
  "16-memory.ts": "All checks passed.",
  "17-sandbox.ts": "All checks passed.",
  "18-long-session.ts": "All checks passed.",
  "19-remote.ts": "Dinner is served.",
  "20-a2a.ts": "All is clean.",
  "21-use-chat.ts": 'The writer asks: {"name":"send","message":"Allow send?"}',
  "22-responses.ts": "It rains there.",
  "23-mcp.ts": "All is tidy.",
  "24-ag-ui.ts": "All is tidy.",
  "25-acp.ts": "lead: I removed old.log.",
  "26-evals.ts": 'terse {"exact":1,"contains":1,"certain":1}',
  "27-test-from-run.ts": "All checks passed.",
};

/** Refuses to load the build, because a fresh clone has none. */
const withoutBuild = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from "node:module";
  const build = ${JSON.stringify(pathToFileURL(resolve("dist/")).href)};
  registerHooks({
    load(url, context, next) {
      if (url.startsWith(build)) throw new Error(url + " is a file of the build.");
      return next(url, context);
    },
  });`)}`;

async function node(...args: readonly string[]) {
  const child = spawn(process.execPath, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, NODE_OPTIONS: `--import=${withoutBuild}` },
    timeout: 60_000,
  });
  const [stdout, stderr, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close"),
  ]);
  return { status: status as number | null, stdout, stderr };
}

it("knows the last line of every example", () => {
  const examples = readdirSync("examples").filter((file) => /^\d/.test(file));
  expect(examples.sort()).toEqual(Object.keys(endings));
});

it.concurrent.each(Object.entries(endings))(
  "%s runs with the command in its first comment",
  async (file, ending) => {
    const [, number = "none"] =
      /^\/\/ .*npm run example (\d+)$/m.exec(readFileSync(`examples/${file}`, "utf8")) ?? [];
    expect(file.startsWith(`${number}-`)).toBe(true);
    const { status, stdout, stderr } = await node("examples/run.ts", number);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout.endsWith(`${ending}\n`), stdout).toBe(true);
  },
);

it.concurrent("runs all examples that a number begins, each in its own process", async () => {
  const { status, stdout, stderr } = await node("examples/run.ts", "1");
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  const names = Object.keys(endings).filter((file) => file.startsWith("1"));
  expect(names.length).toBeGreaterThan(4);
  expect(stdout.match(/^── .* ──$/gm)).toEqual(names.map((file) => `── ${file} ──`));
});

it.concurrent("lists the examples when a number does not exist", async () => {
  const { status, stderr } = await node("examples/run.ts", "99");
  expect(status).toBe(1);
  expect(stderr).toMatch(/^Example 99 does not exist\. Available:\n {2}01-hello\.ts\n/);
});

/** Runs a code block between `first` and `last`. */
async function runBlock(code: string, first = "", last = "") {
  const flags = ["--import", "./examples/from-source.ts", "--input-type=module-typescript"];
  return node(...flags, "--eval", `${first}\n${code}\n${last}`);
}

const blocksOf = (path: string) => codeBlocks(path, readFileSync(path, "utf8"));

const checked = blocksOf("docs/guide/testing.md").filter(({ code }) => code.includes("assert"));
it.concurrent.each(checked)("runs docs/guide/testing.md, line $line", async ({ code }) => {
  expect(await runBlock(code)).toEqual({ status: 0, stdout: "", stderr: "" });
});

const [hello, approval] = blocksOf("README.md")
  .map(({ code }) => code)
  .filter((code) => code.includes("book_table"));
const linesOf = (code = "") => code.trimEnd().split("\n");

it.concurrent("keeps README's first program to 12 lines, and approval to 4 more", async () => {
  const first = linesOf(hello);
  const second = linesOf(approval);
  expect(first.length).toBeLessThanOrEqual(12);
  expect(second.length - first.length).toBeLessThanOrEqual(4);
  for (const line of [...first, ...second]) expect(line.length).toBeLessThanOrEqual(100);
});

it.concurrent.each([
  ["hello", hello, "true", "Booked."],
  ["approved", approval, "true", "Booked."],
  ["denied", approval, "false", "A pity."],
])("runs README's programs: %s", async (_, code = "", answer, printed) => {
  const model = 'model: "openai:gpt-5-mini"';
  expect(code).toContain(model);
  // The reply depends on the tool's result, so only a real call leads to "Booked.".
  const script = `({ prompt }) => {
    const last = JSON.stringify(prompt.at(-1).content);
    if (last.includes("A table for 2, at eight.")) return "Booked.";
    return last.includes("Not today.") ? "A pity." : { call: "book_table", input: { people: 2 } };
  }`;
  const first = `import { scriptedModel } from "rivulet/testing"; const ask = () => ${answer};`;
  const program = code.replace(model, `model: scriptedModel(${script})`);
  expect(await runBlock(program, first)).toEqual({ status: 0, stdout: `${printed}\n`, stderr: "" });
});

/** Settings of a lead that gives one task to its researcher and keeps nothing on disk. */
const team = `store: "memory", filesystem: false, model: scriptedModel(({ tools, assistantCount }) => {
  if (!tools?.some(({ name }) => name === "agent_spawn")) return { text: ["Fo", "und."] };
  const input = { agent_id: "researcher", task: "Look." };
  return assistantCount > 0 ? "Done." : { call: "agent_spawn", input };
})`;

it.concurrent("runs the first program of the subagents guide, in at most 15 lines", async () => {
  const [code = ""] = blocksOf("docs/guide/subagents.md").map((block) => block.code);
  expect(linesOf(code).length).toBeLessThanOrEqual(15);
  const model = 'model: "openai:gpt-5-mini"';
  expect(code).toContain(model);
  const first = 'import { scriptedModel } from "rivulet/testing";';
  const { status, stdout, stderr } = await runBlock(code.replace(model, team), first);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  expect(stdout).toMatch(/^sess_\w+\/researcher Fo\nsess_\w+\/researcher und\.\nlead Done\.\n$/);
});

const patterns = blocksOf("docs/guide/streaming.md").filter(({ code }) => /\blead\b/.test(code));
const readSse = `
import { decodeSse } from "rivulet/protocol";
server.listen(0, async () => {
  const place = \`http://localhost:\${server.address().port}\`;
  const started = await fetch(place, { method: "POST", body: "Plan." });
  const response = await fetch(place + started.headers.get("location"));
  for await (const { type, source } of decodeSse(response.body)) {
    if (type === "task.created" || type === "task.completed") {
      console.log(type, source?.agentId ?? "lead", source?.agentKey?.slice(0, 17) ?? "");
    }
  }
  server.close();
});`;

it.concurrent.each([
  [
    "one panel per agent",
    0,
    "tonight \ntonight/researcher Fo\ntonight/researcher Found.\ntonight/researcher Found.\ntonight Done.\ntonight Done.\n",
  ],
  ["the answer of one subagent", 1, "Found.\n"],
  [
    "group events by agent",
    2,
    "lead reasoning tool_call child tool_result reasoning agent_result\nresearcher reasoning agent_result\n",
  ],
  [
    "server-sent events",
    3,
    "task.created lead \ntask.created researcher agent:researcher:\ntask.completed researcher \ntask.completed lead \n",
  ],
])("runs docs/guide/streaming.md: %s", async (_, index, printed) => {
  expect(patterns).toHaveLength(4);
  const first = `import { HarnessAgent } from "rivulet"; import { scriptedModel } from "rivulet/testing";
    const subagents = [{ name: "researcher", description: "Looks." }];
    const lead = new HarnessAgent({ name: "lead", subagents, ${team} });`;
  const last = index === 3 ? readSse : "";
  const code = patterns[index]?.code ?? "";
  expect(await runBlock(code, first, last)).toEqual({ status: 0, stdout: printed, stderr: "" });
});
