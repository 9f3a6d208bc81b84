import { setTimeout as sleep } from "node:timers/promises";
import { HarnessAgent, type Store, type Tool, tool } from "../../../../src/index.ts";
import { type ScriptedTurn, scriptedModel } from "../../../../src/testing.ts";
import { noteExecution } from "../../../support/executions.ts";

/** The conversation of the processes that are killed. */
export const sessionId = "session";

/** The number of background tasks of a lead. */
export const backgroundTasks = 20;

/** The calls of a worker, in order; `look` is idempotent, `pay` is not. */
export const workerCalls = ["look", "pay", "look", "pay"] as const;

/** A lead with twenty workers in the background. */
export function workCast(store: Store, folder: string): HarnessAgent {
  const spawn = { agent_id: "worker", task: "Work.", timeout_seconds: 0 };
  const calls = Array.from({ length: backgroundTasks }, () => ({
    call: "agent_spawn",
    input: spawn,
  }));
  const worker = agent(store, "worker", [...workerCalls.map((call) => ({ call })), "Worked."], {
    tools: [noting(folder, "look"), noting(folder, "pay")],
  });
  return agent(store, "lead", [calls, "They work.", "I have heard.", "I have heard."], {
    subagents: [{ name: "worker", description: "Works.", agent: worker }],
  });
}

/** A lead with a sync or background manager, whose clerk needs an approval. */
export function askCast(store: Store, folder: string, mode: "sync" | "background"): HarnessAgent {
  const clerk = agent(store, "clerk", [{ call: "transfer" }, "Transferred."], {
    tools: [noting(folder, "transfer")],
  });
  const manager = agent(store, "manager", [spawn("clerk", 600), "The clerk has done it."], {
    subagents: [{ name: "clerk", description: "Transfers.", agent: clerk }],
  });
  const seconds = mode === "sync" ? 600 : 0;
  return agent(store, "lead", [spawn("manager", seconds), "So be it.", "I have heard."], {
    subagents: [{ name: "manager", description: "Manages.", agent: manager }],
  });
}

function spawn(agent_id: string, timeout_seconds: number): ScriptedTurn {
  return { call: "agent_spawn", input: { agent_id, task: "Transfer it.", timeout_seconds } };
}

/** A tool that records its execution and takes a moment. */
function noting(folder: string, name: string): Tool {
  return tool({
    name,
    description: `Does ${name}.`,
    idempotent: name === "look",
    needsApproval: name === "transfer",
    async execute(_, { callId, messages, emit }) {
      const isRecorded = messages.some(({ content }) =>
        content.some((block) => block.type === "tool_result" && block.id === callId),
      );
      noteExecution(folder, { name, callId, isRecorded });
      emit(`${name} `);
      await sleep(1);
      return `${name} is done`;
    },
  });
}

/** An agent whose replies depend only on the transcript. */
function agent(
  store: Store,
  name: string,
  turns: readonly ScriptedTurn[],
  options: Partial<ConstructorParameters<typeof HarnessAgent>[0]>,
): HarnessAgent {
  return new HarnessAgent({
    name,
    model: scriptedModel(turns, { by: "prompt" }),
    store,
    filesystem: false,
    subagents: false,
    limits: { parallelChildren: backgroundTasks },
    ...options,
  });
}

/**
 * The store of a process that will be killed: its leases expire after this many milliseconds instead of ten seconds, to
 * shorten the test.
 */
export function withLeasesOf(ms: number, store: Store): Store {
  return {
    ...store,
    acquire: (id, owner) => store.acquire(id, owner, ms),
    renew: (leases) => store.renew(leases, ms),
  };
}
