import { expect, it } from "vitest";
import { emptyTree } from "../protocol/reduce.ts";
import type { Item, MessageItem, Task, Tree } from "../protocol/task.ts";
import { citedText } from "./citations.ts";

const address = (item_id: string) => ({ task_id: "child", item_id, block_index: 0 });

function message(text: string, targets: Readonly<Record<string, string>>): MessageItem {
  const annotations = Array.from(text.matchAll(/\[\^(\d+)\]/g), (match) => ({
    type: "reference_to_block" as const,
    reference_id: Number(match[1]),
    start_index: match.index,
    end_index: match.index + match[0].length,
    marker: match[0],
    target: address(targets[match[1] ?? ""] ?? "nowhere"),
  }));
  return {
    type: "message",
    id: "msg",
    role: "assistant",
    block_list: [{ type: "text", text, annotations }],
  };
}

function treeOf(...output: readonly Item[]): Tree {
  const child: Task = {
    id: "child",
    status: "completed",
    output,
    children: [],
    approvals: [],
    appliedSeq: 0,
    source: { agentId: "researcher", depth: 1, path: "s/researcher" },
  };
  return { ...emptyTree(), tasks: { child } };
}

function called(name: string, input: string, result: string): readonly [Item, Item] {
  return [
    { type: "tool_call", id: `fc_${name}`, call_id: `call_${name}`, name, arguments: input },
    {
      type: "tool_result",
      id: name,
      call_id: `call_${name}`,
      block_list: [{ type: "text", text: result }],
    },
  ];
}

const read = called(
  "read_file",
  '{"path":"a/sky.md"}',
  "     1\t# Sky\n     2\t\n     3\tThe sky is blue by day.\n     4\tAt night the sky is black.",
);
const found = called(
  "grep_files",
  "{}",
  "b/sea.md:7: The sea is salty.\nb/sea.md:9: Salt is white.",
);

it("numbers the lines that match the statements from 1", () => {
  const said = message(
    "By day the sky is blue.[^1] The night sky is black.[^1] And the sea? It is salty.[^2]",
    { 1: "read_file", 2: "grep_files" },
  );
  expect(citedText(treeOf(...read, ...found), said)).toEqual({
    text: "By day the sky is blue.[^1] The night sky is black.[^2] And the sea? It is salty.[^3]",
    citations: [
      { marker: "[^1]", place: "a/sky.md:3", text: "The sky is blue by day." },
      { marker: "[^2]", place: "a/sky.md:4", text: "At night the sky is black." },
      { marker: "[^3]", place: "b/sea.md:7", text: "The sea is salty." },
    ],
  });
});

it("treats adjacent markers as sources of one statement", () => {
  const said = message("The sea is salty.[^2][^1]", { 1: "read_file", 2: "grep_files" });
  const { text, citations } = citedText(treeOf(...read, ...found), said);
  expect(text).toBe("The sea is salty.[^1][^2]");
  expect(citations).toMatchObject([
    { marker: "[^1]", place: "b/sea.md:7" },
    { marker: "[^2]", place: expect.stringContaining("a/sky.md") },
  ]);
});

it("returns the task's path for a source that is not a file, and skips an unknown target", () => {
  const weather = called("get_weather", "not json", "Sunny, 20 degrees.");
  const said = message("It is sunny.[^1] It is late.[^2]", { 1: "get_weather" });
  expect(citedText(treeOf(...weather), said)).toEqual({
    text: "It is sunny.[^1] It is late.[^2]",
    citations: [{ marker: "[^1]", place: "s/researcher", text: "Sunny, 20 degrees." }],
  });
});
