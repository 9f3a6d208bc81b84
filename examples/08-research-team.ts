// A research team: a lead gives two questions to two subagents, which work in parallel. Their output streams live, and
// each [^n] of the answer points to a text that a subagent read. Run it with: npm run example 08
import assert from "node:assert/strict";
import { HarnessAgent, type SubagentDeclaration, tool } from "rivulet";
import { emptyTree, reduce, rootTask, type SourceRef } from "rivulet/protocol";
import { type ScriptedRequest, scriptedModel } from "rivulet/testing";
import { z } from "zod";

const library = [
  "harbour book: The tower was lit for the first time on 3 May 1878, with a lamp for oil.",
  "keeper's diary: In 1921 the lamp was taken out. The new one is electric, and I miss the smell.",
  "timetable: The bus to the tower leaves at nine.",
];

/** `citable` numbers each result, so a model can cite it. */
const search = tool({
  name: "search_library",
  description: "Returns the texts of the library that contain all words.",
  input: z.object({ words: z.array(z.string()) }),
  citable: true,
  execute: ({ words }) =>
    library.filter((text) => words.every((word) => text.includes(word))).join("\n") || "Nothing.",
});

/** A subagent needs a name and a description, and inherits the rest from the lead. These have a scripted model. */
function researcher(
  name: string,
  words: readonly string[],
  report: readonly string[],
): SubagentDeclaration {
  return {
    name,
    description: `Answers one question about the tower, as a good ${name}.`,
    systemPrompt: "Search the library and cite what you find.",
    tools: ["search_*"],
    model: scriptedModel([{ call: "search_library", input: { words } }, { text: report }]),
  };
}

const spawn = (agent_id: string, task: string) => ({
  call: "agent_spawn",
  input: { agent_id, task },
});

/** The reports as the lead's model reads them: each subagent cites [^1], which is renumbered for the lead. */
function reportsIn({ prompt }: ScriptedRequest): readonly string[] {
  const reports = JSON.stringify(prompt).matchAll(/<\/referencable-item>\\n([^"]*)"/g);
  return Array.from(reports, ([, report]) => ` ${report}`);
}

const lead = new HarnessAgent({
  name: "lead",
  store: "memory",
  filesystem: false,
  tools: [search],
  subagents: [
    researcher("historian", ["first", "lit"], ["It was lit ", "first in ", "1878.[^1]"]),
    researcher("engineer", ["lamp", "new"], ["Its lamp is ", "electric since ", "1921.[^1]"]),
  ],
  model: scriptedModel([
    [
      "I ask both at once.",
      spawn("historian", "When was the tower lit for the first time?"),
      spawn("engineer", "Which lamp does the tower have today?"),
    ],
    (request) => ({ text: ["About the tower:", ...reportsIn(request)] }),
  ]),
});

// One stream for the whole team. Events of subagents have a source; those of the lead have none.
const sessionId = "tower";
const pathOf = ({ source }: { readonly source?: SourceRef }) => source?.path ?? sessionId;
const run = lead.run("When was the tower lit, and what is its lamp?", { sessionId });
const panels = new Map<string, string>();
const lifecycle: string[] = [];
let tree = emptyTree();
for await (const event of run) {
  tree = reduce(tree, event);
  if (event.type === "task.created" || event.type === "task.completed") {
    lifecycle.push(`${event.type} ${pathOf(event)}`);
  }
  if (event.type !== "task.text.delta") continue;
  const path = pathOf(event);
  panels.set(path, (panels.get(path) ?? "") + event.delta);
  console.log(`${path.padEnd(15)} │ ${event.delta}`);
}
const reply = await run.result();
console.log(`\n${reply.text}`);

// Each marker is an annotation of the answer. Its target is a block of an item of a task: here, of a subagent's task.
const answer = rootTask(tree)?.output.at(-1);
const [answerBlock] = answer?.type === "message" ? answer.block_list : [];
const annotations =
  answerBlock && "annotations" in answerBlock ? (answerBlock.annotations ?? []) : [];
const sources = annotations.map(({ marker, target }) => {
  const task = tree.tasks[target?.task_id ?? ""];
  const item = task?.output.find(({ id }) => id === target?.item_id);
  const block = item?.type === "tool_result" && item.block_list[target?.block_index ?? 0];
  const text = block && "text" in block ? block.text : "";
  console.log(`${marker} ${task?.source?.path}: ${text}`);
  return `${task?.source?.path} ${text}`;
});

assert.deepEqual(sources, [`tower/historian ${library[0]}`, `tower/engineer ${library[1]}`]);
assert.equal(panels.get("tower/historian"), "It was lit first in 1878.[^1]");
assert.equal(panels.get("tower/engineer"), "Its lamp is electric since 1921.[^1]");
assert.ok(
  lifecycle.indexOf("task.created tower/engineer") <
    lifecycle.indexOf("task.completed tower/historian"),
  "the subagents work in parallel",
);
assert.equal(new Set(annotations.map(({ marker }) => marker)).size, 2, "each source has a number");
console.log("All checks passed.");
