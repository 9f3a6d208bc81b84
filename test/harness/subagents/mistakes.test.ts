import { describe, expect, it } from "vitest";
import type { HarnessAgentOptions, SubagentDeclaration } from "../../../src/index.ts";
import { tool } from "../../../src/index.ts";
import { agentWith, toolTexts } from "../agent/support/agent.ts";
import { workspaceWith } from "../agent/support/workspace.ts";

const base = { name: "reviewer", description: "Reviews." };
const read = tool({ name: "read", description: "Reads.", execute: () => "" });
const spawn = { call: "agent_spawn", input: { agent_id: "reviewer", task: "Go." } };

/** Nests a declaration below another. */
const below = (inner: SubagentDeclaration): SubagentDeclaration => ({
  name: "outer",
  description: "Delegates.",
  leaf: false,
  subagents: [inner],
});

function construct(subagent: SubagentDeclaration, options: Partial<HarnessAgentOptions>) {
  return () => agentWith([], { subagents: [subagent], ...options });
}

describe("the constructor rejects a subagent", () => {
  it.each(["../x", "a/../../x", "~root", "C:\\x", "subagents", "agents"])(
    "with the workspace %j",
    (path) => {
      const subagent = { ...base, workspace: path };
      for (const declaration of [subagent, below(subagent)]) {
        expect(construct(declaration, { workspace: workspaceWith() })).toThrow(
          expect.objectContaining({
            code: "invalid_settings",
            message: expect.stringContaining(
              `The subagent reviewer has workspace ${JSON.stringify(path)}: `,
            ),
            hint: expect.stringContaining("inside the workspace"),
          }),
        );
      }
    },
  );

  it("with a workspace if the agent has no files", () => {
    expect(construct({ ...base, workspace: "defs" }, { filesystem: false })).toThrow(
      'The subagent reviewer has workspace "defs", and the agent has no files.',
    );
  });

  it.each(["raed", "raed_*", "agent_spawn"])(
    "with the pattern %j, which matches no tool",
    (one) => {
      const subagent = { ...base, tools: ["read", one] };
      for (const declaration of [subagent, below(subagent)]) {
        expect(construct(declaration, { filesystem: false, tools: [read] })).toThrow(
          expect.objectContaining({
            code: "invalid_settings",
            message: `The subagent reviewer has ${JSON.stringify(one)} in tools, which matches no tool.`,
          }),
        );
      }
    },
  );

  it("and accepts patterns that match a tool of its caller, a file tool or any tool", () => {
    const tools = ["read", "read_f*", "*"];
    const workspace = workspaceWith();
    construct({ ...base, tools }, { workspace, toolsFile: false, tools: [read] })();
    construct({ ...base, tools: ["*"] }, { filesystem: false })();
  });
});

describe("a pattern that may match a tool of an MCP server later", () => {
  it("is a warning before the first model call, once, for code and files", async () => {
    const warnings: string[] = [];
    const { agent } = agentWith(["ok", "ok"], {
      workspace: workspaceWith({
        "subagents/writer.md": "---\ndescription: Writes.\ntools: wirte_file, read_file\n---\n",
      }),
      subagents: [{ ...base, tools: ["wiki_*", "read_file"] }],
      onWarning: (message) => warnings.push(message),
    });
    await agent.call("Hi.");
    await agent.call("Hi.");
    expect(warnings).toEqual([
      'The subagent reviewer has "wiki_*" in tools, which matches no tool.',
      'The subagent writer has "wirte_file" in tools, which matches no tool.',
    ]);
  });
});

it.each([undefined, null, {}, "agent"])("reports a create that returns %j", async (made) => {
  const { agent, model } = agentWith([spawn, "ok"], {
    filesystem: false,
    subagents: [{ ...base, create: () => made as never }],
  });
  await agent.call("Go.");
  const [answer] = toolTexts(model.calls[1]);
  expect(answer).toContain("create of the subagent reviewer returned");
});

it("warns about a declaration file with thousands of unknown keys a few times", async () => {
  const keys = Array.from({ length: 6_790 }, (_, index) => `k${index}: 1`).join("\n");
  const warnings: string[] = [];
  const { agent } = agentWith(["ok", "ok"], {
    workspace: workspaceWith({ "subagents/a.md": `---\ndescription: A.\n${keys}\n---\n` }),
    subagents: [],
    onWarning: (message) => warnings.push(message),
  });
  await agent.call("Hi.");
  await agent.call("Hi.");
  expect(warnings).toHaveLength(6);
});
