import type { LanguageModelV4, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import { connect } from "../../src/client.ts";
import { billedRecord, billSessions } from "../../src/harness/bill.ts";
import { agentTool, memoryStore, ReActAgent, type Store } from "../../src/index.ts";
import { addBills, billOf, billOfTree } from "../../src/protocol/bill.ts";
import { addAmounts } from "../../src/protocol/cost.ts";
import {
  addUsage,
  type Bill,
  type BillKey,
  noUsage,
  type Usage,
} from "../../src/protocol/index.ts";
import { emptyTree, reduce } from "../../src/protocol/reduce.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { readLog } from "../agent/support/laws.ts";
import { openFront } from "../remote/support/front.ts";

/** The outcome of one request: its tokens are known if the stream has a finish that tells them. */
interface Attempt {
  readonly kind: "ok" | "silent" | "failed" | "cut" | "refused";
  readonly input: number;
  readonly cached: number;
  readonly written: number;
  readonly output: number;
  readonly reasoning: number;
}
interface Turn {
  readonly attempts: readonly Attempt[];
  readonly children: readonly Node[];
}
interface Node {
  readonly turns: readonly Turn[];
  readonly isRemote: boolean;
  readonly hasPrice: boolean;
}
/** The requests to a model and their usage. */
interface Entry {
  readonly agent: string;
  readonly model: string;
  readonly usage: Usage;
  readonly isRetried: boolean;
  readonly isUnmetered: boolean;
  readonly hasPrice: boolean;
}

const token = "the-token-of-the-front";
const front = await openFront();
afterAll(() => front[Symbol.asyncDispose]());

const attempt: fc.Arbitrary<Attempt> = fc
  .record({
    kind: fc.constantFrom("ok", "ok", "ok", "silent", "failed", "cut", "refused"),
    ...{ fresh: fc.nat(50), cached: fc.nat(50), written: fc.nat(50) },
    ...{ text: fc.nat(50), reasoning: fc.nat(50) },
  })
  .map(({ fresh, text, ...rest }) => ({
    ...rest,
    input: 1 + fresh + rest.cached + rest.written,
    output: text + rest.reasoning,
  }));
const { node } = fc.letrec<{ node: Node; turn: Turn }>((tie) => ({
  node: fc.record({
    turns: fc.array(tie("turn"), { minLength: 1, maxLength: 3, depthIdentifier: "tree" }),
    isRemote: fc.boolean(),
    hasPrice: fc.boolean(),
  }),
  turn: fc.record({
    attempts: fc.array(attempt, { minLength: 1, maxLength: 4 }),
    children: fc.oneof(
      { depthIdentifier: "tree", maxDepth: 3, depthSize: "small" },
      fc.constant([]),
      fc.array(tie("node"), { minLength: 1, maxLength: 2 }),
    ),
  }),
}));

it("adds up to what the models have used and to what the events say, by every key", async () => {
  const seen = { retried: 0, unmetered: 0, fallbacks: 0, remote: 0, failed: 0 };
  const property = fc.asyncProperty(node, async (plan) => {
    const { store, entries, logs } = await play(plan);
    for (const { isRetried, isUnmetered, model } of entries) {
      seen.retried += Number(isRetried);
      seen.unmetered += Number(isUnmetered);
      seen.fallbacks += Number(model === "demo/small");
    }
    for (const { remote, status } of await store.tasks({})) {
      seen.remote += Number(remote !== undefined);
      seen.failed += Number(status === "failed");
    }
    const bills = logs.map(({ tree }) => tree);
    const inLog = (by: readonly BillKey[]) =>
      addBills(bills.map((tree) => billOfTree(tree, { by })));
    // The events and the models agree.
    expect(inLog([]).total).toMatchObject(sumOf(entries));
    const said = logs.flatMap(({ said }) => said).reduce(addUsage, noUsage);
    expect(inLog([]).total.usage).toEqual(said);
    for (const key of ["agent", "model"] as const)
      for (const row of inLog([key]).rows)
        expect(row).toMatchObject(sumOf(entries.filter((entry) => entry[key] === row[key])));
    // The records and the events agree, and no row counts twice.
    for (const by of [
      ["agent", "model"],
      ["path", "tool"],
      ["session", "day"],
    ] as const) {
      const records = await store.tasks({});
      const bill = billOf(records.map(billedRecord), { by });
      expect(bill).toEqual(inLog(by));
      expect((await billSessions(store, {}, { by })).bill).toEqual(bill);
      expect(bill.total).toEqual(inLog([]).total);
    }
  });
  await fc.assert(property, { numRuns: isDeep ? 1_000 : 100 });
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(10);
});

/** Runs the agents of a plan, some of them on a server, and returns what their models were asked. */
async function play(plan: Node) {
  const entries: Entry[] = [];
  const store = memoryStore();
  const served: ReActAgent[] = [];
  const far = memoryStore();
  let count = 0;
  const agentOf = (of: Node, own: Store): ReActAgent => {
    const name = `agent_${count++}`;
    const children = of.turns.map(({ children }) =>
      children.map((child) => {
        const where = child.isRemote && own === store ? far : own;
        const agent = agentOf(child, where);
        if (where === own) return agent;
        served.push(agent);
        return connect(front.url, { token }).agent(agent.name);
      }),
    );
    const turns = of.turns.map(({ attempts }, index) => ({
      attempts,
      calls: (children[index] ?? []).map((child) => child.name),
    }));
    const ask = (model: string) => askedModel(name, model, turns, of.hasPrice, entries);
    const started = turns.map(() => 0);
    const model = [ask("demo/large"), ask("demo/small")].map((make) => make(started)) as [
      LanguageModelV4,
      ...LanguageModelV4[],
    ];
    return new ReActAgent({
      ...{
        name,
        model,
        store: own,
        tools: children.flat().map((child) => agentTool(child as ReActAgent)),
      },
      modelExecution: { maxAttempts: 2, initialBackoffMs: 0 },
      ...(of.hasPrice && { price }),
    });
  };
  const root = agentOf(plan, store);
  front.serve(served.length > 0 ? served : [root], token);
  await root.call("Go.", { sessionId: "s" }).catch(() => {});
  const [{ taskId = "" } = {}] = await store.tasks({ sessionId: "s" });
  const events = await readLog(store, taskId);
  const last = new Map<string, Usage>();
  for (const event of events) if (event.type === "task.usage") last.set(event.task_id, event.usage);
  return {
    store,
    entries,
    logs: [{ tree: events.reduce(reduce, emptyTree()), said: [...last.values()] }],
  };
}

function price({ input_tokens, output_tokens }: Usage) {
  return { amount: (input_tokens + 3 * output_tokens) / 1_000, currency: "EUR" };
}

/** A model that does what its plan says, and writes down what that has used. */
function askedModel(
  agent: string,
  model: string,
  turns: readonly { readonly attempts: readonly Attempt[]; readonly calls: readonly string[] }[],
  hasPrice: boolean,
  entries: Entry[],
) {
  const [provider = "", modelId = ""] = model.split("/");
  return (started: number[]): LanguageModelV4 => ({
    ...{ specificationVersion: "v4", provider, modelId, supportedUrls: {} },
    doGenerate: () => Promise.reject(new Error("It streams.")),
    async doStream({ prompt }) {
      const turn = prompt.filter(({ role }) => role === "assistant").length;
      const { attempts = [], calls = [] } = turns[turn] ?? {};
      const at = started[turn] ?? 0;
      started[turn] = at + 1;
      const planned = attempts[at] ?? attempts.at(-1) ?? done;
      const { kind } = planned;
      if (kind === "refused") throw new Error("It is down.");
      const isKnown = kind === "ok" || kind === "failed";
      entries.push({
        ...{ agent, model, hasPrice, usage: isKnown ? usageOf(planned) : noUsage },
        ...{ isRetried: kind === "failed" || kind === "cut", isUnmetered: !isKnown },
      });
      return { stream: streamOf([...partsOf(planned, calls, turn)]) };
    },
  });
}

const done: Attempt = { kind: "ok", input: 1, cached: 0, written: 0, output: 1, reasoning: 0 };

function usageOf({ input, cached, written, output, reasoning }: Attempt): Usage {
  return {
    ...{ input_tokens: input, output_tokens: output, total_tokens: input + output },
    ...{ cached_input_tokens: cached, reasoning_tokens: reasoning },
    ...(written > 0 && { cache_write_tokens: written }),
  };
}

function streamOf(parts: readonly LanguageModelV4StreamPart[]) {
  return new ReadableStream<LanguageModelV4StreamPart>({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
}

function* partsOf(
  { kind, input, cached, written, output, reasoning }: Attempt,
  calls: readonly string[],
  turn: number,
): Generator<LanguageModelV4StreamPart> {
  yield { type: "stream-start", warnings: [] };
  yield { type: "text-start", id: "t" };
  yield { type: "text-delta", id: "t", delta: "Well." };
  yield { type: "text-end", id: "t" };
  if (kind === "cut") return;
  for (const [index, toolName] of calls.entries())
    yield {
      ...{ type: "tool-call", toolCallId: `call_${turn}_${index}`, toolName },
      input: JSON.stringify({ prompt: "Go." }),
    };
  const isSilent = kind === "silent";
  const unified = kind === "failed" ? "error" : calls.length > 0 ? "tool-calls" : "stop";
  const none = undefined;
  yield {
    type: "finish",
    finishReason: { unified, raw: unified },
    usage: isSilent
      ? {
          inputTokens: { total: none, noCache: none, cacheRead: none, cacheWrite: none },
          outputTokens: { total: none, text: none, reasoning: none },
        }
      : {
          inputTokens: { total: input, noCache: none, cacheRead: cached, cacheWrite: written },
          outputTokens: { total: output, text: none, reasoning },
        },
  };
}

function sumOf(entries: readonly Entry[]): Partial<Bill["total"]> {
  const usages = (kept: readonly Entry[]) =>
    kept.map(({ usage }) => usage).reduce(addUsage, noUsage);
  const amounts = entries
    .filter(({ hasPrice }) => hasPrice)
    .map(({ usage }) => String(Number(price(usage).amount.toPrecision(12))));
  const unpriced = entries.filter(({ hasPrice }) => !hasPrice);
  return {
    usage: usages(entries),
    retried: usages(entries.filter(({ isRetried }) => isRetried)),
    costs: amounts.length === 0 ? [] : [{ amount: amounts.reduce(addAmounts), currency: "EUR" }],
    unpriced_tokens: usages(unpriced).total_tokens,
    unmetered_calls: entries.filter(({ isUnmetered }) => isUnmetered).length,
  };
}
