// A server of the agents of generated trees, in a process of its own. Its parent sends one scene after another.
import { memoryStore } from "../../../src/index.ts";
import { castModel, castTools } from "../../harness/subagents/trees/cast.ts";
import { tasksOf } from "../../harness/subagents/trees/plan.ts";
import { openFront } from "./front.ts";
import { agentsOf, placedDeclarations } from "./placement.ts";
import type { FromServer, ToServer } from "./tree-server.ts";

const front = await openFront();
const report = (message: FromServer) => void process.send?.(message);

process.on("message", (message: ToServer) => {
  if (message.type === "flush") {
    report({ type: "flushed" });
    return;
  }
  const { plan, placement, token, via } = message.scene;
  const options = {
    model: castModel(tasksOf(plan)),
    tools: castTools({
      onCall: (callId) => report({ type: "executed", callId }),
      hold: () => Promise.reject(new Error("The clock of the root does not run here.")),
    }),
    ...{ store: memoryStore(), filesystem: false as const, parallel: plan.parallel },
    modelExecution: { maxAttempts: 1 },
    onWarning: (warning: string) => report({ type: "warned", warning }),
  };
  const subagents = (level: number) => placedDeclarations(placement, token, level, via);
  front.serve(agentsOf(options, subagents), token);
  report({ type: "serving" });
});
report({ type: "listening", url: front.url });
