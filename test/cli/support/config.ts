// A team with a scripted model for the tests of the command line. It does what the last message asks for.
import { z } from "zod";
import { HarnessAgent, tool } from "../../../src/index.ts";
import { type Script, scriptedModel } from "../../../src/testing.ts";

/** The text that a person must be able to read whole: wide characters, a long word, and a line of each width. */
export const longText = [
  ...["水が流れる。😀 A river crosses the plain.", "w".repeat(130)],
  ...[40, 80, 120].map((width) => `${"=".repeat(width - 1)}|`),
].join("\n");

const script: Script = ({ prompt, tools }) => {
  const last = prompt.at(-1);
  const asked = prompt.findLast(({ role }) => role === "user");
  const text = JSON.stringify(asked?.content);
  if (!tools?.some(({ name }) => name === "agent_spawn"))
    return [
      { thinking: "I look. " },
      { delayMs: text.includes("long") ? 60_000 : 300 },
      { text: ["The helper ", "found it."] },
    ];
  const isAnswered = last?.role === "tool";
  if (JSON.stringify(prompt).includes("meanwhile"))
    return prompt.some(({ role }) => role === "tool")
      ? "Done."
      : [
          { call: "agent_spawn", input: { agent_id: "helper", task: "Look.", timeout_seconds: 0 } },
          { call: "remove", input: { path: "a.txt" } },
        ];
  if (text.includes("fail")) return [{ error: new Error("The model broke.") }];
  if (text.includes("slow")) return [{ text: ["Slowly"] }, { delayMs: 60_000 }];
  if (text.includes("remove") && !isAnswered)
    return [{ call: "remove", input: { path: "a.txt", note: longText } }];
  if (text.includes("background") && !isAnswered)
    return [
      {
        call: "agent_spawn",
        input: { agent_id: "helper", task: "Look long.", timeout_seconds: 0 },
      },
    ];
  if (text.includes("team") && !isAnswered)
    return [
      "I ask two helpers.",
      ...["helper", "helper"].map((agent_id) => ({
        call: "agent_spawn",
        input: { agent_id, task: "Look." },
      })),
    ];
  if (isAnswered) return [{ text: ["Done.\n", longText] }];
  return `You said ${prompt.filter(({ role }) => role === "user").length} things.`;
};

const remove = tool({
  name: "remove",
  description: "Removes a file.",
  input: z.object({ path: z.string(), note: z.string().optional() }),
  needsApproval: true,
  execute: ({ path }) => `removed ${path}`,
});

export default {
  agents: [
    new HarnessAgent({
      ...{ name: "lead", model: scriptedModel(script), tools: [remove], leaseMs: 1_000 },
      subagents: [{ name: "helper", description: "Helps.", systemPrompt: "Help." }],
    }),
  ],
};
