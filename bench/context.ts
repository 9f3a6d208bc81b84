// Measures what compaction does to a long session: the share of each request with which the next one begins (provider
// prompt caches hit on it), the size of the prompts, and what a late iteration costs compared with an early one. The
// figures come from one run; the limits are ratios.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { HarnessAgent, jsonSchema, sqliteStore, tool } from "../src/index.ts";
import { scriptedModel } from "../src/testing.ts";

const limits = { share: 0.95, mean: 0.9, cost: 1.5 };
const window = 60_000;
const triggerTokens = 40_000;

const folder = mkdtempSync(join(tmpdir(), "rivulet-bench-"));
const summary = ["Goal", "Decisions", "Facts", "Files", "Open tasks", "Next steps"]
  .map((heading) => `## ${heading}\nReading pages, one after the other.`)
  .join("\n\n");
const page = tool({
  name: "read_page",
  description: "Reads a page.",
  input: jsonSchema<{ page: number }>({ type: "object", properties: { page: { type: "number" } } }),
  readOnly: true,
  execute: ({ page: number }) => `Page ${number}. ${"It says a few words. ".repeat(80)}`,
});

/** A request, and the CPU time at which it came. */
interface Request {
  readonly tokens: number;
  /** Undefined unless the requests are compared: encoding them would cost more than the loop. */
  readonly text: string | undefined;
  readonly cpuMs: number;
}

/** Four characters are one token. */
function tokensOf(prompt: LanguageModelV4CallOptions["prompt"]): number {
  let characters = 0;
  for (const { content } of prompt) {
    if (typeof content === "string") characters += content.length;
    else
      for (const part of content) {
        if ("text" in part) characters += part.text.length;
        if ("output" in part && "value" in part.output)
          characters += String(part.output.value).length;
      }
  }
  return characters / 4;
}

const cpuMs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
};

/** A model that reads pages, and counts tokens at four characters each. */
function pageReader(
  iterations: number,
  onRequest: (options: LanguageModelV4CallOptions, isSummary: boolean) => number,
) {
  let turn = 0;
  const model = {
    ...scriptedModel([]),
    async doStream(options: LanguageModelV4CallOptions) {
      const [system] = options.prompt;
      const isSummary = system?.role === "system" && system.content.startsWith("You summarise");
      const tokens = onRequest(options, isSummary);
      if (!isSummary) turn += 1;
      const isCall = !isSummary && turn < iterations;
      const said = isSummary ? summary : "All pages are read.";
      const usage = { inputTokens: { total: tokens }, outputTokens: { total: 20 } };
      const parts = [
        ...(isCall
          ? [
              {
                ...{ type: "tool-call", toolCallId: `call_${turn}`, toolName: "read_page" },
                input: JSON.stringify({ page: turn }),
              },
            ]
          : [
              { type: "text-start", id: "1" },
              { type: "text-delta", id: "1", delta: said },
              { type: "text-end", id: "1" },
            ]),
        {
          type: "finish",
          finishReason: { unified: isCall ? "tool-calls" : "stop", raw: undefined },
          usage,
        },
      ];
      const stream = new ReadableStream({
        start(controller) {
          for (const part of parts) controller.enqueue(part);
          controller.close();
        },
      });
      return { stream };
    },
  };
  return model as unknown as LanguageModelV4;
}

async function readPages(iterations: number, keepsText: boolean) {
  const requests: Request[] = [];
  const summaries: number[] = [];
  const model = pageReader(iterations, ({ prompt, tools }, isSummary) => {
    const tokens = tokensOf(prompt);
    const text = keepsText ? JSON.stringify([tools, prompt]).slice(0, -2) : undefined;
    if (isSummary) summaries.push(requests.length);
    else requests.push({ tokens, text, cpuMs: cpuMs() });
    return tokens;
  });
  const store = sqliteStore(join(folder, `${iterations}.db`));
  const agent = new HarnessAgent({
    ...{ name: "reader", model, store, tools: [page], workspace: join(folder, String(iterations)) },
    ...{ maxIters: iterations + 1, compaction: { window, triggerTokens }, todos: true },
  });
  let compactions = 0;
  const run = agent.run("Read all pages.");
  for await (const event of run)
    if (event.type === "task.custom" && event.name === "rivulet.compaction") compactions += 1;
  await run.result();
  await store.close();
  return { requests, summaries, compactions };
}

const commonStart = (a: string, b: string) => {
  let at = 0;
  while (at < a.length && a.charCodeAt(at) === b.charCodeAt(at)) at += 1;
  return at;
};
const median = (values: readonly number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

let isWithinLimits = true;
function report(title: string, figures: string, isOk: boolean): void {
  isWithinLimits &&= isOk;
  console.log(`${title}: ${figures} ${isOk ? "ok" : "OUT OF BOUNDS"}`);
}

const short = await readPages(200, true);
const shares = short.requests.slice(1).map(({ text = "" }, index) => {
  const before = short.requests[index]?.text ?? "";
  return commonStart(before, text) / before.length;
});
const broken = shares.filter((share) => share < limits.share);
const others = shares.filter((share) => share >= limits.share);
report(
  "200 iterations, share of a request with which the next one begins",
  `lowest outside compactions ${(Math.min(...others) * 100).toFixed(1)} % (limit ${limits.share * 100} %), ${broken.length} lower after ${short.compactions} compactions,`,
  broken.length <= short.compactions && short.compactions >= 2,
);
const mean = shares.reduce((sum, share) => sum + share, 0) / shares.length;
report(
  "the same, mean of all requests, compactions included",
  `${(mean * 100).toFixed(1)} % (limit ${limits.mean * 100} %)`,
  mean >= limits.mean,
);

const long = await readPages(1_000, false);
const largest = Math.max(...long.requests.map(({ tokens }) => tokens));
report(
  "1,000 iterations, largest prompt",
  `${Math.round(largest)} tokens (limit ${window}), ${long.compactions} compactions with ${long.summaries.length} summaries,`,
  largest <= window,
);
const times = long.requests.slice(1).map(({ cpuMs: now }, index) => {
  return now - (long.requests[index]?.cpuMs ?? 0);
});
const early = median(times.slice(5, 25)); // around iteration 10
const late = median(times.slice(-100));
report(
  "1,000 iterations, CPU time around iteration 10 → 1,000",
  `${early.toFixed(2)} → ${late.toFixed(2)} ms, ${(late / early).toFixed(2)} (limit ${limits.cost})`,
  late / early <= limits.cost,
);
rmSync(folder, { recursive: true });
process.exitCode = isWithinLimits ? 0 : 1;
