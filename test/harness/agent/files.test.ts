import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { memoryStore, storeFilesystem } from "../../../src/index.ts";
import { scriptedModel } from "../../../src/testing.ts";
import { agentWith, systemOf, toolNames, toolTexts } from "./support/agent.ts";
import { workspaceWith } from "./support/workspace.ts";

const write = (path: string, content = "mine") => ({
  call: "write_file",
  input: { path, content },
});
const read = (path: string) => ({ call: "read_file", input: { path } });

describe("the files of a workspace", () => {
  it("are separate for each user", async () => {
    const workspace = workspaceWith();
    const { agent, model } = agentWith(
      [write("notes.md", "Ann's secret"), "ok", [read("notes.md"), read("/notes.md")], "ok"],
      { workspace },
    );
    await agent.call("Write.", { userId: "ann" });
    await agent.call("Read.", { userId: "bob" });
    const answers = toolTexts(model.calls[3]);
    expect(answers).toHaveLength(2);
    for (const answer of answers) expect(answer).toMatch(/There is no|outside the workspace/);
    expect(JSON.stringify(model.calls[3])).not.toContain("Ann's secret");
  });

  it("are read by every user and written by none: each user writes a copy", async () => {
    const common = { "plan.md": "Sow in May.", "notes/a.md": "May rain", "notes/b.md": "May sun" };
    const workspace = workspaceWith(common);
    const edit = {
      call: "edit_file",
      input: { path: "plan.md", old_string: "May", new_string: "June" },
    };
    const look = [
      read("plan.md"),
      { call: "list_files", input: { path: "notes" } },
      { call: "glob_files", input: { pattern: "**/*.md" } },
      { call: "grep_files", input: { pattern: "May" } },
    ];
    const { agent, model } = agentWith(
      [[edit, write("notes/b.md", "no sun"), write("notes/c.md", "wind")], look, "ok", look, "ok"],
      { workspace },
    );
    await agent.call("Change.", { userId: "ann" });
    await agent.call("Look.", { userId: "bob" });
    expect(toolTexts(model.calls[1])).toEqual([
      "Replaced 1 occurrence in plan.md.",
      "Replaced notes/b.md (6 bytes).",
      "Created notes/c.md (4 bytes).",
    ]);
    expect(toolTexts(model.calls[2]).slice(3)).toEqual([
      "     1\tSow in June.",
      "a.md (8 bytes)\nb.md (6 bytes)\nc.md (4 bytes)",
      "notes/a.md\nnotes/b.md\nnotes/c.md\nplan.md",
      "notes/a.md:1: May rain",
    ]);
    expect(toolTexts(model.calls[4])).toEqual([
      "     1\tSow in May.",
      "a.md (8 bytes)\nb.md (7 bytes)",
      "notes/a.md\nnotes/b.md\nplan.md",
      "notes/a.md:1: May rain\nnotes/b.md:1: May sun\nplan.md:1: Sow in May.",
    ]);
    for (const [path, content] of Object.entries(common)) {
      expect(readFileSync(join(workspace, path), "utf8")).toBe(content);
    }
    expect(existsSync(join(workspace, "notes/c.md"))).toBe(false);
  });

  it("are written in place without a user", async () => {
    const workspace = workspaceWith({ "plan.md": "old" });
    const { agent } = agentWith([write("plan.md", "new"), "ok"], { workspace });
    await agent.call("Write.");
    expect(readFileSync(join(workspace, "plan.md"), "utf8")).toBe("new");
  });

  it("of a subagent's directory are common too", async () => {
    const workspace = workspaceWith({
      "defs/reviewer/AGENTS.md": "You review.",
      "defs/reviewer/rules.md": "No tabs.",
    });
    const reviewer = scriptedModel(
      [[read("rules.md"), write("rules.md", "Tabs."), write("own.md")], "Done."],
      { by: "prompt" },
    );
    const { agent } = agentWith(
      [{ call: "agent_spawn", input: { agent_id: "reviewer", task: "Go." } }, "ok"],
      {
        workspace,
        subagents: [
          { name: "reviewer", description: "x", workspace: "defs/reviewer", model: reviewer },
        ],
      },
    );
    await agent.call("Review.", { userId: "ann" });
    expect(systemOf(reviewer.calls[0])).toContain("You review.");
    expect(toolTexts(reviewer.calls[1])).toEqual([
      "     1\tNo tabs.",
      "Replaced rules.md (5 bytes).",
      "Created own.md (4 bytes).",
    ]);
    expect(readFileSync(join(workspace, "defs/reviewer/rules.md"), "utf8")).toBe("No tabs.");
    const own = join(workspace, ".rivulet/namespaces/user-ann/defs/reviewer");
    expect(readdirSync(own).sort()).toEqual(["own.md", "rules.md"]);
  });

  it.each([
    ["session", { sessionId: "one" }, { sessionId: "two" }, "There is no"],
    ["agent", { userId: "ann" }, { userId: "bob" }, "shared"],
    ["global", { userId: "ann" }, { userId: "bob" }, "shared"],
  ] as const)("are shared within a scope: %s", async (isolation, writer, reader, answer) => {
    const workspace = workspaceWith();
    const script = [write("notes.md", "shared"), "ok", read("notes.md"), "ok"];
    const { agent, model } = agentWith(script, { workspace, isolation });
    await agent.call("Write.", writer);
    await agent.call("Read.", reader);
    expect(toolTexts(model.calls[3]).join()).toContain(answer);
  });

  it("cannot be written by the agent if they configure it", async () => {
    const steering = {
      "AGENTS.md": "the operator's",
      "knowledge/KNOWLEDGE.md": "the operator's",
      "defs/helper/AGENTS.md": "the operator's",
      "tools.json": '{"deny":[]}',
      "subagents/helper.md": "the operator's",
      "skills/cook/SKILL.md": "the operator's",
      "agents/helper/workspace/AGENTS.md": "the operator's",
    };
    const workspace = workspaceWith(steering);
    const paths = Object.keys(steering).flatMap((path) => [
      path,
      `./${path}`,
      `x/../${path}`,
      path.toUpperCase(),
      join(workspace, path),
    ]);
    const edits = Object.keys(steering).map((path) => ({
      call: "edit_file",
      input: { path, old_string: "operator's", new_string: "model's" },
    }));
    const created = [
      "subagents/evil.md",
      "skills/evil/SKILL.md",
      "agents/evil.md",
      "knowledge/evil.md",
    ];
    for (const options of [{}, { userId: "ann" }]) {
      const calls = [...paths, ...created].map((path) => write(path));
      const { agent, model } = agentWith([[...calls, ...edits], "ok"], { workspace });
      await agent.call("Take over.", options);
      const answers = toolTexts(model.calls[1]);
      expect(answers).toHaveLength(calls.length + edits.length);
      for (const answer of answers) {
        expect(answer).toMatch(/is read-only|outside the workspace|is not in|There is no/);
      }
    }
    for (const [path, content] of Object.entries(steering)) {
      expect(readFileSync(join(workspace, path), "utf8")).toBe(content);
    }
    for (const path of created) expect(existsSync(join(workspace, path))).toBe(false);
    const names = Object.keys(steering).map((path) => path.split("/")[0]);
    expect(readdirSync(workspace).sort()).toEqual(names.sort());
  });

  it("can be in a store", async () => {
    const store = memoryStore();
    const { agent, model } = agentWith([write("a.md", "kept"), read("a.md"), "ok"], {
      store,
      filesystem: storeFilesystem(store),
    });
    await agent.call("Write and read.", { userId: "ann" });
    expect(toolTexts(model.calls[2]).at(-1)).toContain("kept");
  });

  it("have no tools when they are switched off", async () => {
    const { agent, model } = agentWith(["ok"], { filesystem: false });
    await agent.call("Hi @notes.md.");
    expect(toolNames(model.calls[0])).toEqual([]);
  });
});
