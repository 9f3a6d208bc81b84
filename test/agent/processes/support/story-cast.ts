import { setTimeout as sleep } from "node:timers/promises";
import { HarnessAgent, jsonSchema, type Store, type Tool, tool } from "../../../../src/index.ts";
import { noteExecution } from "../../../support/executions.ts";
import { play, promptModel, spawn } from "./script-prompt.ts";

/** The session that all processes of a story share. */
export const sessionId = "session";

/** The tools that may run again after a crash. */
export const repeatable: ReadonlySet<string> = new Set(["look", "sign"]);

const call = (name: string, n: number) => ({ call: name, input: { n } });

/** The script of the first process: its task starts two background children and ends. */
export const firstMessage = play(
  [
    spawn(
      "worker",
      [{ text: "Let me see. " }, { delayMs: 40 }, call("look", 1)],
      [{ delayMs: 40 }, call("pay", 2)],
      [{ text: ["Once ", "more. "] }, { delayMs: 40 }, call("look", 3)],
      { text: ["Wor", "ked."] },
    ),
    spawn(
      "worker",
      [{ delayMs: 30 }, call("look", 4)],
      [{ text: "May I? " }, call("sign", 5)],
      [{ delayMs: 30 }, call("pay", 6)],
      { text: ["Sig", "ned."] },
    ),
  ],
  "Started.",
);

/** The script of the second process while the children of the first task run. */
export const secondMessage = play(
  [{ text: "On " }, { delayMs: 60 }, { text: "it. " }, { delayMs: 60 }, call("look", 7)],
  [{ delayMs: 60 }, call("pay", 8)],
  { text: ["Sec", "ond."] },
);

/** The agent that every process of a story has. */
export function storyAgent(store: Store, folder: string): HarnessAgent {
  const common = { store, model: promptModel(), leaseMs: 1_000, filesystem: false } as const;
  const tools = ["look", "pay", "sign"].map((name) => notingTool(folder, name));
  const worker = new HarnessAgent({ ...common, name: "worker", tools, subagents: false });
  const subagents = [{ name: "worker", description: "Works.", agent: worker }];
  return new HarnessAgent({ ...common, name: "lead", tools, subagents });
}

/** A tool that notes its executions and takes a moment. */
function notingTool(folder: string, name: string): Tool {
  return tool({
    name,
    description: `Does ${name}.`,
    input: jsonSchema<{ n: number }>({ type: "object", properties: { n: { type: "integer" } } }),
    idempotent: repeatable.has(name),
    needsApproval: name === "sign",
    async execute({ n }, { callId, messages, emit }) {
      const isRecorded = messages.some(({ content }) =>
        content.some((block) => block.type === "tool_result" && block.id === callId),
      );
      noteExecution(folder, { name, callId, isRecorded });
      emit(`${name} `);
      await sleep(10);
      emit(`${n}`);
      return `${name} ${n}`;
    },
  });
}
