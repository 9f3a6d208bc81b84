import { spawn } from "node:child_process";
import { once } from "node:events";
import { text as streamText } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { connectMcp, HarnessAgent, type McpConnection } from "../../src/index.ts";
import { type ScriptedRequest, scriptedModel } from "../../src/testing.ts";
import { inShort, runScript } from "./support/run-script.ts";

const script = fileURLToPath(new URL("../support/mcp-server.ts", import.meta.url));
let files: McpConnection | undefined;
afterEach(() => files?.close());

async function connect(): Promise<McpConnection> {
  const server = { name: "test", command: process.execPath, args: [script, "stdio"] };
  files = await connectMcp(server, { prefix: "" });
  return files;
}

/** Runs a program with the sources; resolves with its exit code and output. */
async function runProgram(code: string) {
  const flags = ["--import", "./examples/from-source.ts", "--input-type=module-typescript"];
  const child = spawn(process.execPath, [...flags, "--eval", code], { timeout: 60_000 });
  const [stdout, stderr, [status]] = await Promise.all([
    streamText(child.stdout),
    streamText(child.stderr),
    once(child, "close"),
  ]);
  return { status, stdout, stderr };
}

describe.each(["stdio", "stdio-2026", "http", "http-2026"])(
  "a program with a server over %s",
  (mode) => {
    it("ends without close(), but not during a call", async () => {
      let place: object = { command: process.execPath, args: [script, mode] };
      if (mode.startsWith("http")) {
        const server = spawn(process.execPath, [script, mode], {
          stdio: ["ignore", "pipe", "ignore"],
        });
        onTestFinished(() => void server.kill("SIGKILL"));
        const [line] = await once(server.stdout, "data");
        place = { url: String(line).trim(), headers: { "x-token": "secret" } };
      }
      const code = `
      import { HarnessAgent } from "rivulet";
      import { scriptedModel } from "rivulet/testing";
      const agent = new HarnessAgent({
        name: "lead",
        store: "memory",
        filesystem: false,
        mcp: { test: ${JSON.stringify(place)} },
        model: scriptedModel([{ call: "test_count" }, { call: "test_grow" }, { call: "test_grown" }, "Counted."]),
      });
      console.log((await agent.call("Count.")).text);`;
      expect(await runProgram(code)).toEqual({ status: 0, stdout: "Counted.\n", stderr: "" });
    });
  },
);

it("`await using` ends the programs of a connection and of an agent", async () => {
  const server = { command: process.execPath, args: [script, "stdio"] };
  const pids: string[] = [];
  {
    await using connection = await connectMcp({ name: "test", ...server });
    const model = scriptedModel([[{ call: "test_pid" }, { call: "own_pid" }], "done"]);
    await using agent = new HarnessAgent({
      ...{ name: "lead", store: "memory", filesystem: false, model },
      ...{ mcp: { own: server }, toolSources: [connection] },
    });
    await agent.call("Go.");
    const results = model.calls[1]?.prompt.at(-1)?.content as { output: { value: string } }[];
    pids.push(...results.map(({ output }) => output.value));
    for (const pid of pids) expect(process.kill(Number(pid), 0)).toBe(true);
  }
  expect(new Set(pids).size).toBe(2);
  for (const pid of pids) expect(() => process.kill(Number(pid), 0)).toThrow();
});

describe("an agent with an MCP server", () => {
  it("sees added and removed tools at the next reasoning", async () => {
    const offers: boolean[] = [];
    const turns = [
      [{ call: "grow" }],
      [{ call: "grown" }],
      [{ call: "grow", input: { undo: true } }],
      [{ call: "grown" }],
      ["done"],
    ];
    const play = ({ tools = [], assistantCount }: ScriptedRequest) => {
      offers.push(tools.some(({ name }) => name === "grown"));
      return turns[assistantCount] ?? [];
    };
    const { reply, results } = await runScript(play, { toolSources: [await connect()] });
    expect(reply.text).toBe("done");
    expect(offers).toEqual([false, true, true, false, false]);
    expect(results.map(inShort)).toEqual([
      "success: grown",
      "success: new",
      "success: grown",
      expect.stringMatching(/^error: There is no tool "grown"/),
    ]);
  });

  it("streams the progress of a running call", async () => {
    const play = [[{ call: "count" }], "done"];
    const { events, results } = await runScript(play, { toolSources: [await connect()] });
    const [result] = results;
    expect(result).toMatchObject({ name: "count", state: "success" });
    const told = events.filter(({ type }) => type === "task.tool_result.progress");
    expect(told).toMatchObject(
      [1, 2, 3].map((progress) => ({
        call_id: result?.id,
        progress,
        total: 3,
        message: `step ${progress}`,
      })),
    );
    const done = events.findIndex(
      (event) => event.type === "task.output_item.done" && event.item.type === "tool_result",
    );
    expect(events.indexOf(told[2] as (typeof events)[number])).toBeLessThan(done);
  });
});
