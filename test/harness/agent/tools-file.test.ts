import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import type { HarnessAgent } from "../../../src/index.ts";
import { memoryStore, tool } from "../../../src/index.ts";
import { agentWith, systemOf, toolNames, toolTexts } from "./support/agent.ts";
import { put, workspaceWith } from "./support/workspace.ts";

const program = {
  command: process.execPath,
  args: [join(import.meta.dirname, "../../support/mcp-server.ts"), "stdio"],
};
const variable = (name: string) => `\${${name}}`;
const workspaceOf = (file: unknown) =>
  workspaceWith({ "tools.json": typeof file === "string" ? file : JSON.stringify(file) });
function closed(agent: HarnessAgent): HarnessAgent {
  onTestFinished(() => agent.close());
  return agent;
}

describe("tools.json", () => {
  it("adds the tools of MCP servers", async () => {
    const workspace = workspaceOf({ mcpServers: { test: program } });
    const script = [{ call: "test_echo", input: { text: "hello" } }, "ok"];
    const { agent, model } = agentWith(script, { workspace });
    await closed(agent).call("Go.");
    expect(toolNames(model.calls[0])).toContain("test_echo");
    expect(toolNames(model.calls[0])).toContain("read_file");
    expect(toolTexts(model.calls[1])).toEqual(["hello"]);
  });

  it("allows and denies tools from all sources", async () => {
    const workspace = workspaceOf({
      mcpServers: { test: { ...program, prefix: "" } },
      allow: ["e*", "read_*"],
      deny: ["edit_file"],
    });
    const { agent, model } = agentWith([{ call: "write_file", input: {} }, "ok"], { workspace });
    await closed(agent).call("Go.");
    expect(toolNames(model.calls[0])).toEqual(["read_file", "echo"]);
    expect(toolTexts(model.calls[1])[0]).toContain('There is no tool "write_file"');
  });

  it("removes the prompt about subagents with agent_spawn", async () => {
    const workspace = workspaceOf({ deny: ["agent_spawn"] });
    const change = tool({
      name: "change",
      description: "The operator edits the file.",
      execute: () => put(workspace, "tools.json", "{}"),
    });
    const options = { workspace, tools: [change], subagents: [] };
    const { agent, model } = agentWith([{ call: "change" }, "ok"], options);
    await agent.call("Go.");
    const [before, after] = model.calls;
    expect(toolNames(before)).not.toContain("agent_spawn");
    expect(systemOf(before)).not.toContain("agent_spawn");
    expect(toolNames(after)).toContain("agent_spawn");
    expect(systemOf(after)).toContain("# Delegation");
  });

  it("is read again after a change, even within one run", async () => {
    const workspace = workspaceOf({ deny: ["write_file"] });
    const change = tool({
      name: "change",
      description: "The operator edits the file.",
      execute: () => put(workspace, "tools.json", '{ "deny": ["*_files"] }'),
    });
    const { agent, model } = agentWith([{ call: "change" }, "ok"], { workspace, tools: [change] });
    await agent.call("Go.");
    expect(toolNames(model.calls[0])).not.toContain("write_file");
    expect(toolNames(model.calls[1])).toContain("write_file");
    expect(toolNames(model.calls[1])).not.toContain("grep_files");
  });

  it("tells the model about an unreachable server and continues", async () => {
    const workspace = workspaceOf({
      mcpServers: { gone: { command: "no-such-program" }, test: program },
    });
    const { agent, model } = agentWith(["ok"], { workspace });
    const { text } = await closed(agent).call("Go.");
    expect(text).toBe("ok");
    expect(systemOf(model.calls[0])).toMatch(/\[The MCP server gone cannot be reached, .*\]/);
    expect(toolNames(model.calls[0])).toContain("test_echo");
  });

  it("starts no server in the constructor or with mcp: false", async () => {
    const marker = join(workspaceWith(), "started");
    const touch = {
      command: process.execPath,
      args: ["-e", `fs.writeFileSync(${JSON.stringify(marker)}, "")`],
    };
    const workspace = workspaceOf({ mcpServers: { touch } });
    const { agent } = agentWith(["ok"], { workspace, mcp: false });
    await agent.call("Go.");
    const { agent: other } = agentWith(["ok"], { workspace });
    expect(existsSync(marker)).toBe(false);
    await closed(other).call("Go.");
    expect(existsSync(marker)).toBe(true);
  });

  it.each([
    ["invalid JSON", "{", /^tools\.json: .*JSON/],
    ["an unknown field", { mcp: {} }, /mcp/],
    ["a server without a command", { mcpServers: { a: {} } }, /mcpServers\.a\.command: /],
    ["a bad address", { mcpServers: { a: { url: "nowhere" } } }, /mcpServers\.a\.url: /],
    [
      "an argument that is not a string",
      { mcpServers: { a: { command: "a", args: [1] } } },
      /a\.args\.0/,
    ],
    ["a pattern that is not a string", { deny: [7] }, /deny\.0: /],
    [
      "an unknown variable",
      { mcpServers: { a: { command: "a", env: { TOKEN: variable("HOME") } } } },
      /mcpServers\.a\.env\.TOKEN: there is no variable HOME/,
    ],
    [
      "a server that is also defined in code",
      { mcpServers: { test: program } },
      /mcpServers\.test is/,
    ],
  ])("throws an error with the place of %s", async (_, file, message) => {
    const { agent, model } = agentWith(["ok"], {
      workspace: workspaceOf(file),
      mcp: { test: { command: "no-such-program" } },
    });
    const failure = await closed(agent)
      .call("Go.")
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({
      code: "invalid_tools_file",
      message: expect.stringMatching(message),
    });
    expect(model.calls).toEqual([]);
  });

  it("gets secrets only from the variables option", async () => {
    const out = join(workspaceWith(), "token");
    const script = "fs.writeFileSync(process.env.OUT, process.env.TOKEN)";
    const env = { OUT: out, TOKEN: `Bearer ${variable("TOKEN")}` };
    const a = { command: process.execPath, args: ["-e", script], env };
    const { agent, model } = agentWith(["ok"], {
      workspace: workspaceOf({ mcpServers: { a } }),
      toolsFile: { variables: { TOKEN: "s3cret" } },
    });
    await closed(agent).call("Go.");
    expect(readFileSync(out, "utf8")).toBe("Bearer s3cret");
    expect(JSON.stringify(model.calls[0])).not.toContain("s3cret");
  });

  it("is not read with toolsFile: false", async () => {
    const workspace = workspaceOf("{");
    const { agent } = agentWith(["ok"], { workspace, toolsFile: false });
    expect((await agent.call("Go.")).text).toBe("ok");
  });
});

it("runs a suspended MCP call in a new process", async () => {
  const options = {
    workspace: workspaceOf({ mcpServers: { test: program } }),
    store: memoryStore(),
    permissions: { ask: ["test_*"] },
  };
  const { agent } = agentWith([{ call: "test_echo", input: { text: "hello" } }], options);
  const { approvals, task } = await closed(agent).call("Go.");
  const { agent: next, model } = agentWith(["ok"], options);
  const answers = approvals.map((asked) => asked.approve());
  await closed(next).call(answers, { sessionId: task.sessionId });
  expect(toolTexts(model.calls[0])).toEqual(["hello"]);
});

describe("servers in code", () => {
  it("work without a file and restart after close", async () => {
    const { agent, model } = agentWith([{ call: "test_pid" }, "ok", { call: "test_pid" }, "ok"], {
      filesystem: false,
      mcp: { test: program },
    });
    await agent.call("Go.");
    await agent.close();
    await closed(agent).call("Go.");
    const [first, second] = [toolTexts(model.calls[1])[0], toolTexts(model.calls[3]).at(-1)];
    expect(Number(first)).toBeGreaterThan(0);
    expect(Number(second)).toBeGreaterThan(0);
    expect(second).not.toBe(first);
    expect(() => process.kill(Number(first), 0)).toThrow();
  });
});
