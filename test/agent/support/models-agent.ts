// An agent with two models: node models-agent.ts <database> runs a task with the second one and hangs in its tool.
import { ReActAgent, tool } from "../../../src/index.ts";
import { scriptedModel } from "../../../src/testing.ts";

/** The agent; `onHang` is called when its tool hangs. */
export function modelsAgent(path: string, onHang: () => void = () => {}) {
  const hang = tool({
    name: "hang",
    description: "Hangs.",
    execute(_, { signal }) {
      onHang();
      return new Promise<string>((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      });
    },
  });
  const named = (modelId: string) =>
    scriptedModel(
      ({ assistantCount }) => (assistantCount === 0 ? { call: "hang" } : `I am ${modelId}.`),
      { modelId },
    );
  const [fast, careful] = [named("fast"), named("careful")];
  const options = { store: `sqlite:${path}`, leaseMs: 500, tools: [hang] };
  const agent = new ReActAgent({ name: "lead", model: fast, models: [careful], ...options });
  return { agent, fast, careful };
}

if (import.meta.main) {
  const { agent } = modelsAgent(process.argv[2] ?? "", () => console.log("hangs"));
  await agent.call("Go.", { sessionId: "s", model: "scripted:careful" });
}
