import { describe, expect, it } from "vitest";
import type { HarnessAgentOptions } from "../../../src/index.ts";
import { localFilesystem, tool } from "../../../src/index.ts";
import { agentWith, systemOf, toolNames } from "./support/agent.ts";
import { workspaceWith } from "./support/workspace.ts";

describe("the constructor rejects", () => {
  const noFiles = { filesystem: false } as const;
  it.each<[string, Partial<HarnessAgentOptions>]>([
    ["a workspace and a filesystem", { workspace: "a", filesystem: localFilesystem("b") }],
    ["a workspace and no files", { workspace: "a", ...noFiles }],
    ["a workspace without a path", { workspace: "" }],
    ["an unknown isolation", { ...noFiles, isolation: "family" as never }],
    ["context files without files", { ...noFiles, contextFiles: ["a.md"] }],
    ["a tools file without files", { ...noFiles, toolsFile: {} }],
    ["no room", { ...noFiles, maxContextTokens: 0 }],
    ["half a token", { ...noFiles, maxContextTokens: 1.5 }],
    [
      "a rule on the text of a command",
      { ...noFiles, permissions: { deny: [{ tool: "execute", input: { command: "rm *" } }] } },
    ],
    ["more than a transcript keeps", { ...noFiles, eviction: { maxChars: 80_001 } }],
  ])("%s", (_, options) => {
    expect(() => agentWith([], options)).toThrow(
      expect.objectContaining({ code: "invalid_settings", hint: expect.any(String) }),
    );
  });

  it("an MCP server without command or url", () => {
    expect(() => agentWith([], { ...noFiles, mcp: { wiki: {} as never } })).toThrow(
      expect.objectContaining({ code: "invalid_mcp_server" }),
    );
  });

  it("a tool with the name of a file tool", () => {
    const mine = tool({ name: "read_file", description: "Mine.", execute: () => "" });
    expect(() => agentWith([], { workspace: workspaceWith(), tools: [mine] })).toThrow(
      expect.objectContaining({ code: "duplicate_tool" }),
    );
  });
});

it("is a ReActAgent with every piece switched off", async () => {
  const { agent, model } = agentWith(["ok"], {
    systemPrompt: "Be brief.",
    filesystem: false,
    contextFiles: false,
    attachments: false,
    eviction: false,
    mcp: false,
    toolsFile: false,
    subagents: false,
  });
  expect((await agent.call("Hi @AGENTS.md.")).text).toBe("ok");
  expect(toolNames(model.calls[0])).toEqual([]);
  expect(systemOf(model.calls[0])).toBe("Be brief.");
});

it("accepts a replacement for every piece", async () => {
  const seen: string[] = [];
  const note = tool({ name: "note", description: "Notes.", execute: () => "noted" });
  const { agent } = agentWith([{ call: "note" }, "ok"], {
    filesystem: localFilesystem(workspaceWith({ "AGENTS.md": "persona" })),
    tools: [note],
    contextFiles: { name: "my-context", preReasoning: () => void seen.push("context") },
    eviction: { name: "my-eviction", postActing: () => void seen.push("eviction") },
    attachments(messages) {
      seen.push("attachments");
      return messages;
    },
  });
  await agent.call("Hi.");
  expect(seen).toEqual(["attachments", "context", "eviction", "context"]);
});
