import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { memoryStore, storeFilesystem } from "../../../src/index.ts";
import { agentWith, toolNames, toolTexts } from "./support/agent.ts";
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
    const created = ["subagents/evil.md", "skills/evil/SKILL.md", "agents/evil.md"];
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
    expect(readdirSync(workspace).sort()).toEqual(["agents", "skills", "subagents", "tools.json"]);
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
