// `[^n]` in the root's answer leads to the original block, through any number of levels.
import { describe, expect, it } from "vitest";
import { textOf } from "../../../src/contract/message.ts";
import {
  HarnessAgent,
  jsonSchema,
  memoryStore,
  type Store,
  type SubagentDeclaration,
  tool,
} from "../../../src/index.ts";
import { emptyTree, reduce } from "../../../src/protocol/reduce.ts";
import { isTerminal } from "../../../src/protocol/task.ts";
import {
  type ScriptedRequest,
  type ScriptedTurn,
  scriptedModel,
  type TurnFunction,
} from "../../../src/testing.ts";
import { expectLawful, readLog } from "../../agent/support/laws.ts";

const factOf = (topic: string) => `All that is known of the ${topic}.`;
const fact = tool({
  name: "fact",
  description: "Tells a fact.",
  citable: true,
  input: jsonSchema<{ topic: string }>({
    type: "object",
    properties: { topic: { type: "string" } },
    required: ["topic"],
  }),
  execute: ({ topic }) => factOf(topic),
});
const ask = (topic: string) => ({ call: "fact", input: { topic } });
const spawn = (agent_id: string, task: string, more: object = {}) => ({
  call: "agent_spawn",
  input: { agent_id, task, ...more },
});

/** Returns the text of a prompt without its system message. */
function readBy({ prompt }: ScriptedRequest): string {
  return JSON.stringify(prompt.filter(({ role }) => role !== "system"));
}

/** Cites a fact by its number in the prompt. */
function cite(request: ScriptedRequest, topic: string): string {
  const numbers = [
    ...readBy(request).matchAll(/ID: (\d+)(?:(?!ID: ).)*?All that is known of the (\w+)/g),
  ];
  const found = numbers.filter(([, , about]) => about === topic).map(([, number]) => number);
  if (found.length === 0) throw new Error(`Nothing about the ${topic} in ${readBy(request)}`);
  return `${topic}[^${found[0]}]`;
}

/** Looks up something irrelevant, then the requested fact, and cites only that. */
function researcher(moonrise: Promise<void> = Promise.resolve()): SubagentDeclaration {
  return {
    name: "researcher",
    description: "Finds one thing.",
    tools: [fact],
    model: scriptedModel(async (request): Promise<ScriptedTurn> => {
      const topic = /about the (\w+)/.exec(readBy(request))?.[1] ?? "";
      if (request.assistantCount > 0) return `I know of the ${cite(request, topic)}.`;
      if (topic === "moon") await moonrise;
      return [ask("weather"), ask(topic)];
    }),
  };
}

/** Looks up one fact, delegates two others in parallel, and cites all three. */
const planner: SubagentDeclaration = {
  name: "planner",
  description: "Finds several things.",
  leaf: false,
  tools: [fact],
  subagents: [researcher()],
  model: scriptedModel((request): ScriptedTurn => {
    if (request.assistantCount === 0) return [ask("land")];
    if (request.assistantCount === 1) {
      return [spawn("researcher", "about the sea"), spawn("researcher", "about the sky")];
    }
    return `${cite(request, "sky")}, ${cite(request, "sea")}, ${cite(request, "land")}.`;
  }),
};

const background = { timeout_seconds: 0 };

/** Lets the moon rise, and waits until all children of a session have ended. */
const patience = (store: Store, rise: () => void) =>
  tool({
    name: "patience",
    description: "Waits.",
    async execute(_, { sessionId }) {
      rise();
      const records = () => store.tasks({ parentSessionId: sessionId });
      while (!(await records()).every(({ status }) => isTerminal(status))) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      return "They are done.";
    },
  });

const topics = ["moon", "sun", "sky", "sea", "land"];
const answer = (request: ScriptedRequest) => topics.map((topic) => cite(request, topic)).join(" ");

/** Returns the block and the agent that each citation of the last answer leads to. */
async function citedIn(store: Store): Promise<readonly string[]> {
  const roots = await store.tasks({ sessionId: "s" });
  const trees = await Promise.all(
    roots.map(async ({ taskId }) => reduce(emptyTree(), [...(await readLog(store, taskId))])),
  );
  const tasks = Object.assign({}, ...trees.map((tree) => tree.tasks)) as (typeof trees)[0]["tasks"];
  const last = tasks[roots.at(-1)?.taskId ?? ""]?.output.at(-1);
  const [block] = last?.type === "message" ? last.block_list : [];
  if (block?.type !== "text") throw new Error("The last item is not an answer.");
  return (block.annotations ?? []).map(({ start_index, end_index, marker, target }) => {
    expect(block.text.slice(start_index, end_index)).toBe(marker);
    const task = tasks[target?.task_id ?? ""];
    const item = task?.output.find(({ id }) => id === target?.item_id);
    const shown =
      item?.type === "tool_result" ? item.block_list[target?.block_index ?? -1] : undefined;
    const topic = /\w+$/.exec(block.text.slice(0, start_index))?.[0] ?? "";
    expect(shown).toMatchObject({ type: "text", text: factOf(topic) });
    return `${topic}: ${task?.source?.path ?? "s"}`;
  });
}

interface Way {
  readonly name: string;
  /** The lead's turns after all facts but the moon are known. */
  readonly script: (rise: () => void) => readonly (ScriptedTurn | TurnFunction)[];
  /** The number of hints that deliver the result; 0 when the lead waits for it. */
  readonly hints: number;
}
const ways: readonly Way[] = [
  {
    name: "ends while its parent works",
    script: () => [[{ call: "patience" }], answer],
    hints: 1,
  },
  {
    name: "ends before the next task of its parent",
    script: () => ["They are at work.", answer],
    hints: 1,
  },
  {
    name: "is waited for",
    script: (rise) => [
      () => {
        rise();
        return [{ call: "task_wait" }];
      },
      answer,
    ],
    hints: 0,
  },
];

describe.each(ways)("with a background child that $name", ({ script, hints }) => {
  it("leads every citation to its original block", async () => {
    const store = memoryStore();
    const { promise: moonrise, resolve: rise } = Promise.withResolvers<void>();
    const model = scriptedModel([
      [
        spawn("researcher", "about the moon", background),
        spawn("planner", "everything"),
        spawn("researcher", "about the sun"),
      ],
      ...script(rise),
    ]);
    const lead = new HarnessAgent({
      name: "lead",
      model,
      store,
      filesystem: false,
      tools: [patience(store, rise)],
      subagents: [researcher(moonrise), planner],
    });
    while (model.calls.length < 3) {
      const run = lead.run("Go.", { sessionId: "s" });
      await run.result();
      rise();
      await run.settled();
    }
    expect(await citedIn(store)).toEqual([
      "moon: s/researcher",
      "sun: s/researcher",
      "sky: s/planner/researcher",
      "sea: s/planner/researcher",
      "land: s/planner",
    ]);
    // Each citation has a number of the root; results without a citation have none.
    const reply = textOf((await store.session("s")).at(-1)?.content ?? []);
    expect(reply.match(/\[\^\d+\]/g)?.toSorted()).toEqual([1, 2, 3, 4, 5].map((n) => `[^${n}]`));
    const read = readBy(model.calls.at(-1) as ScriptedRequest);
    expect(read).not.toContain("known of the weather");
    expect(read.split("A background task has ended.")).toHaveLength(hints + 1);
    for (const { taskId } of await store.tasks({ sessionId: "s" }))
      await expectLawful(store, taskId);
  });
});
