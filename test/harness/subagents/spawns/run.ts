// Spawns very many children in one session, in its own process with manual garbage collection, and reports leaks and the
// growth of the heap. Arguments: the path of the store, the number of root tasks, the spawns for each.

import { systemClock } from "../../../../src/base/clock.ts";
import {
  type Clock,
  HarnessAgent,
  type Hook,
  type SubagentDeclaration,
  tool,
} from "../../../../src/index.ts";
import { openStore } from "../../../../src/store/index.ts";
import { scriptedModel, type TurnFunction } from "../../../../src/testing.ts";

/** The report at the end. */
export interface SpawnReport {
  readonly spawned: number;
  /** Objects of ended children that were still reachable while the last task ran, and their total. */
  readonly held:
    | Readonly<Record<"agents" | "settings" | "tasks" | "calls", readonly [number, number]>>
    | undefined;
  /** The bytes that each additional child costs. */
  readonly heapPerSpawn: number;
  /** The last prompt of the model. */
  readonly agentList: string;
  readonly taskList: string;
}

const [path = "", roots = "1", each = "1"] = process.argv.slice(2);
const perTurn = 8;
const turns = Number(each) / perTurn;

/** A clock that can be advanced. */
let ahead = 0;
const clock: Clock = { ...systemClock, now: () => Date.now() + ahead };

const agents: WeakRef<object>[] = [];
const settings: WeakRef<object>[] = [];
const tasks: WeakRef<object>[] = [];
const calls: WeakRef<object>[] = [];

/** A model that keeps no prompts. */
function forgetful(turn: TurnFunction) {
  const fresh = () => scriptedModel(turn);
  const { specificationVersion, provider, modelId, supportedUrls } = fresh();
  return {
    ...{ specificationVersion, provider, modelId, supportedUrls },
    doStream: (options: Parameters<ReturnType<typeof fresh>["doStream"]>[0]) =>
      fresh().doStream(options),
    doGenerate: (options: Parameters<ReturnType<typeof fresh>["doGenerate"]>[0]) =>
      fresh().doGenerate(options),
  };
}

// A task holds the context of its hooks; a call holds the signal of its tool.
const look = tool({
  name: "look",
  description: "Looks.",
  execute(_, { signal }) {
    calls.push(new WeakRef(signal));
    return "x".repeat(1_000);
  },
});
const watch: Hook = {
  name: "watch",
  preCall(context) {
    tasks.push(new WeakRef(context));
  },
};
const worker: SubagentDeclaration = {
  name: "worker",
  description: "Works.",
  create() {
    // The settings of an agent hold its model.
    const model = forgetful(({ assistantCount }) =>
      assistantCount === 0 ? [{ call: "look" }] : "Done.",
    );
    settings.push(new WeakRef(model));
    const agent = new HarnessAgent({
      name: "worker",
      model,
      filesystem: false,
      store,
      clock,
      subagents: false,
      tools: [look],
      hooks: [watch],
    });
    agents.push(new WeakRef(agent));
    return agent;
  },
};

async function collectGarbage(): Promise<void> {
  for (let round = 0; round < 5; round++) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    globalThis.gc?.();
  }
}

const count = (refs: readonly WeakRef<object>[]) =>
  [refs.filter((ref) => ref.deref() !== undefined).length, refs.length] as const;

let turn = 0;
let isLast = false;
let held: SpawnReport["held"];
const heaps: number[] = [];
const store = openStore(`sqlite:${path}`);
const lead = new HarnessAgent({
  name: "lead",
  store,
  clock,
  filesystem: false,
  maxIters: turns + 3,
  limits: { childrenPerTask: Number(each) },
  subagents: [worker],
  model: forgetful(async () => {
    turn += 1;
    // An idle agent is dropped after ten minutes, when the next one is needed.
    ahead += 11 * 60_000;
    if (turn <= turns) {
      const input = { agent_id: "worker", task: "Look." };
      return Array.from({ length: perTurn }, () => ({ call: "agent_spawn", input }));
    }
    if (!isLast || turn > turns + 1) return "Done.";
    await collectGarbage();
    held = {
      agents: count(agents),
      settings: count(settings),
      tasks: count(tasks),
      calls: count(calls),
    };
    return [{ call: "agent_list" }, { call: "task_list" }];
  }),
});

for (let root = 1; root <= Number(roots); root++) {
  turn = 0;
  isLast = root === Number(roots);
  await lead.call("Go on.", { sessionId: "s" });
  await collectGarbage();
  heaps.push(process.memoryUsage().heapUsed);
}

const results = (await store.session("s")).flatMap(({ content }) =>
  content.flatMap((block) => (block.type === "tool_result" ? [block] : [])),
);
const toldBy = (name: string) => {
  const [first] = results.findLast((result) => result.name === name)?.output ?? [];
  return first?.type === "text" ? first.text : "";
};
const warm = Math.floor(heaps.length / 5);
const grown = (heaps.at(-1) ?? 0) - (heaps[warm] ?? 0);
const report: SpawnReport = {
  spawned: (await store.tasks({ parentSessionId: "s" })).length,
  held,
  heapPerSpawn: Math.round(grown / ((heaps.length - 1 - warm) * Number(each))),
  agentList: toldBy("agent_list"),
  taskList: toldBy("task_list"),
};
process.stdout.write(JSON.stringify(report));
await store.close();
