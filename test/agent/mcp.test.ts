import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import type { McpConnection } from "../../src/index.ts";
import { connectMcp } from "../../src/index.ts";
import type { ScriptedRequest } from "../../src/testing/index.ts";
import { inShort, runScript } from "./support/run-script.ts";

const script = fileURLToPath(new URL("../support/mcp-server.ts", import.meta.url));
let files: McpConnection | undefined;
afterEach(() => files?.close());

async function connect(): Promise<McpConnection> {
  files = await connectMcp({ name: "test", command: process.execPath, args: [script, "stdio"] });
  return files;
}

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
