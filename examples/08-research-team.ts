// A research team: a lead gives two questions to two researchers, who work side by side. What each of them says is
// shown while it says it, and every [^n] of the answer leads to what a researcher has read.
// Run it with: npm run example 08
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

/** `citable` gives each result a number, by which a model can cite it. */
const search = tool({
  name: "search_library",
  description: "Texts of the library that have all the words.",
  input: z.object({ words: z.array(z.string()) }),
  citable: true,
  execute: ({ words }) =>
    library.filter((text) => words.every((word) => text.includes(word))).join("\n") || "Nothing.",
});

/** A subagent needs a name and a description; what it does not say, it has from the lead. This one plays a part. */
function researcher(
  name: string,
  words: readonly string[],
  report: readonly string[],
): SubagentDeclaration {
  return {
    name,
    description: `Answers one question about the tower. It is a good ${name}.`,
    instructions: "Search the library, and cite what you have found there.",
    tools: ["search_*"],
    model: scriptedModel([{ call: "search_library", input: { words } }, { text: report }]),
  };
}

const spawn = (agent_id: string, task: string) => ({
  call: "agent_spawn",
  input: { agent_id, task },
});

/** The researchers' reports. Each cites its own [^1]; here they have the numbers that the lead's model reads. */
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

// One stream for the whole team. `source` says whose an event is; the lead's own events have none.
const whoIn = ({ source }: { readonly source?: SourceRef }) => source?.path ?? "tower";
const run = lead.run("When was the tower lit, and what is its lamp?", { sessionId: "tower" });
const panels = new Map<string, string>();
const order: string[] = [];
let tree = emptyTree();
for await (const event of run) {
  tree = reduce(tree, event);
  if (event.type === "task.created" || event.type === "task.completed") {
    order.push(`${event.type} ${whoIn(event)}`);
  }
  if (event.type !== "task.text.delta") continue;
  const who = whoIn(event);
  panels.set(who, (panels.get(who) ?? "") + event.delta);
  console.log(`${who.padEnd(15)} │ ${event.delta}`);
}
const reply = await run.result();
console.log(`\n${reply.text}`);

// A marker is an annotation of the answer. It names a block of an item of a task: here, of a researcher's.
const answer = rootTask(tree)?.output.at(-1);
const [said] = answer?.type === "message" ? answer.block_list : [];
const annotations = said && "annotations" in said ? (said.annotations ?? []) : [];
const sources = annotations.map(({ marker, target }) => {
  const task = tree.tasks[target?.task_id ?? ""];
  const item = task?.output.find(({ id }) => id === target?.item_id);
  const block = item?.type === "tool_result" && item.block_list[target?.block_index ?? 0];
  const text = block && "text" in block ? block.text : "";
  console.log(`${marker} ${task?.source?.path} has read in the ${text}`);
  return `${task?.source?.path} ${text}`;
});

assert.deepEqual(sources, [`tower/historian ${library[0]}`, `tower/engineer ${library[1]}`]);
assert.equal(panels.get("tower/historian"), "It was lit first in 1878.[^1]");
assert.equal(panels.get("tower/engineer"), "Its lamp is electric since 1921.[^1]");
assert.ok(
  order.indexOf("task.created tower/engineer") < order.indexOf("task.completed tower/historian"),
  "they worked side by side",
);
assert.equal(new Set(annotations.map(({ marker }) => marker)).size, 2, "two numbers, not one");
console.log("Every number leads to what a researcher has read.");
