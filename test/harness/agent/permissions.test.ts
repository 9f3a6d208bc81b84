import { existsSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { type Agent, agentTool, HarnessAgent, memoryStore, tool } from "../../../src/index.ts";
import { scriptedModel } from "../../../src/testing.ts";
import { agentWith, toolTexts } from "./support/agent.ts";
import { workspaceWith } from "./support/workspace.ts";

const write = (path: string) => ({ call: "write_file", input: { path, content: "model's" } });

describe("rules on a path", () => {
  const spellings = (workspace: string, path: string) => [
    path,
    `./${path}`,
    `x/../${path}`,
    `${path}/`,
    `${path}/.`,
    path.replace("/", "//"),
    `/${path}`,
    `${workspace}/${path}`,
    `${workspace}/x/../${path}`,
    path.replace("/", "\\"),
    `.\\${path}`,
  ];

  it.each([{}, { userId: "ann" }])("deny every spelling of it, called with %j", async (caller) => {
    const workspace = workspaceWith({ "secret/key": "hush" });
    const paths = [
      ...spellings(workspace, "secret/key"),
      `${workspace}/.rivulet/namespaces/user-ann/secret/key`,
    ];
    const permissions = { deny: [{ tool: "*_file", input: { path: "secret/*" } }] };
    const calls = paths.flatMap((path) => [{ call: "read_file", input: { path } }, write(path)]);
    const { agent, model } = agentWith([calls, "ok"], { workspace, permissions });
    const reply = await agent.call("Read.", caller);
    expect(reply.text).toBe("ok");
    const answers = toolTexts(model.calls[1]);
    expect(answers).toHaveLength(calls.length);
    for (const answer of answers) {
      expect(answer).toMatch(/A rule forbids|outside the workspace|has a backslash|is reserved/);
    }
    expect(answers.filter((answer) => answer.includes("A rule forbids")).length).toBeGreaterThan(
      15,
    );
    expect(readFileSync(join(workspace, "secret/key"), "utf8")).toBe("hush");
  });

  it("ask for every spelling of it, and show the normalized path", async () => {
    const workspace = workspaceWith({ "yarn.lock": "the operator's" });
    const ask = [{ tool: "write_file", input: { path: "*.lock" } }];
    for (const path of spellings(workspace, "yarn.lock")) {
      const { agent } = agentWith([write(path), "ok"], { workspace, permissions: { ask } });
      const reply = await agent.call("Write.");
      const shown = reply.approvals.map(({ call }) => call.input);
      const isRefused = path.includes("\\") || path === "/yarn.lock";
      expect(shown, path).toEqual(isRefused ? [] : [{ path: "yarn.lock", content: "model's" }]);
    }
    expect(readFileSync(join(workspace, "yarn.lock"), "utf8")).toBe("the operator's");
  });

  it("allow only what a tool of the user normalizes to a match", async () => {
    const publish = tool({
      name: "publish",
      description: "Publishes.",
      input: z.object({ file: z.string() }),
      paths: { file: (path) => posix.normalize(path) },
      needsApproval: true,
      execute: ({ file }) => `published ${file}`,
    });
    const calls = ["out/../key", "./out/x"].map((file) => ({ call: "publish", input: { file } }));
    const { agent } = agentWith([calls, "ok"], {
      filesystem: false,
      tools: [publish],
      permissions: { allow: [{ tool: "publish", input: { file: "out/*" } }] },
    });
    const { approvals } = await agent.call("Publish.");
    expect(approvals.map(({ call }) => call.input)).toEqual([{ file: "key" }]);
  });
});

describe("the ask and deny rules of an agent", () => {
  const permissions = {
    ask: [{ tool: "write_file", input: { path: "*.lock" } }],
    deny: [{ tool: "write_file", input: { path: "secret/*" } }],
  };
  const looser = { allow: ["*"] };
  const calls = [write("./yarn.lock"), write("x/../secret/key")];
  const writer = () => scriptedModel([calls, "Written."], { by: "prompt" });
  const spawn = (agent_id: string) => ({ call: "agent_spawn", input: { agent_id, task: "Go." } });

  /** Expects that the child asks for one path and may not write the other, and that denying changes nothing. */
  async function expectAsked(agent: Agent, workspace: string): Promise<void> {
    const reply = await agent.call("Go.", { sessionId: "s" });
    expect(reply.generateReason).toBe("approval_required");
    const { approvals } = reply;
    expect(approvals.map(({ call }) => call.input)).toEqual([
      { path: "yarn.lock", content: "model's" },
    ]);
    const { text } = await agent.call(
      approvals.map((approval) => approval.deny()),
      { sessionId: "s" },
    );
    expect(text).toBe("ok");
    for (const path of ["yarn.lock", "secret/key"]) {
      expect(existsSync(join(workspace, path)), path).toBe(false);
    }
  }

  it("hold in a declared subagent, which cannot loosen them", async () => {
    const workspace = workspaceWith();
    const { agent } = agentWith([spawn("writer"), "ok"], {
      workspace,
      permissions,
      subagents: [
        {
          name: "writer",
          description: "Writes.",
          workspaceMode: "shared",
          model: writer(),
          permissions: looser,
        },
      ],
    });
    await expectAsked(agent, workspace);
  });

  it("hold in general-purpose", async () => {
    const workspace = workspaceWith();
    const isChild = (system: string) => system.includes("# Subagent Context");
    const model = scriptedModel(({ prompt, assistantCount }) => {
      const [first] = prompt;
      if (first?.role === "system" && isChild(first.content)) {
        return assistantCount === 0 ? calls : "Written.";
      }
      return assistantCount === 0 ? [spawn("general-purpose")] : "ok";
    });
    const store = memoryStore();
    await expectAsked(
      new HarnessAgent({ name: "lead", model, store, workspace, permissions }),
      workspace,
    );
  });

  it("hold in a grandchild, and for a task that agent_send gives", async () => {
    const workspace = workspaceWith();
    const middle = scriptedModel(
      [
        { call: "agent_spawn", input: { agent_id: "writer", label: "w" } },
        { call: "agent_send", input: { label: "w", message: "Go." } },
        "Done.",
      ],
      { by: "prompt" },
    );
    const { agent } = agentWith([spawn("middle"), "ok"], {
      workspace,
      permissions,
      subagents: [
        {
          name: "middle",
          description: "Delegates.",
          workspaceMode: "shared",
          model: middle,
          leaf: false,
          subagents: [
            { name: "writer", description: "Writes.", workspaceMode: "shared", model: writer() },
          ],
        },
      ],
    });
    await expectAsked(agent, workspace);
  });

  it("hold in an agent that is a tool", async () => {
    const workspace = workspaceWith();
    const inner = agentWith([calls, "Written."], { workspace, permissions: looser }).agent;
    const tools = [agentTool(inner, { name: "writer", description: "Writes." })];
    const { agent } = agentWith([{ call: "writer", input: { prompt: "Go." } }, "ok"], {
      workspace,
      permissions,
      tools,
    });
    await expectAsked(agent, workspace);
  });
});
