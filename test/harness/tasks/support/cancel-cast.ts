import type { Clock } from "../../../../src/base/clock.ts";
import { HarnessAgent, type ReActAgent, type Store, tool } from "../../../../src/index.ts";
import {
  type ScriptedPart,
  type ScriptedRequest,
  type ScriptedTurn,
  scriptedModel,
} from "../../../../src/testing.ts";

/** The states of the workers when the tree is cancelled. */
export const phases = [
  "in a model call",
  "in a tool",
  "waiting for approval",
  "queued",
  "promoted",
  "in the background after the end of their callers",
] as const;
/** One of these states. */
export type Phase = (typeof phases)[number];

/** A tree of agents: a lead, 2 heads, 4 managers, 14 workers. */
export interface CancelCast {
  readonly lead: ReActAgent;
  /** The expected state of the workers in the phase. */
  readonly expected: WorkersStanding;
  /** The number of workers in a model call or a tool. */
  busy(): number;
  /** The number of model requests. */
  requests(): number;
}

/** The numbers of busy, suspended and queued workers. */
interface WorkersStanding {
  readonly busy: number;
  readonly suspended: number;
  readonly queued: number;
}

/** The number of agents below the lead. */
export const descendants = 20;
/** The number of workers. */
export const workers = 14;
const managers = 4;

function expectedIn(phase: Phase): WorkersStanding {
  if (phase === "waiting for approval") return { busy: 0, suspended: workers, queued: 0 };
  if (phase === "queued") return { busy: managers, suspended: 0, queued: workers - managers };
  return { busy: workers, suspended: 0, queued: 0 };
}

/** Returns the states of the workers and the number of tasks. */
export async function workersIn(store: Store, conversation: string, { busy }: CancelCast) {
  const tasks = await store.tasks({ conversation });
  const own = tasks.filter(({ agentName }) => agentName === "worker");
  const count = (status: string) => own.filter((task) => task.status === status).length;
  const waiting = { suspended: count("suspended"), queued: count("queued") };
  return { tasks: tasks.length, busy: busy(), ...waiting };
}

/** Creates the tree. It stays in its phase until it is cancelled. */
export function cancelCast(store: Store, clock: Clock, phase: Phase): CancelCast {
  let busy = 0;
  let requests = 0;
  const seconds = phase === "promoted" ? 1 : phase.includes("background") ? 0 : 600;

  /** Counts as busy until the signal aborts. */
  function hold(signal: AbortSignal | undefined): void {
    busy += 1;
    signal?.addEventListener("abort", () => (busy -= 1), { once: true });
  }

  function agent(
    name: string,
    turn: (request: ScriptedRequest) => ScriptedTurn,
    options: Partial<ConstructorParameters<typeof HarnessAgent>[0]> = {},
  ): HarnessAgent {
    const model = scriptedModel(
      (request) => {
        requests += 1;
        return turn(request);
      },
      { clock },
    );
    const common = { store, clock, filesystem: false, subagents: false } as const;
    return new HarnessAgent({ ...common, name, model, ...options });
  }

  const stay = tool({
    name: "stay",
    description: "Stays until it is told to stop.",
    execution: { timeoutMs: null },
    execute: (_, { signal }) =>
      new Promise((_, reject) => {
        hold(signal);
        signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      }),
  });
  const ask = tool({
    name: "ask",
    description: "Asks first.",
    needsApproval: true,
    execute: () => "never",
  });

  const worker = agent(
    "worker",
    ({ abortSignal }) => {
      if (phase === "waiting for approval") return { call: "ask" };
      if (phase === "in a tool") return { call: "stay" };
      hold(abortSignal);
      return [{ text: "I am at " }, { hang: true }];
    },
    { tools: [stay, ask] },
  );

  /** An agent that spawns one child for each task in its prompt, then ends. */
  const spawn = (agent_id: string, tasks: readonly string[]): ScriptedPart[] =>
    tasks.map((task) => ({
      call: "agent_spawn",
      input: { agent_id, task, timeout_seconds: seconds },
    }));
  const caller = (
    name: string,
    called: HarnessAgent,
    turns: (asked: string) => readonly ScriptedTurn[],
  ) => {
    const subagents = [{ name: called.name, description: "Helps.", agent: called }];
    return agent(name, (request) => turns(askedIn(request))[request.assistantCount] ?? "Done.", {
      subagents,
    });
  };

  const manager = caller("manager", worker, (asked) => {
    const count = Number(asked);
    if (phase !== "queued") return [spawn("worker", Array(count).fill("Go."))];
    const input = { label: "one", message: "Go.", timeout_seconds: 600 };
    const first = { agent_id: "worker", task: "Go.", label: "one", timeout_seconds: 0 };
    const sends = Array.from({ length: count - 1 }, () => ({ call: "agent_send", input }));
    return [{ call: "agent_spawn", input: first }, sends];
  });
  const head = caller("head", manager, (asked) => [spawn("manager", asked.split(" "))]);
  const lead = caller("lead", head, () => [spawn("head", ["4 4", "3 3"])]);
  return { lead, expected: expectedIn(phase), busy: () => busy, requests: () => requests };
}

/** Returns the first user message of a request. */
function askedIn({ prompt }: ScriptedRequest): string {
  const asked = prompt.find(({ role }) => role === "user");
  const [part] = typeof asked?.content === "string" ? [] : (asked?.content ?? []);
  return part?.type === "text" ? part.text : "";
}
