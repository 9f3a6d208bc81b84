import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import {
  agentTool,
  memoryStore,
  ReActAgent,
  type Store,
  sqliteStore,
  tool,
} from "../../src/index.ts";
import { serve } from "../../src/server.ts";
import { unlimited } from "../../test/support/unlimited.ts";
import { liveModel } from "./model.ts";
import { children, type SideOptions, type Start } from "./side.ts";
import { stampOf, wheel } from "./wheel.ts";

function agentOf({ workload, tokens }: SideOptions, store: Store): ReActAgent {
  const text = () => liveModel({ kind: "text", ...(tokens !== undefined && { tokens }) });
  const common = { name: "bench", systemPrompt: "bench", store };
  if (workload === "flat") return new ReActAgent({ ...common, model: text() });
  if (workload === "nested") {
    const tools = children.map((name) =>
      agentTool(new ReActAgent({ ...common, name, description: name, model: text() })),
    );
    const model = liveModel({ kind: "lead", tools: children });
    return new ReActAgent({ ...common, model, tools });
  }
  if (workload === "steps") {
    const step = tool({
      name: "step",
      description: "One step.",
      input: z.object({ at: z.number() }),
      execute({ at }) {
        wheel.produced += 1;
        return `ok ${stampOf(at)}`;
      },
    });
    const model = liveModel({ kind: "steps" });
    return new ReActAgent({ ...common, model, tools: [step], maxIters: 1e6 });
  }
  const ask = tool({
    name: "ask",
    description: "Asks.",
    input: z.object({ prompt: z.string() }),
    needsApproval: true,
    execute: () => "ok",
  });
  const model = liveModel({ kind: "lead", tools: ["ask"] });
  return new ReActAgent({ ...common, model, tools: [ask] });
}

/** `serve()` as documented; the limits per user are off, because one client plays all users. */
export const start: Start = async (options) => {
  let store = memoryStore();
  if (options.store === "sqlite") {
    const folder = mkdtempSync(join(tmpdir(), "rivulet-live-"));
    process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
    store = sqliteStore(join(folder, "store.db"));
  }
  const agent = agentOf(options, store);
  const { url, token } = await serve({ agents: [agent], port: 0, log: false, limits: unlimited });
  const isSteps = options.workload === "steps";
  return {
    port: Number(new URL(url).port),
    path: "/v1/tasks",
    headers: { authorization: `Bearer ${token}` },
    body: { agent: "bench", input: "go", stream: true },
    // A step has its text in one frame, with its end.
    mark: isSteps ? '"task.output_item.done"' : '"task.text.delta"',
    field: isSteps ? '"text":"ok ' : '"delta":"',
    stream: '"task_id":"',
  };
};
