import fc from "fast-check";
import { expect, it } from "vitest";
import { z } from "zod";
import { nextTurn } from "../../src/base/time.ts";
import {
  type Agent,
  agentTool,
  type Budget,
  memoryStore,
  ReActAgent,
  type Run,
  type Store,
  type Tool,
  tool,
} from "../../src/index.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { type Script, scriptedModel } from "../../src/testing.ts";

/** An agent that asks its model for ever: each reply calls its children, some of them in the background. */
interface Node {
  readonly tokens: number;
  readonly children: readonly {
    readonly node: Node;
    readonly where: "sync" | "background" | "foreign";
  }[];
  readonly own: Budget | undefined;
}

/** A model call whose reply has arrived; one that a cancel interrupts before is the last of its task, and not metered. */
interface Call {
  readonly task: string;
  /** All tokens so far, its own included. */
  readonly total: number;
}

const anyPrompt = z.object({ prompt: z.string() });
const budget: fc.Arbitrary<Budget> = fc.oneof(
  fc.record({ tokens: fc.integer({ min: 1, max: 400 }) }),
  fc.record({ cost: fc.integer({ min: 1, max: 400 }) }),
  fc.record({ iterations: fc.integer({ min: 1, max: 25 }) }),
  fc.record({ agents: fc.integer({ min: 1, max: 12 }), tokens: fc.integer({ min: 1, max: 400 }) }),
);
const { node } = fc.letrec<{ node: Node }>((tie) => ({
  node: fc.record({
    tokens: fc.integer({ min: 1, max: 40 }),
    children: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      { weight: 1, arbitrary: fc.constant([]) },
      {
        weight: 4,
        arbitrary: fc.array(
          fc.record({
            node: tie("node"),
            where: fc.constantFrom("sync", "sync", "background", "foreign"),
          }),
          { minLength: 1, maxLength: 3 },
        ),
      },
    ),
    own: fc.oneof(budget, ...Array.from({ length: 4 }, () => fc.constant(undefined))),
  }),
}));

it("holds a budget over generated trees to one model call per running agent", async () => {
  const seen = { beyond: 0, background: 0, foreign: 0, below: 0, full: 0 };
  const property = fc.asyncProperty(node, budget, async (plan, limit) => {
    const { store, calls, foreignStores } = await play(plan, limit);
    const records = await store.tasks({});
    const [root] = records;
    for (const at of [store, ...foreignStores])
      expect(await at.tasks({ status: ["queued", "in_progress", "suspended"] })).toEqual([]);
    const { agents = Number.POSITIVE_INFINITY } = limit;
    const beyond = callsBeyond(calls, limit);
    expect(beyond).toEqual([...new Set(beyond)]);
    expect(root).toMatchObject({ status: "incomplete", generateReason: "budget" });
    const linked = new Set(records.flatMap(({ remote, taskId }) => (remote ? [taskId] : [])));
    const started = records.filter(({ parentTaskId = "" }) => !linked.has(parentTaskId));
    expect(started.length).toBeLessThanOrEqual(agents);
    seen.beyond += Number(beyond.length > 1);
    for (const { mode, remote, depth, generateReason } of records) {
      seen.background += Number(mode === "background");
      seen.foreign += Number(remote !== undefined);
      seen.below += Number(depth > 0 && generateReason === "budget");
    }
    seen.full += Number(started.length === agents);
  });
  await fc.assert(property, { numRuns: isDeep ? 500 : 100 });
  expect(Object.entries(seen).filter(([, count]) => count < 5)).toEqual([]);
});

/** The tasks of the calls that reached a limit or came after it. */
function callsBeyond(calls: readonly Call[], { tokens, cost, iterations }: Budget): string[] {
  const most = tokens ?? cost ?? Number.POSITIVE_INFINITY;
  const first = (iterations ?? Number.POSITIVE_INFINITY) - 1;
  return calls.flatMap(({ task, total }, at) => (total >= most || at >= first ? [task] : []));
}

/** Runs a tree whose agents never stop by themselves, and returns what their models were asked. */
async function play(plan: Node, limit: Budget) {
  const calls: Call[] = [];
  const foreignStores: Store[] = [];
  const foreignRuns: Run[] = [];
  let total = 0;
  let count = 0;
  let prompts = 0;
  const agentOf = (
    { tokens, children, own }: Node,
    store: Store,
    isForeign: boolean,
  ): ReActAgent => {
    const tools = children.map(({ node, where }) => {
      const far = where === "foreign" ? memoryStore() : store;
      if (where === "foreign") foreignStores.push(far);
      const child = agentOf(node, far, isForeign || where === "foreign");
      if (where === "foreign") return agentTool(foreign(child, foreignRuns));
      return where === "sync" ? agentTool(child) : backgroundTool(child);
    });
    const idle = tool({ name: "idle", description: "Waits.", input: anyPrompt, execute: () => "" });
    const name = `agent_${count++}`;
    const script: Script = async () => {
      for (let turns = tokens % 5; turns > 0; turns--) await nextTurn();
      const usage = { inputTokens: tokens, outputTokens: 0 };
      const names = tools.length === 0 ? ["idle"] : tools.map((one) => one.name);
      return [...names.map((call) => ({ call, input: { prompt: `Go ${prompts++}.` } })), { usage }];
    };
    return new ReActAgent({
      ...{ name, model: scriptedModel(script), store, tools: [idle, ...tools], maxIters: 10_000 },
      hooks: [
        {
          name: "task",
          // The calls of foreign agents are metered only when these have ended.
          postReasoning({ task }) {
            if (isForeign) return;
            total += tokens;
            calls.push({ task: task.taskId, total });
            const beyond = callsBeyond(calls, limit);
            // A tree that breaks the law would go on for ever.
            if (beyond.length > new Set(beyond).size) void run.cancel();
          },
        },
      ],
      price: ({ total_tokens: amount }) => ({ amount, currency: "EUR" }),
      ...(own && { budget: own }),
    });
  };
  const store = memoryStore();
  const root = agentOf(plan, store, false);
  const run = root.run("Go.", { sessionId: "s", budget: limit, until: "tree" });
  for await (const _ of run); // until no task of the tree is left
  await Promise.allSettled(foreignRuns.map(untilEnded)); // a cancel has reached them, and they end
  return { store, calls, foreignStores };
}

/** The child goes on in the background, and the parent with its next reply. */
function backgroundTool(child: ReActAgent): Tool {
  return tool({
    ...{ name: child.name, description: "Starts it.", input: anyPrompt },
    execution: { timeoutMs: null, maxAttempts: 1 },
    async execute({ prompt }, { runChild }) {
      const options = { agentId: child.name, mode: "background" } as const;
      return (await runChild(child, prompt, options)).status;
    },
  });
}

/** The same agent as an object that is not of this package: no budget reaches it. */
function foreign(agent: ReActAgent, runs: Run[]): Agent {
  const { name, approvals } = agent;
  const run: Agent["run"] = (input, options) => {
    const started = agent.run(input, { ...options, until: "tree" });
    runs.push(started as Run);
    return started;
  };
  return { name, run, approvals: approvals.bind(agent) } as Agent;
}

async function untilEnded(run: Run): Promise<void> {
  for await (const _ of run);
}
