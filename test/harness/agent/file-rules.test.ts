import { describe, expect, it } from "vitest";
import { agentTool, type Permissions } from "../../../src/index.ts";
import { scriptedModel } from "../../../src/testing.ts";
import { agentWith, systemOf, toolTexts, userTexts } from "./support/agent.ts";
import { workspaceWith } from "./support/workspace.ts";

const secret = "the-launch-code";
const files = {
  "secret/key.txt": `${secret}\n`,
  "secret/AGENTS.md": `Say ${secret}.`,
  "plan.md": "Sow the seeds.\n",
};
const onPath: Permissions = { deny: [{ tool: "*", input: { path: "secret/*" } }] };
const denials: readonly (readonly [string, Permissions])[] = [
  ["a path of every tool", onPath],
  ["a path of read_file", { deny: [{ tool: "read_file", input: { path: "secret/*" } }] }],
  ["read_file", { deny: ["read_file"] }],
];
const nothing: (typeof denials)[number] = ["nothing", {}];
const promptOf = (request: unknown) => JSON.stringify((request as { prompt: unknown }).prompt);

describe("a task that a model writes", () => {
  it.each([nothing, ...denials])("attaches no file, with a rule on %s", async (_, rules) => {
    const reader = scriptedModel(["Read.", "Read again."]);
    const task = "See @secret/key.txt and @plan.md";
    const { agent } = agentWith(
      [
        { call: "agent_spawn", input: { agent_id: "reader", task, label: "r" } },
        { call: "agent_send", input: { label: "r", message: "Again @secret/key.txt @plan.md" } },
        "ok",
      ],
      {
        workspace: workspaceWith(files),
        permissions: rules,
        subagents: [
          { name: "reader", description: "Reads.", workspaceMode: "shared", model: reader },
        ],
      },
    );
    expect((await agent.call("Go.")).text).toBe("ok");
    expect(reader.calls).toHaveLength(2);
    expect(userTexts(reader.calls[1])).toEqual([task, "Again @secret/key.txt @plan.md"]);
  });

  it("attaches no file in an agent that is a tool, which attaches those of people", async () => {
    const workspace = workspaceWith(files);
    const { agent: inner, model } = agentWith(["Read.", "Read."], { workspace });
    const { agent } = agentWith([{ call: "reader", input: { prompt: "See @plan.md" } }, "ok"], {
      workspace,
      tools: [agentTool(inner, { name: "reader", description: "Reads." })],
    });
    await agent.call("Go.");
    expect(userTexts(model.calls[0])).toEqual(["See @plan.md"]);
    await inner.call("See @plan.md");
    expect(promptOf(model.calls[1])).toContain("Sow the seeds.");
  });
});

describe("a file that a rule denies", () => {
  it.each(denials)("is not attached to a person's message, with a rule on %s", async (_, rules) => {
    const { agent, model } = agentWith(["ok"], {
      workspace: workspaceWith(files),
      permissions: rules,
    });
    await agent.call("See @secret/key.txt");
    expect(promptOf(model.calls[0])).not.toContain(secret);
    const isNoted = promptOf(model.calls[0]).includes("@secret/key.txt is not attached: A rule");
    expect(isNoted).toBe(rules.deny?.includes("read_file"));
  });

  it("is attached if the rule only asks, because a person has named it", async () => {
    const { agent, model } = agentWith(["ok"], {
      workspace: workspaceWith(files),
      permissions: { ask: ["read_file"] },
    });
    await agent.call("See @secret/key.txt");
    expect(promptOf(model.calls[0])).toContain(secret);
  });

  const searches = [
    { call: "grep_files", input: { pattern: "." } },
    { call: "grep_files", input: { pattern: "code", path: "secret" } },
    { call: "glob_files", input: { pattern: "**/*" } },
    { call: "glob_files", input: { pattern: "*", path: "secret" } },
    { call: "list_files", input: { path: "secret" } },
  ];
  it.each([{}, { userId: "ann" }])(
    "is left out of searches and lists, called with %j",
    async (caller) => {
      const { agent, model } = agentWith([searches, "ok"], {
        workspace: workspaceWith(files),
        permissions: onPath,
      });
      await agent.call("Search.", caller);
      const answers = toolTexts(model.calls[1]);
      expect(answers).toEqual([
        "plan.md:1: Sow the seeds.",
        "(no matches)",
        "plan.md",
        "(no files)",
        "(no entries)",
      ]);
    },
  );

  it("is left out of searches of the text, and still listed, with a rule on read_file alone", async () => {
    const { agent, model } = agentWith([searches, "ok"], {
      workspace: workspaceWith(files),
      permissions: { deny: ["read_file"] },
    });
    await agent.call("Search.");
    const [grep, , glob] = toolTexts(model.calls[1]);
    expect(grep).toBe("(no matches)");
    expect(glob).toContain("secret/key.txt");
  });

  it("is left out of a search that nobody approved, with a rule that asks", async () => {
    const ask = [{ tool: "*", input: { path: "secret*" } }];
    const { agent, model } = agentWith([searches.slice(0, 2), "ok"], {
      workspace: workspaceWith(files),
      permissions: { ask },
    });
    const { approvals, task } = await agent.call("Search.");
    expect(approvals).toHaveLength(1);
    await agent.call(
      approvals.map((approval) => approval.approve()),
      { sessionId: task.sessionId },
    );
    const [everywhere, approved] = toolTexts(model.calls[1]);
    expect(everywhere).toBe("plan.md:1: Sow the seeds.");
    expect(approved).toContain(`secret/key.txt:1: ${secret}`);
  });

  it("cannot be guessed by edits", async () => {
    const edits = ["the-launch", "nonsense"].map((old_string) => ({
      call: "edit_file",
      input: { path: "secret/key.txt", old_string, new_string: "x" },
    }));
    const { agent, model } = agentWith([edits, "ok"], {
      workspace: workspaceWith(files),
      permissions: { deny: [{ tool: "read_file", input: { path: "secret/*" } }] },
    });
    await agent.call("Edit.");
    const [hit, miss] = toolTexts(model.calls[1]);
    expect(hit).toContain("A rule forbids reading");
    expect(hit).toBe(miss);
  });

  it("gives no instructions for its directory", async () => {
    const calls = [{ call: "read_file", input: { path: "secret/key.txt" } }];
    const prompts = async (permissions: Permissions) => {
      const workspace = workspaceWith(files);
      const { agent, model } = agentWith([calls, "ok"], { workspace, permissions });
      await agent.call("Read.");
      return promptOf(model.calls[1]);
    };
    expect(await prompts({})).toContain(`Say ${secret}.`);
    expect(await prompts(onPath)).not.toContain(secret);
  });

  it("is not in the context of a child whose parent has read it", async () => {
    const workspace = workspaceWith({ "AGENTS.md": "Be kind.", "secret/facts.md": secret });
    const contextFiles = ["AGENTS.md", "secret/facts.md"];
    const { agent: inner, model } = agentWith(["Read.", "Read."], { workspace, contextFiles });
    await inner.call("Hello.");
    expect(systemOf(model.calls[0])).toContain(secret);
    const { agent } = agentWith([{ call: "reader", input: { prompt: "Hello." } }, "ok"], {
      filesystem: false,
      permissions: onPath,
      tools: [agentTool(inner, { name: "reader", description: "Reads." })],
    });
    await agent.call("Go.");
    expect(systemOf(model.calls[1])).toContain("Be kind.");
    expect(systemOf(model.calls[1])).not.toContain(secret);
  });

  it("is not in the memory of the task, however its path is written", async () => {
    const get = (path: string) => ({ call: "memory_get", input: { path } });
    const { agent, model } = agentWith(
      [
        [
          get("memory/2030-01-01.md"),
          get("./memory//2030-01-01.md"),
          { call: "memory_search", input: { query: "launch" } },
        ],
        "ok",
      ],
      {
        workspace: workspaceWith({
          "MEMORY.md": "- Ann likes tea.\n",
          "memory/2030-01-01.md": `- The launch needs ${secret}.\n`,
        }),
        permissions: { deny: [{ tool: "*", input: { path: "memory/*" } }] },
      },
    );
    await agent.call("Remember.");
    expect(promptOf(model.calls[0])).toContain("Ann likes tea.");
    expect(promptOf(model.calls[1])).not.toContain(secret);
    expect(toolTexts(model.calls[1]).slice(0, 2)).toEqual([
      expect.stringContaining("A rule forbids"),
      expect.stringContaining("A rule forbids"),
    ]);
  });

  it("is no skill, and no file of a skill", async () => {
    const skill = (name: string) => `---\nname: ${name}\ndescription: Does ${name}.\n---\nDo it.`;
    const load = (name: string, path?: string) => ({
      call: "load_skill",
      input: { name, ...(path && { path }) },
    });
    const { agent, model } = agentWith(
      [[load("open"), load("open", "private/key.txt"), load("closed")], "ok"],
      {
        workspace: workspaceWith({
          "skills/open/SKILL.md": skill("open"),
          "skills/open/private/key.txt": secret,
          "skills/closed/SKILL.md": skill("closed"),
        }),
        permissions: {
          deny: [
            { tool: "*", input: { path: "skills/closed/*" } },
            { tool: "*", input: { path: "*/private/*" } },
          ],
        },
      },
    );
    await agent.call("Work.");
    expect(systemOf(model.calls[0])).toContain("Does open.");
    expect(systemOf(model.calls[0])).not.toContain("closed");
    const [opened, file, closed] = toolTexts(model.calls[1]);
    expect(opened).toContain("Do it.");
    expect(opened).not.toContain("private");
    expect(file).toContain("A rule forbids reading");
    expect(closed).toContain("There is no skill");
  });
});
