import fc from "fast-check";
import { expect, it } from "vitest";
import { recordingOf, replayRecording, withoutIds } from "../../../src/harness/index.ts";
import { HarnessAgent, jsonSchema, memoryStore, type Store, tool } from "../../../src/index.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { type ScriptedPart, scriptedModel } from "../../../src/testing.ts";

/** The work of an agent in one turn. */
type Step =
  | { readonly type: "work" | "broken" | "flaky" | "approved" | "denied" | "hold" }
  | { readonly type: "child"; readonly isBackground: boolean; readonly plan: Plan };
interface Plan {
  readonly turns: readonly (readonly Step[])[];
  readonly end: "reply" | "fail" | "retry";
}

const { plan } = fc.letrec<{ plan: Plan; step: Step }>((tie) => ({
  plan: fc.record({
    turns: fc.array(fc.array(tie("step"), { minLength: 1, maxLength: 3 }), {
      minLength: 1,
      maxLength: 2,
    }),
    end: fc.constantFrom("reply", "reply", "reply", "fail", "retry"),
  }),
  step: fc.oneof(
    { depthIdentifier: "tree", maxDepth: 3 },
    fc.record({
      type: fc.constantFrom("work", "work", "broken", "flaky", "approved", "denied"),
    }),
    fc.record({
      type: fc.constant("child" as const),
      isBackground: fc.constant(false),
      plan: tie("plan"),
    }),
    fc.record({
      type: fc.constant("child" as const),
      isBackground: fc.constant(true),
      plan: tie("plan"),
    }),
  ),
}));

const empty = jsonSchema<{ key: string }>({
  type: "object",
  properties: { key: { type: "string" } },
});

const helper = { description: "Helps.", systemPrompt: "Help." };

/** A team whose agents do what their plans say. */
function teamOf(plans: ReadonlyMap<string, Plan>, store: Store, onHold: () => void) {
  const failed = new Set<string>();
  const model = scriptedModel(({ prompt, tools }) => {
    const asked = prompt.findLast(
      ({ role, content }) => role === "user" && /^Do /.test(textIn(content)),
    );
    const key = textIn(asked?.content).slice("Do ".length);
    const of = plans.get(key);
    const after = asked ? prompt.slice(prompt.indexOf(asked)) : [];
    const turn = after.filter(({ role }) => role === "assistant").length;
    const steps = of?.turns[turn];
    if (steps && tools) return steps.map((step, at) => callOf(step, `${key}.${turn}.${at}`));
    if (of?.end === "fail") return { error: new Error(`${key} broke`) };
    if (of?.end === "retry" && !failed.has(`${key} ${turn}`)) {
      failed.add(`${key} ${turn}`);
      return ["Well, ", { error: new TypeError("fetch failed") }];
    }
    return [{ thinking: "Hm." }, `${key} is done.`];
  });
  const tries = new Set<string>();
  const tools = [
    tool({
      name: "work",
      description: "A tool.",
      input: empty,
      execute: ({ key }) => `worked on ${key}`,
    }),
    tool({
      name: "broken",
      description: "A tool.",
      input: empty,
      execute({ key }) {
        throw new Error(`no ${key}`);
      },
    }),
    tool({
      name: "flaky",
      description: "A tool.",
      input: empty,
      idempotent: true,
      execution: { maxAttempts: 2, maxBackoffMs: 1 },
      execute({ key }) {
        if (tries.has(key)) return `second try of ${key}`;
        tries.add(key);
        throw new TypeError("fetch failed");
      },
    }),
    tool({
      name: "approved",
      description: "A tool.",
      input: empty,
      needsApproval: true,
      execute: ({ key }) => `did ${key}`,
    }),
    tool({
      name: "denied",
      description: "A tool.",
      input: empty,
      needsApproval: true,
      execute: ({ key }) => `did ${key}`,
    }),
    tool({
      name: "hold",
      description: "A tool.",
      input: empty,
      execute: (_, { signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason));
          onHold();
        }),
    }),
  ];
  return new HarnessAgent({
    ...{ name: "lead", model, store, tools, filesystem: false as const },
    modelExecution: { maxBackoffMs: 1 },
    limits: { maxSpawnDepth: 8 },
    subagents: [
      { ...helper, name: "helper", leaf: false, subagents: [{ ...helper, name: "aide" }] },
    ],
  });
}

function textIn(content: unknown): string {
  if (typeof content === "string") return content;
  const parts = (content ?? []) as readonly { readonly text?: string }[];
  return parts.map(({ text = "" }) => text).join("");
}

function callOf(step: Step, key: string): ScriptedPart {
  if (step.type !== "child") return { call: step.type, input: { key }, id: key };
  const seconds = step.isBackground ? 0 : 60;
  const agent = key.split(".").length > 3 ? "aide" : "helper";
  const input = { agent_id: agent, task: `Do ${key}`, timeout_seconds: seconds };
  return { call: "agent_spawn", input, id: key };
}

function plansIn(plan: Plan, key: string): readonly (readonly [string, Plan])[] {
  const below = plan.turns.flatMap((steps, turn) =>
    steps.flatMap((step, at) =>
      step.type === "child" ? plansIn(step.plan, `${key}.${turn}.${at}`) : [],
    ),
  );
  return [[key, plan], ...below];
}

/** Runs a plan to its end; approvals are given and denied, and the first tool that holds is cancelled. */
async function play(root: Plan) {
  const store = memoryStore();
  let cancel = () => {};
  const team = teamOf(new Map(plansIn(root, "a")), store, () => cancel());
  let run = team.run("Do a", { sessionId: "s", taskId: "task_root" });
  cancel = () => void run.cancel("Held.");
  for (;;) {
    await run.result().catch(() => {}); // a failed run
    await run.settled();
    const open = await team.approvals({ sessionId: "s" });
    if (open.length === 0) break;
    const answers = open.map((one) =>
      one.call.name === "denied" ? one.deny("No.") : one.approve(),
    );
    run = team.run(answers, { sessionId: "s" });
  }
  return { store, team };
}

it("replays recorded trees to equal trees", async () => {
  const seen = { background: 0, nested: 0, asked: 0, failed: 0, cancelled: 0 };
  const property = fc.asyncProperty(plan, fc.boolean(), async (tree, isHeld) => {
    // Tasks in the background at a cancel end in an order that no replay can repeat.
    const text = JSON.stringify(tree).replaceAll('"isBackground":true', '"isBackground":false');
    const held = JSON.parse(text) as Plan;
    const root: Plan = isHeld ? { ...held, turns: [...held.turns, [{ type: "hold" }]] } : tree;
    const { store, team } = await play(root);
    const recording = JSON.parse(JSON.stringify(await recordingOf(store, "task_root")));
    for (const agent of recording.runs[0].agents) {
      seen.background += Number(agent.mode === "background");
      seen.nested += Number(agent.depth > 1);
      seen.asked += agent.asked.length;
      seen.failed += Number(agent.status === "failed");
      seen.cancelled += Number(agent.status === "cancelled");
    }
    const { run, store: replayed } = await replayRecording([team], recording);
    expect(withoutIds(run)).toEqual(withoutIds(recording.runs[0]));
    const again = await recordingOf(replayed, "task_root");
    expect(withoutIds(again.runs)).toEqual(withoutIds(recording.runs));
  });
  await fc.assert(property, { numRuns: isDeep ? 100 : 30 });
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(3);
});
