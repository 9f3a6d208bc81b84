import { utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { expect, it } from "vitest";
import { z } from "zod";
import { type Filesystem, localFilesystem, tool } from "../../../src/index.ts";
import { agentWith, systemOf, toolNames } from "./support/agent.ts";
import { put, workspaceWith } from "./support/workspace.ts";

/** Counts the operations that open a directory, in a filesystem and its layers. */
function counted(files: Filesystem, operations: string[]): Filesystem {
  const count =
    <Args extends unknown[], Result>(name: string, call: (...args: Args) => Result) =>
    (...args: Args): Result => {
      operations.push(`${name} ${args[0]}`);
      return call(...args);
    };
  return {
    ...files,
    stat: count("stat", files.stat),
    read: count("read", files.read),
    list: count("list", files.list),
    within: (namespace) => counted(files.within(namespace), operations),
  };
}

/** A file that is old enough to be cached. */
function putOld(root: string, path: string, content: string): void {
  put(root, path, content);
  utimesSync(join(root, path), 1_700_000_000, 1_700_000_000);
}

type Steps = readonly (() => unknown)[];

/** A tool that takes one of the steps. */
function changeTool(steps: Steps) {
  return tool({
    name: "change",
    description: "Edits a file.",
    input: z.object({ step: z.number() }),
    execute: async ({ step }) => void (await steps[step]?.()),
  });
}

function changesOf(steps: Steps) {
  return steps.map((_, step) => ({ call: "change", input: { step } }));
}

const reviewer = "---\ndescription: Reviews drafts.\n---\nReview.";

it.each([{}, { userId: "ann" }])(
  "opens unchanged files once for all model calls, %o",
  async (call) => {
    const root = workspaceWith();
    putOld(root, "AGENTS.md", "You are a cook.");
    putOld(root, "tools.json", '{ "deny": ["edit_file"] }');
    putOld(root, "subagents/reviewer.md", reviewer);
    const operations: string[] = [];
    const perCall: number[] = [];
    const noop = tool({ name: "noop", description: "Nothing.", execute: () => "ok" });
    const { agent, model } = agentWith(
      [{ call: "noop" }, { call: "noop" }, { call: "noop" }, "done", "again"],
      {
        filesystem: counted(localFilesystem(root), operations),
        subagents: [],
        tools: [noop],
        hooks: [
          {
            name: "count",
            priority: 1_000,
            preReasoning: () => void perCall.push(operations.length),
          },
        ],
      },
    );
    await agent.call("Hi.", call);
    await agent.call("Hi.", call);
    expect(perCall).toHaveLength(5);
    expect(perCall[0]).toBeGreaterThan(0);
    expect(new Set(perCall)).toEqual(new Set([perCall[0]]));
    for (const request of model.calls) {
      expect(systemOf(request)).toContain("You are a cook.");
      expect(systemOf(request)).toContain("- reviewer: Reviews drafts.");
      expect(toolNames(request)).not.toContain("edit_file");
    }
  },
);

it.each([{}, { userId: "ann" }])("sees every change at the next model call, %o", async (call) => {
  const root = workspaceWith();
  putOld(root, "AGENTS.md", "You are a cook.");
  putOld(root, "subagents/reviewer.md", reviewer);
  const steps = [
    () => put(root, "knowledge/KNOWLEDGE.md", "Salt is salty."),
    () => {
      // Same size, same modification time: only the change time differs.
      writeFileSync(join(root, "AGENTS.md"), "You are a poet.");
      utimesSync(join(root, "AGENTS.md"), 1_700_000_000, 1_700_000_000);
    },
    () => put(root, "subagents/reviewer.md", reviewer.replace("drafts", "poems")),
    () => put(root, "tools.json", '{ "deny": ["edit_file"] }'),
  ];
  // A change that is not made through the agent's files is noticed within 50 ms.
  const change = changeTool(steps.map((step) => () => setTimeout(60, step())));
  const { agent, model } = agentWith([...changesOf(steps), "done"], {
    workspace: root,
    subagents: [],
    tools: [change],
  });
  await agent.call("Hi.", call);
  const seen = model.calls.map((request) => [
    systemOf(request).includes("Salt is salty."),
    /You are a (cook|poet)\./.exec(systemOf(request))?.[1],
    /Reviews (\w+)/.exec(systemOf(request))?.[1],
    toolNames(request).includes("edit_file"),
  ]);
  expect(seen).toEqual([
    [false, "cook", "drafts", true],
    [true, "cook", "drafts", true],
    [true, "poet", "drafts", true],
    [true, "poet", "poems", true],
    [true, "poet", "poems", false],
  ]);
});

it("sees a user's own file, and its removal, at the next model call", async () => {
  const root = workspaceWith();
  putOld(root, "MEMORY.md", "Guests like salt.");
  const files = localFilesystem(root);
  const own = files.within({ scope: "user", id: "ann" });
  const steps = [
    () => own.write("MEMORY.md", "Ann likes tea."),
    () => own.remove("MEMORY.md"),
    () => own.write("MEMORY.md", "Ann likes milk."),
  ];
  const change = changeTool(steps);
  const { agent, model } = agentWith([...changesOf(steps), "done"], {
    filesystem: files,
    tools: [change],
    contextFiles: ["MEMORY.md"],
    memory: false,
  });
  await agent.call("Hi.", { userId: "ann" });
  const seen = model.calls.map((request) => /salt|tea|milk/.exec(systemOf(request))?.[0]);
  expect(seen).toEqual(["salt", "tea", undefined, "milk"]);
});
