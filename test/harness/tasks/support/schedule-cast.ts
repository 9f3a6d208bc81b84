import { z } from "zod";
import { HarnessAgent, type ReActAgent, tool } from "../../../../src/index.ts";
import { type ScriptedPart, type ScriptedRequest, scriptedModel } from "../../../../src/testing.ts";
import { turns } from "../../../agent/support/tools.ts";
import type { Random } from "../../../support/random.ts";
import type { SimulatedProcess } from "./simulated-process.ts";

/** The plans of a schedule, by the number in the prompt of a task. */
export interface Plans {
  /** Plans a root task and its descendants; returns the prompt for the lead. */
  ask(): string;
  turnFor(request: ScriptedRequest): readonly ScriptedPart[];
}

/** The prompt for a lead that only receives pending results. */
export const noPlan = "Do 9999.";

type Turn = (request: ScriptedRequest) => readonly ScriptedPart[];

const deepest = 2;

/** Plans that are created on demand, the same for the same seed. */
export function makePlans(random: Random): Plans {
  const plans: (readonly Turn[])[] = [];

  /** Plans a task at this depth. */
  function plan(depth: number): string {
    const number = plans.length;
    plans.push([]);
    const labels: string[] = [];
    const count = random.int(1, depth === 0 ? 3 : 2);
    plans[number] = Array.from({ length: count }, (_, turn) =>
      planTurn(depth, `${number}.${turn}`, labels),
    );
    return `Do ${number}.`;
  }

  function planTurn(depth: number, place: string, labels: string[]): Turn {
    const remarks: ScriptedPart[] = [
      ...(random.chance(0.3) ? [{ delayMs: random.int(1, 20_000) }] : []),
      ...(random.chance(0.3) ? [{ text: ["I shall ", "see. "] }] : []),
      ...(random.chance(0.2) ? [{ delayMs: random.int(1, 20_000) }] : []),
    ];
    const calls = Array.from({ length: random.int(1, 3) }, (_, n) =>
      planCall(depth, `${place}.${n}`, labels),
    );
    return (request) => [...remarks, ...calls.map((call) => call(request))];
  }

  function planCall(
    depth: number,
    place: string,
    labels: string[],
  ): (request: ScriptedRequest) => ScriptedPart {
    const wait = random.pick([0, 0, 1, 10, 600]);
    if (depth < deepest && random.chance(depth === 0 ? 0.55 : 0.35)) {
      const label = random.chance(0.4) ? `l${place}` : undefined;
      if (label) labels.push(label);
      const agent_id = depth === 0 && random.chance(0.5) ? "manager" : "worker";
      const input = { agent_id, task: plan(agent_id === "manager" ? 1 : 2), timeout_seconds: wait };
      return () => ({ call: "agent_spawn", input: { ...input, ...(label && { label }) } });
    }
    if (depth < deepest && labels.length > 0 && random.chance(0.4)) {
      const input = { label: random.pick(labels), message: plan(2), timeout_seconds: wait };
      return () => ({ call: "agent_send", input });
    }
    if (depth < deepest && random.chance(0.4)) {
      const name = random.pick(["task_output", "task_output", "task_cancel", "task_wait"]);
      const at = random.int(0, 5);
      if (name === "task_wait") return () => ({ call: name, input: { timeout_seconds: wait } });
      return (request) => ({ call: name, input: { task_id: taskIn(request, at) } });
    }
    const n = random.int(0, 12);
    const name = random.pick(["work", "work", "look", "ask"]);
    return () => ({ call: name, input: { n } });
  }

  return {
    ask: () => plan(0),
    turnFor(request) {
      const { number, turn } = standOf(request);
      const made = plans[number]?.[turn];
      return made ? made(request) : [`${number} is done.`];
    },
  };
}

/** Returns the task of a request and the number of its replies. */
function standOf({ prompt }: ScriptedRequest): { number: number; turn: number } {
  for (let at = prompt.length - 1; at >= 0; at--) {
    const message = prompt[at];
    if (message?.role !== "user") continue;
    const asked = message.content.flatMap((part) => (part.type === "text" ? [part.text] : []));
    const number = /^Do (\d+)\.$/.exec(asked.join(""))?.[1];
    if (number === undefined) continue;
    const turn = prompt.slice(at).filter(({ role }) => role === "assistant").length;
    return { number: Number(number), turn };
  }
  return { number: -1, turn: 0 };
}

/** A task in the prompt. */
function taskIn({ prompt }: ScriptedRequest, at: number): string {
  const found = JSON.stringify(prompt).match(/task_id: (?:call|task)_\w+/g) ?? [];
  return found.length === 0 ? "none" : (found[at % found.length] ?? "").slice("task_id: ".length);
}

/** The executions of tools in all processes. */
export type Executions = Map<string, { readonly name: string; times: number }>;

/** The agents of one process, which follow the plans. */
export function castOn(
  { store, clock }: SimulatedProcess,
  plans: Plans,
  executions: Executions,
): ReActAgent {
  const make = (name: string) =>
    tool({
      name,
      description: `Does ${name}.`,
      input: z.object({ n: z.number() }),
      needsApproval: name === "ask",
      idempotent: name === "look",
      async execute({ n }, { callId, signal, emit }) {
        const known = executions.get(callId) ?? { name, times: 0 };
        known.times += 1;
        executions.set(callId, known);
        emit(`${name} `);
        if (n % 3 === 1) await turns(n);
        else if (n % 3 === 2) await clock.sleep(n * 500, signal);
        return `${name} ${n}`;
      },
    });
  const common = {
    store,
    clock,
    model: scriptedModel((request) => plans.turnFor(request), { clock }),
    tools: ["work", "look", "ask"].map(make),
    approvalTimeoutMs: 3_600_000,
    filesystem: false,
    eviction: false,
  } as const;
  const worker = new HarnessAgent({ ...common, name: "worker", subagents: false });
  const workers = { name: "worker", description: "Works.", agent: worker };
  const manager = new HarnessAgent({ ...common, name: "manager", subagents: [workers] });
  const managers = { name: "manager", description: "Has others work.", agent: manager };
  return new HarnessAgent({ ...common, name: "lead", subagents: [workers, managers] });
}
