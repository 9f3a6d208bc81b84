// One measurement of the built package in a new process, which start.ts starts: `node bench/cold.ts <side> <workload>`.
// Prints the figures as JSON. The side `model` is a bare loop over the same model, which does what every agent must do:
// it reads the stream, calls the tools and serializes each part once.
import { setTimeout as sleep } from "node:timers/promises";
import type { LanguageModelV4, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type * as Rivulet from "../src/index.ts";

type Part = LanguageModelV4StreamPart;
type Turn = readonly Part[];

/** A scripted agent: its turns in order, its tools, and its children, which are tools as well. */
interface Script {
  readonly name: string;
  readonly turns: readonly Turn[];
  readonly tools?: readonly string[];
  readonly children?: readonly Script[];
  /** Every call of the model replays the first turn, for an agent that runs many times at once. */
  readonly isRepeated?: boolean;
  readonly delayMs?: number;
}

/** Runs a script and returns the number of text chunks that its caller got, those of children included. */
type Run = (script: Script) => Promise<number>;

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** A turn of text; each chunk has other words, as those of a provider do. */
function words(count: number): Turn {
  const text = (index: number) => `w${String(index).padStart(6, "0")} `;
  return [
    { type: "text-start", id: "t" },
    ...Array.from({ length: count }, (_, index): Part => {
      return { type: "text-delta", id: "t", delta: text(index) };
    }),
    { type: "text-end", id: "t" },
  ];
}

/** A turn of parallel calls, with their arguments in five pieces. */
function calls(count: number, toolName: string, first = 0): Turn {
  return Array.from({ length: count }, (_, index): Part[] => {
    const id = `call-${first + index}`;
    const input = JSON.stringify({ prompt: `number ${first + index}` });
    const width = Math.ceil(input.length / 5);
    const deltas = [0, 1, 2, 3, 4].map((piece): Part => {
      const delta = input.slice(piece * width, (piece + 1) * width);
      return { type: "tool-input-delta", id, delta };
    });
    return [
      { type: "tool-input-start", id, toolName },
      ...deltas,
      { type: "tool-input-end", id },
      { type: "tool-call", toolCallId: id, toolName, input },
    ];
  }).flat();
}

function modelOf({ turns, isRepeated, delayMs }: Script): LanguageModelV4 {
  let step = 0;
  async function* replay(turn: Turn): AsyncGenerator<Part> {
    for (const part of turn) {
      if (delayMs !== undefined && part.type === "text-delta") await sleep(delayMs);
      yield part;
    }
  }
  async function* partsOf(turn: Turn): AsyncGenerator<Part> {
    yield { type: "stream-start", warnings: [] };
    yield* replay(turn);
    const isCalling = turn.some(({ type }) => type === "tool-call");
    const reason = isCalling ? "tool-calls" : "stop";
    yield { type: "finish", finishReason: { unified: reason, raw: reason }, usage };
  }
  return {
    specificationVersion: "v4",
    provider: "bench",
    modelId: "scripted",
    supportedUrls: {},
    doGenerate: () => Promise.reject(new Error("The bench only streams.")),
    async doStream() {
      const turn = turns[isRepeated ? 0 : Math.min(step++, turns.length - 1)] as Turn;
      const parts = partsOf(turn);
      const stream = new ReadableStream<Part>({
        async pull(controller) {
          const { value, done } = await parts.next();
          if (done) controller.close();
          else controller.enqueue(value);
        },
      });
      return { stream };
    },
  };
}

function runModel(script: Script): Run {
  const model = modelOf(script);
  const children = new Map(script.children?.map((child) => [child.name, runModel(child)]));
  return async () => {
    let chunks = 0;
    for (let step = 0; step < script.turns.length; step++) {
      const open: { readonly name: string; readonly input: unknown }[] = [];
      const { stream } = await model.doStream({ prompt: [] });
      for await (const part of stream) {
        const isText = part.type === "text-delta";
        JSON.stringify({ type: part.type, chunks, ...(isText && { delta: part.delta }) });
        if (isText) chunks += 1;
        if (part.type === "tool-call")
          open.push({ name: part.toolName, input: JSON.parse(part.input) });
      }
      if (open.length === 0) break;
      const results = open.map(async ({ name }) => (await children.get(name)?.(script)) ?? 0);
      for (const result of await Promise.all(results)) {
        chunks += result;
        JSON.stringify({ type: "tool-result", result });
      }
    }
    return chunks;
  };
}

const { ReActAgent, agentTool, tool, jsonSchema }: typeof Rivulet =
  process.argv[2] === "model" ? ({} as typeof Rivulet) : await import("rivulet" as string);

function agentOf({ name, turns, tools = [], children = [], ...model }: Script): Rivulet.ReActAgent {
  const input = () =>
    jsonSchema<{ prompt: string }>({ type: "object", properties: { prompt: { type: "string" } } });
  return new ReActAgent({
    name,
    model: modelOf({ name, turns, ...model }),
    tools: [
      ...tools.map((name) =>
        tool({ name, description: name, input: input(), execute: ({ prompt }) => prompt }),
      ),
      ...children.map((child) => agentTool(agentOf(child))),
    ],
    maxIters: turns.length,
  });
}

const sides: Record<string, (script: Script) => Run> = {
  model: runModel,
  run: (script) => {
    const agent = agentOf(script);
    return async () => {
      let chunks = 0;
      for await (const { type } of agent.run("go")) if (type === "task.text.delta") chunks += 1;
      return chunks;
    };
  },
  stream: (script) => {
    const agent = agentOf(script);
    return async () => {
      let chunks = 0;
      for await (const event of agent.stream("go"))
        if (event.type === "reasoning" && !event.last) chunks += 1;
      return chunks;
    };
  },
};

const side = sides[process.argv[2] ?? ""];
if (side === undefined) throw new Error(`Sides: ${Object.keys(sides).join(", ")}.`);

/** The milliseconds of CPU that `count` runs of a script at once take, after a check of what they return. */
async function cpuOf(script: Script, chunks: number, count = 1): Promise<number> {
  const run = (side as (script: Script) => Run)(script);
  globalThis.gc?.();
  const before = process.cpuUsage();
  const got = await Promise.all(Array.from({ length: count }, () => run(script)));
  const { user, system } = process.cpuUsage(before);
  for (const seen of got)
    if (seen !== chunks) throw new Error(`got ${seen} chunks instead of ${chunks}`);
  return (user + system) / 1_000;
}

const text = (count: number): Script => ({ name: "talker", turns: [words(count)] });
const steps = (count: number): Script => ({
  name: "worker",
  turns: [...Array.from({ length: count }, (_, step) => calls(1, "add", step)), words(3)],
  tools: ["add"],
});
const parallel = (count: number): Script => ({
  name: "worker",
  turns: [calls(count, "add"), words(3)],
  tools: ["add"],
});

/** Leads above a leaf that streams; the first lead has `width` children. */
function nested(depth: number, chunks: number, width = 1): Script {
  const child: Script =
    depth === 1 ? { ...text(chunks), isRepeated: true } : nested(depth - 1, chunks);
  const turns = [calls(width, child.name), words(3)];
  return { name: `lead-${depth}`, turns, children: [child] };
}

/** Each workload runs small sizes first, as the process of a program has done something before. */
const workloads: Record<string, () => Promise<Record<string, number>>> = {
  async chunks() {
    for (const count of [500, 2_000, 2_000]) await cpuOf(text(count), count);
    return {
      20000: await cpuOf(text(20_000), 20_000),
      100000: await cpuOf(text(100_000), 100_000),
    };
  },
  async steps() {
    for (const count of [20, 50]) await cpuOf(steps(count), 3);
    return { 200: await cpuOf(steps(200), 3) };
  },
  async calls() {
    for (const count of [20, 100]) await cpuOf(parallel(count), 3);
    return { 500: await cpuOf(parallel(500), 3) };
  },
  async children() {
    await cpuOf(nested(1, 500), 503);
    for (const depth of [1, 2]) await cpuOf(nested(depth, 5_000), 5_000 + 3 * depth);
    return {
      deep: await cpuOf(nested(3, 5_000), 5_000 + 9),
      wide: await cpuOf(nested(1, 200, 50), 50 * 200 + 3),
    };
  },
  async runs() {
    const script: Script = { ...text(50), isRepeated: true, delayMs: 1 };
    await cpuOf(script, 50, 20);
    globalThis.gc?.();
    const before = process.memoryUsage.rss();
    const cpu = await cpuOf(script, 50, 1_000);
    const grown = process.resourceUsage().maxRSS * 1_024 - before;
    return { cpu, kilobytes: grown / 1_024 / 1_000 };
  },
};

const workload = workloads[process.argv[3] ?? ""];
if (workload === undefined) throw new Error(`Workloads: ${Object.keys(workloads).join(", ")}.`);
console.log(JSON.stringify(await workload()));
