import { emptyTree, type Task, type Tree } from "rivulet/protocol";
import { describe, expect, it } from "vitest";
import { mentionedBy, mentionOf, readMention } from "./mentions.ts";

/** A lead with two researchers, each with a critic, and one writer. */
function team(ended: readonly string[] = []): Tree {
  const task = (id: string, agentId: string, parent?: string, children: string[] = []): Task => ({
    ...{ id, agentId, children, output: [], approvals: [], appliedSeq: 0 },
    status: ended.includes(id) ? "completed" : "in_progress",
    ...(parent !== undefined && { parentTaskId: parent }),
  });
  const all = [
    task("l", "lead", undefined, ["r1", "r2", "w"]),
    task("r1", "researcher", "l", ["c1"]),
    task("r2", "researcher", "l", ["c2"]),
    task("w", "writer", "l"),
    task("c1", "critic", "r1"),
    task("c2", "critic", "r2"),
  ];
  const tasks = Object.fromEntries(all.map((one) => [one.id, one]));
  return { ...emptyTree(), rootId: "l", tasks };
}
const idsOf = (tasks: readonly Task[]) => tasks.map(({ id }) => id);

describe("mentionOf", () => {
  it("gives every agent a name of its own, without spaces", () => {
    const tree = team();
    const names = Object.keys(tree.tasks).map((id) => mentionOf(tree, id));
    expect(names).toEqual([
      ...["lead", "researcher-1", "researcher-2", "writer"],
      ...["researcher-1/critic", "researcher-2/critic"],
    ]);
  });

  it("tells the children of two agents apart that share every name above them", () => {
    const tree = team();
    const { c1, c2, ...rest } = tree.tasks;
    const deep = (id: string, parent: string) => ({ ...(c1 as Task), id, parentTaskId: parent });
    const tasks = { ...rest, c1, c2, d1: deep("d1", "c1"), d2: deep("d2", "c2") } as Tree["tasks"];
    const all = Object.keys(tasks).map((id) => mentionOf({ ...tree, tasks }, id));
    expect(new Set(all).size).toBe(all.length);
  });
});

describe("mentionedBy", () => {
  it("lists both critics for their common name, and one for its own", () => {
    expect(idsOf(mentionedBy(team(), "crit"))).toEqual(["c1", "c2"]);
    expect(idsOf(mentionedBy(team(), "researcher-2/c"))).toEqual(["c2"]);
    expect(idsOf(mentionedBy(team(), "RESEARCHER-1"))).toEqual(["r1", "c1"]);
  });

  it("lists no agent that has ended", () => {
    expect(idsOf(mentionedBy(team(["c1"]), "critic"))).toEqual(["c2"]);
  });
});

describe("readMention", () => {
  it("finds the agent of a text, and the text", () => {
    const found = readMention(team(), "@researcher-2/critic Be brief.");
    expect(found && [idsOf(found.tasks), found.rest]).toEqual([["c2"], "Be brief."]);
  });

  it("takes the short name where one agent has it, and all agents where several do", () => {
    expect(idsOf(readMention(team(["c1"]), "@critic Go.")?.tasks ?? [])).toEqual(["c2"]);
    expect(idsOf(readMention(team(), "@critic Go.")?.tasks ?? [])).toEqual(["c1", "c2"]);
  });

  it("leaves a text alone that names no agent", () => {
    expect(readMention(team(), "@types/node is a package")).toBeUndefined();
    expect(readMention(team(), "Ask @writer later")).toBeUndefined();
    expect(readMention(team(), "@writer")).toBeUndefined();
  });
});
