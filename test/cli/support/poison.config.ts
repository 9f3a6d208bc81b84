// Agents whose tools take the process down, with innocent ones beside them.
import { jsonSchema, ReActAgent, tool } from "../../../src/index.ts";
import { type Script, scriptedModel } from "../../../src/testing.ts";

const leaseMs = 400;
const input = jsonSchema({ type: "object", properties: {} });
const common = { input, description: "Works.", idempotent: true } as const;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const deeds: Readonly<Record<string, () => unknown>> = {
  freeze: () => {
    for (;;);
  },
  abort: () => process.abort(),
  exit: () => process.exit(3),
  fill: async () => {
    const full: string[][] = [];
    for (;;) {
      full.push(Array.from({ length: 20_000 }, (_, n) => `${n}`));
      await pause(0);
    }
  },
  // Longer than the processes live while the others take them down.
  walk: async () => {
    await pause(1_500);
    return "walked";
  },
};
const tools = Object.entries(deeds).map(([name, execute]) =>
  tool({ ...common, name, execute: async () => String(await execute()) }),
);

/** Calls the tool that the message names; any other message is answered at once. */
const script: Script = ({ prompt }) => {
  const last = prompt.at(-1);
  if (last?.role === "tool") return "Done.";
  const text = JSON.stringify(last?.content);
  const called = Object.keys(deeds).find((name) => text.includes(name));
  return called === undefined ? "Hello." : { call: called };
};

export default {
  agents: [
    new ReActAgent({
      name: "worker",
      model: scriptedModel(script),
      tools,
      leaseMs,
      store: "sqlite:store.db",
    }),
  ],
};
