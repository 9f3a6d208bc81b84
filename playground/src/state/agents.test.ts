import { emptyTree, type Task, type Tree, taskOf } from "rivulet/protocol";
import { describe, expect, it } from "vitest";
import { lastWords, waitingText } from "./agents.ts";

const running: Omit<Task, "id"> = {
  ...{ status: "in_progress", output: [], children: [], approvals: [], appliedSeq: 0 },
};

/** A tree of a lead that writes `text`, or waits for its children. */
function treeOf(text: string, children: readonly string[] = []): Tree {
  const block = { type: "text" as const, text };
  const message = {
    ...{ type: "message" as const, id: "m", role: "assistant" as const },
    ...{ status: "in_progress" as const, block_list: [block] },
  };
  const lead: Task = { ...running, id: "lead", output: [message], children };
  const tasks = children.map((id): Task => ({ ...running, id, agentId: id, parentTaskId: "lead" }));
  const all = [lead, ...tasks].map((task) => [task.id, task] as const);
  return { ...emptyTree(), rootId: "lead", tasks: Object.fromEntries(all) };
}

const words = (text: string) => {
  const tree = treeOf(text);
  const lead = taskOf(tree, "lead");
  return lead && lastWords(tree, lead);
};

describe("lastWords", () => {
  it.each([
    ["I call `read_file` and **wait** for it", "I call read_file and wait for it"],
    ["_This_ is __all__ of snake_case_names", "This is all of snake_case_names"],
    ["# Rivers\n\n- one\n- two", "Rivers one two"],
    ["3 > 2, and C# is a name", "3 > 2, and C# is a name"],
  ])("shows %j without its syntax", (text, shown) => {
    expect(words(text)).toBe(shown);
  });
});

describe("waitingText", () => {
  it.each([
    [["ann"], "waits for ann"],
    [["ann", "bob"], "waits for ann and bob"],
    [["ann", "bob", "carl"], "waits for ann, bob and carl"],
    [["ann", "bob", "carl", "dora"], "waits for 4 agents"],
  ])("names %j", (names, text) => {
    const tree = treeOf("", names);
    const lead = taskOf(tree, "lead");
    expect(lead && waitingText(tree, lead)).toBe(text);
  });
});
