import { createIds } from "../../../src/base/id.ts";
import type { Store } from "../../../src/contract/store.ts";
import { HarnessAgent, jsonSchema, type ReActAgent, tool } from "../../../src/index.ts";
import { type ScriptedPart, type ScriptedTurn, scriptedModel } from "../../../src/testing.ts";
import type { Random } from "../../support/random.ts";

/** The work of a run besides its three calls. */
export const kinds = ["plain", "nested", "background", "asking", "asking child"] as const;
/** One of these. */
export type Kind = (typeof kinds)[number];

/** How long a lease lasts without a renewal. */
export const leaseMs = 2_000;

const minutes = 600;
const input = jsonSchema({ type: "object", properties: {} });

/** The agents of one process; all randomness of their work comes from `random`. */
export function createCast(
  store: Store,
  random: Random,
  /** Called when a tool begins to work on a task. */
  onTool: (taskId: string, name: string, callId: string) => void,
): ReActAgent {
  const pause = () => ({ delayMs: random.int(1, 120) });
  const ids = createIds({ random: (bytes) => fill(bytes, random) });
  const toolOf = (name: string, options: { idempotent?: boolean; needsApproval?: boolean }) =>
    tool({
      name,
      description: "Works.",
      input,
      ...options,
      async execute(_, { callId, taskId }) {
        onTool(taskId, name, callId);
        await new Promise((resolve) => setTimeout(resolve, random.int(1, 400)));
        return `${name} is done`;
      },
    });
  const work = toolOf("work", { idempotent: true });
  const change = toolOf("change", {});
  const ask = toolOf("ask", { idempotent: true, needsApproval: true });

  function agent(
    name: string,
    script: (asked: string) => readonly ScriptedTurn[],
    children: readonly ReActAgent[] = [],
  ): ReActAgent {
    const model = scriptedModel(({ prompt, assistantCount }) => {
      return script(JSON.stringify(prompt))[assistantCount] ?? ["All ", pause(), "is done."];
    });
    return new HarnessAgent({
      ...{ name, agentId: name, model, store, ids, leaseMs, filesystem: false as const },
      description: "Works.",
      tools: [work, change, ask],
      subagents:
        children.length === 0
          ? (false as const)
          : children.map((child) => ({ name: child.name, description: "Helps.", agent: child })),
    });
  }

  const spawn = (agent_id: string, timeout_seconds: number): ScriptedPart => ({
    call: "agent_spawn",
    input: { agent_id, task: "Go.", timeout_seconds },
  });
  const calls = (...names: readonly string[]): ScriptedTurn => [
    pause(),
    "I ",
    pause(),
    "work. ",
    ...names.map((call) => ({ call })),
  ];
  const leaf = agent("leaf", () => [calls("work")]);
  const helper = agent(
    "helper",
    () => [calls("work", "change"), [pause(), spawn("leaf", minutes)]],
    [leaf],
  );
  const asker = agent("asker", () => [calls("ask")]);
  const scripts: Readonly<Record<Kind, readonly ScriptedTurn[]>> = {
    plain: [calls("work"), calls("change", "work")],
    nested: [[pause(), spawn("helper", minutes), { call: "work" }], calls("work", "change")],
    background: [[spawn("helper", 0), { call: "work" }], calls("work"), calls("change")],
    asking: [calls("work", "ask"), calls("work", "change")],
    "asking child": [[spawn("asker", minutes), { call: "work" }], calls("work", "change")],
  };
  return agent(
    "lead",
    (asked) => scripts[kinds.find((kind) => asked.includes(`Do: ${kind}.`)) ?? "plain"],
    [helper, asker],
  );
}

function fill(bytes: Uint8Array, random: Random): Uint8Array {
  for (let at = 0; at < bytes.length; at++) bytes[at] = random.int(0, 255);
  return bytes;
}
