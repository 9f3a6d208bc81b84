import { z } from "zod";
import { childResult } from "../../../src/agent/agent-tool.ts";
import { type Agent, agentTool, ReActAgent, type Store, tool } from "../../../src/index.ts";
import { type ScriptedTurn, scriptedModel } from "../../../src/testing.ts";
import type { Gates } from "./playground-scene.ts";

const model = (...turns: readonly ScriptedTurn[]) => scriptedModel(turns, { by: "prompt" });
const prompt = (text: string) => ({ prompt: text });

/** A tool that waits at a gate of the test. */
function hold(gates: Gates, name: string) {
  return tool({
    name: "hold",
    description: "Waits.",
    idempotent: true, // a restarted server runs it again
    async execute(_, { emit, signal }) {
      emit(`waiting at ${name}`);
      const aborted = new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      });
      await Promise.race([gates.at(name), aborted]);
      return "Passed.";
    },
  });
}

/** An agent that says something, waits at its gate, and says the rest. */
function worker(gates: Gates, name: string, more: readonly Agent[] = []): Agent {
  return new ReActAgent({
    name,
    description: `Works as ${name}.`,
    model: model(
      [
        { thinking: `${name} thinks.` },
        `${name} **begins** here. `,
        { call: "hold", input: {} },
        ...more.map((agent) => ({ call: agent.name, input: prompt(`Help ${name}.`) })),
      ],
      [`${name} is `, "done."],
    ),
    tools: [hold(gates, name), ...more.map((agent) => agentTool(agent))],
  });
}

/** lead → ann, bob → carl: two children in parallel, one with a child of its own, and one in the background. */
export function nestedTeam(store: Store, gates: Gates): readonly Agent[] {
  const carl = worker(gates, "carl");
  const dora = worker(gates, "dora");
  const background = tool({
    name: "start_dora",
    description: "Starts dora in the background.",
    idempotent: true,
    async execute(_, context) {
      return childResult(
        await context.runChild(dora, "List everything.", { agentId: "dora", mode: "background" }),
      );
    },
  });
  const lead = new ReActAgent({
    name: "lead",
    store,
    leaseMs: 1_000,
    description: "Leads.",
    tools: [agentTool(worker(gates, "ann")), agentTool(worker(gates, "bob", [carl])), background],
    model: model(
      [
        { thinking: "I split this." },
        "Starting. ",
        { call: "start_dora", input: {} },
        { call: "ann", input: prompt("The first part.") },
        { call: "bob", input: prompt("The second part.") },
      ],
      ["The answer ", "of the lead."],
      ["The second ", "answer."],
      ["The third ", "answer."],
    ),
  });
  return [lead];
}

/** lead → writer → critic, which edits a file if a person lets it. */
export function askingTeam(store: Store): readonly Agent[] {
  const edit = tool({
    name: "edit_file",
    description: "Edits a file.",
    input: z.object({ path: z.string(), old_string: z.string(), new_string: z.string() }),
    needsApproval: true,
    idempotent: true,
    execute: ({ path, new_string }) => `${path} now says ${new_string}`,
  });
  const question = tool({
    name: "ask_person",
    description: "Asks a person.",
    idempotent: true,
    execute: (_, context) => context.suspend("Which river?"),
  });
  const input = {
    path: "reports/deltas.md",
    old_string: "The delta grows.",
    new_string: "Where the river is strong, the delta grows.",
  };
  const critic = new ReActAgent({
    name: "critic",
    tools: [edit, question],
    model: scriptedModel(
      ({ prompt: messages, assistantCount }) => {
        const asked = JSON.stringify(messages);
        if (asked.includes("question") && assistantCount === 0)
          return { call: "ask_person", input: {} };
        if (assistantCount === 0)
          return ["This reads as if always. ", { call: "edit_file", input }];
        const result = JSON.stringify(messages.at(-1));
        if (asked.includes("twice") && assistantCount === 1)
          return { call: "edit_file", input: { ...input, path: "two.md" } };
        return [
          `The critic got: ${/now says [^"\\]*|denied[^"\\]*|Denied[^"\\]*|The \w+ river/.exec(result)?.[0] ?? result}`,
        ];
      },
      { by: "prompt" },
    ),
  });
  const writer = new ReActAgent({
    name: "writer",
    tools: [agentTool(critic)],
    model: scriptedModel(
      ({ prompt: messages, assistantCount }) => {
        const task = /(question|twice|edit)/.exec(JSON.stringify(messages))?.[0] ?? "edit";
        return assistantCount === 0
          ? ["Draft. ", { call: "critic", input: prompt(`Check: ${task}.`) }]
          : ["The writer is done."];
      },
      { by: "prompt" },
    ),
  });
  const lead = new ReActAgent({
    name: "lead",
    store,
    leaseMs: 1_000,
    tools: [agentTool(writer)],
    model: scriptedModel(
      ({ prompt: messages }) => {
        const last = messages.at(-1);
        const task = /(question|twice|edit)/.exec(JSON.stringify(last))?.[0] ?? "edit";
        return last?.role === "user"
          ? ["Let me see. ", { call: "writer", input: prompt(`Write: ${task}.`) }]
          : ["The lead is done."];
      },
      { by: "prompt" },
    ),
  });
  return [lead];
}

/** lead → helper → reader, which reads a file; the lead cites what the reader has read. */
export function citingTeam(store: Store): readonly Agent[] {
  const read = tool({
    name: "read_article",
    description: "Reads an article.",
    input: z.object({ path: z.string() }),
    execute: () =>
      "1\t# Deltas\n2\tA river delta forms where a river meets standing water.\n3\tMany shrink.",
  });
  const cites = (text: string) => `${text}[^1]`;
  const reader = new ReActAgent({
    name: "reader",
    references: true,
    tools: [read],
    model: model(
      { call: "read_article", input: { path: "library/deltas.md" } },
      cites("A river delta forms where a river meets standing water."),
    ),
  });
  const helper = new ReActAgent({
    name: "helper",
    references: true,
    tools: [agentTool(reader)],
    model: model(
      { call: "reader", input: prompt("Read.") },
      cites("Deltas form at standing water."),
    ),
  });
  const lead = new ReActAgent({
    name: "lead",
    store,
    references: true,
    tools: [agentTool(helper)],
    model: model(
      { call: "helper", input: prompt("Find out.") },
      cites("A delta forms where a river meets standing water."),
    ),
  });
  return [lead];
}

/** Two agents to choose from: a lead with two researchers that have a critic each, and a helper that answers alone. */
export function twoAgents(store: Store, gates: Gates): readonly Agent[] {
  const researcher = worker(gates, "researcher", [worker(gates, "critic")]);
  const lead = new ReActAgent({
    ...{ name: "lead", store, leaseMs: 1_000, description: "Leads two researchers." },
    tools: [agentTool(researcher)],
    model: model(
      [
        { call: "researcher", input: prompt("The first part.") },
        { call: "researcher", input: prompt("The second part.") },
      ],
      ["The answer ", "of the lead."],
    ),
  });
  const helper = new ReActAgent({
    ...{ name: "helper", store, leaseMs: 1_000, description: "Answers alone." },
    model: model(["The first answer of the helper."], ["The second answer of the helper."]),
  });
  return [lead, helper];
}

/** A lead with two models, each of which says its name, and an agent that has one. */
export function twoModels(store: Store): readonly Agent[] {
  const named = (modelId: string) =>
    scriptedModel(({ assistantCount }) => `Answer ${assistantCount + 1} of ${modelId}.`, {
      modelId,
    });
  const [swift, careful] = [named("swift-mini"), named("careful-large-20250929")];
  return [
    new ReActAgent({
      ...{ name: "lead", description: "Has two models.", store, leaseMs: 1_000 },
      ...{ model: swift, models: [careful] },
    }),
    new ReActAgent({ name: "helper", description: "Has one model.", store, model: named("own") }),
  ];
}

/** lead → ann, bob → carl: ann's calls have a price and a retry, bob waits at a gate before his child. */
export function pricedTeam(store: Store, gates: Gates): readonly Agent[] {
  const spent = (inputTokens: number, outputTokens: number) => ({
    usage: { inputTokens, outputTokens, cachedInputTokens: inputTokens / 2 },
  });
  const price = (usage: { total_tokens: number }) => ({
    amount: usage.total_tokens / 1_000,
    currency: "EUR",
  });
  const carl = new ReActAgent({
    ...{ name: "carl", description: "Works as carl." },
    model: model(["Carl is done.", spent(60, 20)]),
  });
  let attempts = 0;
  const ann = new ReActAgent({
    ...{ name: "ann", description: "Works as ann.", price },
    modelExecution: { initialBackoffMs: 0 },
    model: scriptedModel(() =>
      attempts++ === 0
        ? ["Ann stops.", spent(40, 10), { finish: "error" as const }]
        : ["Ann is done.", spent(100, 50)],
    ),
  });
  const bob = new ReActAgent({
    ...{ name: "bob", description: "Works as bob.", tools: [hold(gates, "bob"), agentTool(carl)] },
    model: model(
      [{ call: "hold", input: {} }, spent(30, 10)],
      [{ call: "carl", input: prompt("Help.") }, spent(30, 10)],
      ["Bob is done.", spent(40, 10)],
    ),
  });
  const lead = new ReActAgent({
    ...{ name: "lead", store, description: "Leads.", tools: [agentTool(ann), agentTool(bob)] },
    model: model(
      [
        { call: "ann", input: prompt("The first part.") },
        { call: "bob", input: prompt("The second part.") },
        spent(150, 50),
      ],
      ["The answer of the lead.", spent(200, 40)],
    ),
  });
  return [lead];
}
