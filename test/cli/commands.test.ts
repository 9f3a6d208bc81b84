import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { TaskEvent } from "../../src/protocol/event.ts";
import { sqliteStore } from "../../src/store/index.ts";
import { scripted } from "../server/support/server.ts";
import { rivulet, scriptedTeam } from "./support/program.ts";

const directory = mkdtempSync(join(tmpdir(), "rivulet-commands-"));
const folder = () => mkdtempSync(join(directory, "f"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const team = (cwd: string, ...args: readonly string[]) => {
  const [command = "", ...rest] = args;
  return rivulet([command, ...scriptedTeam, ...rest], { cwd });
};

describe.concurrent("rivulet run", () => {
  it("prints the work, then the answer, the usage and how to continue", async () => {
    const { code, output, errors } = await team(folder(), "run", "--session", "s", "hello");
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
    const parts = [
      "question  hello",
      "[s] says You said",
      "\nanswer\nYou said 1 things.",
      "\nused\n",
      `\ncontinue  rivulet ${scriptedTeam.join(" ")} --session s\n`,
    ];
    const places = parts.map((part) => output.indexOf(part));
    expect(places).not.toContain(-1);
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(output).not.toContain("\x1b");
  });

  it.each([
    ["hello", [], 0],
    ["fail", [], 1],
    ["remove it", ["--yes"], 0],
  ] as const)("ends %j with the exit code of the outcome", async (prompt, flags, expected) => {
    const { code, output, errors } = await team(folder(), "run", "--json", ...flags, prompt);
    expect(code).toBe(expected);
    const events = output
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as TaskEvent);
    expect(events.at(-1)?.type).toBe(expected === 0 ? "task.completed" : "task.failed");
    if (expected === 1) expect(errors).toContain("question  fail");
  });

  it("prints one line with what failed", async () => {
    const { code, errors } = await team(folder(), "run", "fail");
    expect(code).toBe(1);
    expect(errors).toMatch(/^rivulet: [^\n]*The model broke\.[^\n]*\n$/);
  });

  it("prints only the answer with --quiet", async () => {
    const { output } = await team(folder(), "run", "--quiet", "hello");
    expect(output).toBe("You said 1 things.\n");
  });

  it("ends with 130 when it is interrupted", async () => {
    let isSent = false;
    const { code, output } = await rivulet(["run", ...scriptedTeam, "slow"], {
      cwd: folder(),
      onOutput(text, child) {
        if (isSent || !text.includes("begins")) return;
        isSent = true; // a second signal would end the program at once
        child.kill("SIGINT");
      },
    });
    expect(code).toBe(130);
    expect(output).toContain("The run was cancelled.");
  });

  it("cancels the run quietly when the reader closes the pipe", async () => {
    const cwd = folder();
    const script = `"${process.execPath}" "${resolve("src/cli/main.ts")}" run ${scriptedTeam.join(" ")} "ask the team" | head -n 1; echo "\${PIPESTATUS[0]}"`;
    const child = spawn("bash", ["-c", script], {
      cwd,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let [output, errors] = ["", ""];
    child.stdout.on("data", (text) => (output += text));
    child.stderr.on("data", (text) => (errors += text));
    await new Promise((end) => child.once("close", end));
    expect({ output, errors }).toEqual({ output: "question  ask the team\n130\n", errors: "" });
    expect((await team(cwd, "tasks")).output).toMatch(/^task_\S+ +cancelled /);
  });

  it("shows warnings as lines of its own, and none about experimental features", async () => {
    const cwd = folder();
    const config = join(cwd, "warns.ts");
    writeFileSync(
      config,
      `process.emitWarning("Mind the gap.", "RivuletWarning");
       process.emitWarning("SQLite is experimental.", "ExperimentalWarning");
       export { default } from ${JSON.stringify(resolve("test/cli/support/config.ts"))};`,
    );
    const { errors } = await rivulet(["run", "--config", config, "hello"], { cwd });
    expect(errors).toBe("rivulet: Mind the gap.\n");
  });
});

it("moves sessions to another store", async () => {
  const [from, to] = [folder(), folder()];
  await team(from, "run", "--session", "s", "hello");
  await team(from, "run", "--session", "t", "hello");
  const one = await team(from, "export", "s");
  writeFileSync(join(to, "one.jsonl"), one.output);
  expect(await team(to, "import", "one.jsonl")).toMatchObject({
    code: 0,
    errors: "Imported 1 session.\n",
  });
  const all = await rivulet(["import", ...scriptedTeam], {
    cwd: to,
    input: (await team(from, "export")).output,
  });
  expect(all).toMatchObject({
    code: 1,
    errors: "Imported 1 session.\ns exists already and was not changed.\n",
  });
  expect((await team(to, "replay", "t")).output).toContain("[t] says You said 1 things.");
  const continued = await team(to, "run", "--session", "s", "hello");
  expect(continued.output).toContain("You said 2 things.");
  expect(await team(to, "import", "nowhere.jsonl")).toMatchObject({
    code: 2,
    errors: expect.stringContaining("There is no file nowhere.jsonl."),
  });
  expect((await team(from, "export", "nobody")).code).toBe(2);
});

it("lists what waits for a person, with who asks for what", async () => {
  const cwd = folder();
  const store = sqliteStore(join(cwd, ".rivulet/rivulet.db"));
  const { agent } = scripted([[{ call: "remove", input: { path: "a\nb.txt" } }]], { store });
  await agent.call("Clean up.", { sessionId: "s", userId: "ann" });
  await store.close();
  const { output } = await rivulet(["tasks", "--waiting"], { cwd });
  expect(output).toMatch(
    /^apr_\S+ {2}lead: remove \{"path":"a\\nb\.txt"\}.*\n {2}tool call, session s, user ann\n$/,
  );
  const json = JSON.parse((await rivulet(["tasks", "--waiting", "--json"], { cwd })).output);
  expect(json).toMatchObject({ sessionId: "s", userId: "ann", call: { name: "remove" } });
  const empty = folder();
  await team(empty, "run", "hello");
  expect((await rivulet(["tasks", "--waiting"], { cwd: empty })).output).toBe(
    "Nothing waits for a person.\n",
  );
  const wrong = await rivulet(["tasks", "--waiting", "nodes"], { cwd });
  expect(wrong).toMatchObject({ code: 2, errors: expect.stringContaining("takes no more") });
});

it("adds up what a task, a session and the store have used", async () => {
  const cwd = folder();
  await team(cwd, "run", "--session", "s", "hello");
  const { taskId } = JSON.parse((await team(cwd, "tasks", "--json")).output);
  const all = await team(cwd, "cost");
  expect(all.output).toMatch(/^agent +model +input .* cost\nlead +.*\nall +/);
  expect(all.output).toMatch(/The price of ([\d,]+) of \1 tokens is unknown\. Set `prices`/);
  for (const id of [taskId, "s"]) expect(await team(cwd, "cost", id)).toEqual(all);
  const { rows, total } = JSON.parse((await team(cwd, "cost", "--by", "session", "--json")).output);
  expect(rows).toEqual([{ session: "s", ...total }]);
  expect((await team(cwd, "cost", "--to", "2001-01-01")).output).toBe(
    "No tokens have been used.\n",
  );
  for (const wrong of [["--by", "colour"], ["--from", "today"], ["nothing"]])
    expect((await team(cwd, "cost", ...wrong)).code).toBe(2);
});

it("lists, watches and replays the runs of the store", async () => {
  const cwd = folder();
  await team(cwd, "run", "--session", "s", "hello");
  const listed = await team(cwd, "tasks");
  expect(listed.output).toMatch(/^task_\S+ +completed +\S+ ago +hello\n$/);
  const { taskId, title } = JSON.parse((await team(cwd, "tasks", "--json")).output);
  expect(title).toBe("hello");
  for (const id of [taskId, "s"]) {
    const { code, output } = await team(cwd, "replay", id);
    expect({ id, code }).toEqual({ id, code: 0 });
    expect(output).toContain("[s] says You said 1 things.");
  }
  const file = join(cwd, "run.jsonl");
  writeFileSync(file, (await team(cwd, "replay", "--json", taskId)).output);
  expect((await team(cwd, "replay", file)).output).toContain("[s] says You said 1 things.");
  let watched: ReturnType<typeof rivulet> | undefined;
  const running = rivulet(["run", ...scriptedTeam, "--session", "t", "ask the team"], {
    cwd,
    onOutput(output) {
      if (output.includes("[t] says"))
        watched ??= rivulet(["watch", ...scriptedTeam, "t"], { cwd });
    },
  });
  expect((await running).code).toBe(0);
  const { code, output, errors } = (await watched) ?? { code: -1, output: "", errors: "" };
  expect(code).toBe(0);
  expect(errors).toContain("Watching task_");
  expect(output.match(/\/helper(#2)?\] is completed/g)).toHaveLength(2);
  expect(output).toContain("[t] is completed");
});

it("says that no process works on a run that it watches", async () => {
  const cwd = folder();
  await rivulet(["run", ...scriptedTeam, "--session", "lost", "slow"], {
    cwd,
    onOutput: (text, child) => void (text.includes("begins") && child.kill("SIGKILL")),
  });
  let isSent = false;
  const { code, errors } = await rivulet(["watch", ...scriptedTeam, "lost"], {
    cwd,
    onOutput(_, child) {
      if (isSent) return;
      isSent = true;
      child.kill("SIGINT");
    },
  });
  expect(code).toBe(130);
  expect(errors).toMatch(/Watching task_\S+ of session lost\./);
  const { output } = await team(cwd, "replay", "lost");
  expect(output).toContain("\nThe run has not ended: it is in progress.\n");
  expect(output).not.toContain("\nanswer\n");
});

it("answers each line of a pipe", async () => {
  const { code, output } = await rivulet(scriptedTeam, {
    cwd: folder(),
    input: "hello\n\nagain\n",
  });
  expect(code).toBe(0);
  expect(output).toContain("says You said 1 things.");
  expect(output).toContain("says You said 2 things.");
});

it("creates a project without changing files that exist", async () => {
  const cwd = folder();
  const first = await rivulet(["init", "mine"], { cwd });
  expect(first.code).toBe(0);
  expect(first.output).toMatch(/created +mine\/rivulet\.config\.ts/);
  writeFileSync(join(cwd, "mine/team.ts"), "mine");
  rmSync(join(cwd, "mine/team.test.ts"));
  const second = await rivulet(["init", "mine"], { cwd });
  expect(second.output).toMatch(/kept +mine\/team\.ts/);
  expect(second.output).toMatch(/created +mine\/team\.test\.ts/);
  for (const file of ["tsconfig.json", "README.md", ".gitignore"])
    expect(first.output).toContain(`created   mine/${file}\n`);
  expect(second.output).not.toContain("Complete it first");
  writeFileSync(join(cwd, "file"), "");
  const refused = await rivulet(["init", "file/inside"], { cwd });
  expect(refused.code).toBe(2);
  expect(refused.errors).toMatch(
    /^rivulet: .*cannot be written: a part of its path is a file\. .*\n$/,
  );
});

it("says what a package.json of another tool lacks, until it is complete", async () => {
  const cwd = folder();
  const manifest = join(cwd, "package.json");
  const scripts = { start: "rivulet", serve: "x", test: "x", check: "x" };
  writeFileSync(
    manifest,
    JSON.stringify({ type: "commonjs", scripts, dependencies: { zod: "4" } }),
  );
  const first = await rivulet(["init"], { cwd });
  expect(first.code).toBe(0);
  const commands = first.output.slice(first.output.indexOf("Complete it first:\n")).split("\n  ");
  expect(commands.slice(1)).toEqual([
    "npm pkg set type=module",
    expect.stringMatching(/^npm install \S+$/),
    "npm install --save-dev @types/node typescript\n",
  ]);
  const devDependencies = { rivulet: "0", "@types/node": "24", typescript: "5" };
  writeFileSync(
    manifest,
    JSON.stringify({ type: "module", scripts, dependencies: { zod: "4" }, devDependencies }),
  );
  const second = await rivulet(["init"], { cwd });
  expect(second.output).not.toContain("Complete it first");
  writeFileSync(manifest, "{");
  const broken = await rivulet(["init"], { cwd });
  expect(broken.code).toBe(2);
  expect(broken.errors).toMatch(/^rivulet: .*package\.json is not JSON\. .*\n$/);
});

describe.concurrent("bad input is one clear line, and exit code 2", () => {
  const broken = {
    "syntax.ts": "export default { agents: [",
    "empty.ts": "export const agents = [];",
    "none.ts": "export default { agents: [] };",
    "option.ts": "export default { agents: [], stroe: 1 };",
    "missing.ts": 'import "no-such-package"; export default { agents: [] };',
    "throws.ts": 'throw new Error("no database");',
    "string.ts": 'throw "no database";',
    "list.ts": "export default [{ name: 'lead', run() {} }];",
    "agent.ts": "export default { name: 'lead', run() {} };",
    "file.ts": 'import "./no-such-file.ts"; export default { agents: [] };',
  };
  const cwd = folder();
  for (const [name, text] of Object.entries(broken)) writeFileSync(join(cwd, name), text);

  it.each([
    [["serve", "syntax.ts"], /syntax\.ts(:1)? cannot be loaded: .*Correct the file\./],
    [["serve", "empty.ts"], /empty\.ts has no default export with agents\. Write: export default/],
    [["serve", "none.ts"], /`agents` is empty\. Pass agents/],
    [["serve", "option.ts"], /option\.ts has no option `stroe`\. Did you mean store\?/],
    [["run", "--config", "missing.ts", "x"], /Cannot find package 'no-such-package'.*npm install/],
    [["serve", "throws.ts"], /throws\.ts cannot be loaded: no database\./],
    [["serve", "string.ts"], /string\.ts cannot be loaded: no database\./],
    [["serve", "list.ts"], /list\.ts has no default export with agents\. Write: export default/],
    [["serve", "agent.ts"], /agent\.ts has no default export with agents\. Write: export default/],
    [["serve", "file.ts"], /Cannot find module .*no-such-file\.ts.* Correct the file\./],
    [["serve", "."], /\. is not a file\. Pass the path of a module/],
    [["serve", "nowhere.ts"], /There is no config at nowhere\.ts\. .*rivulet init/],
    [["serve"], /There is no rivulet\.config\.ts in this folder\. .*rivulet init/],
    [["serv"], /There is no command "serv"\. Did you mean rivulet serve\?/],
    [["run", "--jsn", "x"], /has no flag --jsn\. Did you mean --json\?/],
    [["run"], /rivulet run needs a prompt\. Write: rivulet run/],
    [["tasks"], /There is no store at \.rivulet\/rivulet\.db\. Run something first/],
    [
      ["watch", ...scriptedTeam, "task_none"],
      /There is no task or session "task_none"\. rivulet tasks lists/,
    ],
    [["replay", "none.jsonl"], /Cannot read none\.jsonl\. Pass a file/],
    [
      ["replay", "--speed", "fast", resolve("examples/recorded-run.jsonl")],
      /--speed must be a number/,
    ],
    [
      ["run", ...scriptedTeam, "--agent", "led", "x"],
      /There is no agent "led"\. Did you mean lead\?/,
    ],
    [
      ["run", "--workspace", "option.ts", "x"],
      /The workspace option\.ts cannot be used: it is not a folder\./,
    ],
    [
      ["run", "--workspace", "nowhere", "x"],
      /cannot be used: it does not exist\. Pass --workspace/,
    ],
    [
      ["run", "--model", "openai:gpt-5-mini", "x"],
      /has no API key: .* Set the environment variable/,
    ],
    [
      ["run", "--model", "cohere:command", "x"],
      /The package @ai-sdk\/cohere is not installed\. Run npm i @ai-sdk\/cohere\./,
    ],
    [["run", "--model", "gpt-5", "x"], /"gpt-5" must have the form "provider:model"/],
    [
      ["run", ...scriptedTeam, "--workspace", ".", "x"],
      /--workspace is for the sample team, .* Set `workspace` of the agent in the config\./,
    ],
    [["help", "serv"], /There is no command "serv"\. Did you mean rivulet serve\?/],
    [["serve", "--demo", "--port", "99999"], /--port must be a number from 0 to 65535/],
  ])("%j", async (args, line) => {
    const own = args.includes("--model") || args[0] === "watch" ? folder() : cwd;
    const { code, errors } = await rivulet(args, { cwd: own });
    expect(errors).toMatch(/^rivulet: [^\n]+\n$/);
    expect(errors).toMatch(line);
    expect(code).toBe(2);
  });

  it("a port in use", async () => {
    const server = createServer();
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const { port } = server.address() as { port: number };
    for (const args of [
      ["serve", ...scriptedTeam],
      ["serve", "--demo"],
    ]) {
      const { code, errors } = await rivulet([...args, "--port", String(port)], { cwd: folder() });
      expect(errors).toMatch(
        /^rivulet: The server cannot listen on 127\.0\.0\.1:\d+: the port is in use\. [^\n]+\n$/,
      );
      expect(code).toBe(2);
    }
    server.close();
  });

  it("a store that cannot be written", async () => {
    const blocked = folder();
    writeFileSync(join(blocked, ".rivulet"), "a file, not a folder");
    const { code, errors } = await rivulet(["run", "--workspace", folder(), "x"], { cwd: blocked });
    expect(errors).toMatch(/^rivulet: The store at [^\n]+ cannot be opened: [^\n]+\n$/);
    expect(code).toBe(2);
  });

  it("no disk space", async () => {
    const limited = folder();
    mkdirSync(join(limited, "w"));
    // The limit of the size of a file makes SQLite see a full disk.
    const script = `ulimit -f 64; exec "${process.execPath}" "${resolve("src/cli/main.ts")}" run --workspace w "hello"`;
    const child = spawn("bash", ["-c", script], {
      cwd: limited,
      stdio: ["ignore", "ignore", "pipe"],
    });
    let errors = "";
    child.stderr.on("data", (text) => (errors += text));
    const code = await new Promise((end) => child.once("close", end));
    expect(errors).toMatch(/^rivulet: The store [^\n]+(full|disk)[^\n]+\n$/);
    expect(code).toBe(2);
  });

  it("a key that the provider rejects", async () => {
    const { createServer: createHttp } = await import("node:http");
    const provider = createHttp((_, response) => {
      response.writeHead(401, { "content-type": "application/json" });
      response.end('{"error":{"message":"Incorrect API key provided: sk-wrong"}}');
    });
    await new Promise<void>((listening) => provider.listen(0, "127.0.0.1", listening));
    const { port } = provider.address() as { port: number };
    const { code, errors, output } = await rivulet(["run", "--model", "openai:gpt-5-mini", "x"], {
      cwd: folder(),
      env: { OPENAI_API_KEY: "sk-wrong", OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1` },
    });
    provider.close();
    expect(errors).toMatch(
      /^rivulet: [^\n]*rejected the API key[^\n]*Check that the key is correct[^\n]*\n$/,
    );
    expect(output + errors).not.toContain("sk-wrong");
    expect(code).toBe(2);
  });
});
