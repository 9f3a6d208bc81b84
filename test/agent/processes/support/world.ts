import type { Commit } from "../../../../src/contract/store.ts";
import {
  HarnessAgent,
  jsonSchema,
  memoryStore,
  type Store,
  type Tool,
  tool,
} from "../../../../src/index.ts";
import { ManualClock } from "../../../../src/testing.ts";
import {
  type SimulatedProcess,
  simulateProcess,
} from "../../../harness/tasks/support/simulated-process.ts";
import { keepEvents } from "../../../support/keep-events.ts";
import { seededRandom } from "../../../support/random.ts";
import { promptModel } from "./script-prompt.ts";

/** The session that the processes of a world share. */
export const sessionId = "s";

/** How long a lease of these processes lasts. */
export const leaseMs = 10_000;

/** A simulated process with its agents. */
export interface Node {
  readonly process: SimulatedProcess;
  readonly lead: HarnessAgent;
  /** Another agent on the store of this process. */
  agent(name: string): HarnessAgent;
}

/** Simulated processes on one memory store. */
export interface World {
  /** The store without any process in between. */
  readonly store: Store;
  /** The clock of the store's leases. */
  readonly clock: ManualClock;
  /** Every commit so far. */
  readonly commits: readonly Commit[];
  /** Which process has run which `hold` or `ask` call, in order: `a hold x`. */
  readonly executions: readonly string[];
  start(name: string): Node;
  /** Lets the `hold` calls of a gate return. */
  open(gate: string): void;
  /** Expires all leases, and wakes the followers of the processes that are alive. */
  expireLeases(): Promise<void>;
}

/** A world without processes. */
export function createWorld(): World {
  const clock = new ManualClock(1_000_000_000);
  const inner = memoryStore({ clock, ...keepEvents });
  const commits: Commit[] = [];
  const store: Store = {
    ...inner,
    async commit(commit, following = []) {
      const written = await inner.commit(commit, following);
      commits.push(...[commit, ...following].slice(0, written));
      return written;
    },
  };
  const gates = new Map<string, PromiseWithResolvers<void>>();
  const executions: string[] = [];
  const nodes: Node[] = [];

  function gateOf(name: string): PromiseWithResolvers<void> {
    const gate = gates.get(name) ?? Promise.withResolvers<void>();
    gates.set(name, gate);
    return gate;
  }

  function toolsOf(process: string): readonly Tool[] {
    const input = jsonSchema<{ gate?: string }>({
      type: "object",
      properties: { gate: { type: "string" } },
    });
    const note = (name: string, gate = "") => executions.push(`${process} ${name} ${gate}`.trim());
    return [
      tool({
        name: "hold",
        description: "Returns when its gate opens.",
        input,
        idempotent: true,
        execution: { timeoutMs: null },
        async execute({ gate = "" }, { signal }) {
          note("hold", gate);
          const aborted = new Promise<never>((_, reject) => {
            signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
          });
          await Promise.race([gateOf(gate).promise, aborted]);
          return `${gate} is open`;
        },
      }),
      tool({
        name: "ask",
        description: "Asks first.",
        input,
        needsApproval: true,
        execute({ gate }) {
          note("ask", gate);
          return "approved";
        },
      }),
      tool({
        name: "read_context",
        description: "Reads the live value `secret`.",
        execute: async (_, context) => String(await context.get("secret")),
      }),
    ];
  }

  function start(name: string): Node {
    const process = simulateProcess(store, {
      name,
      now: clock.now(),
      random: seededRandom(nodes.length),
    });
    const common = {
      ...({ store: process.store, clock: process.clock, leaseMs, filesystem: false } as const),
      ...{ model: promptModel(process.clock), tools: toolsOf(name) },
    };
    const worker = new HarnessAgent({ ...common, name: "worker", subagents: false });
    const workers = { name: "worker", description: "Works.", agent: worker };
    const manager = new HarnessAgent({ ...common, name: "manager", subagents: [workers] });
    const managers = { name: "manager", description: "Delegates.", agent: manager };
    const agent = (agentName: string) =>
      new HarnessAgent({ ...common, name: agentName, subagents: [workers, managers] });
    const node = { process, agent, lead: agent("lead") };
    nodes.push(node);
    return node;
  }

  return {
    ...{ store, clock, commits, executions, start },
    open: (gate) => gateOf(gate).resolve(),
    async expireLeases() {
      await clock.advance(leaseMs + 1);
      for (const { process } of nodes)
        if (process.state === "alive") await process.clock.advance(1_100);
    },
  };
}
