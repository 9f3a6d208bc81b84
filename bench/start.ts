// Measures the built package in cold processes: its import beside that of `ai`, a first reply, and what chunks, steps,
// parallel calls, children and runs cost beside a bare loop over the same model (cold.ts). The two sides of a row run
// interleaved, and each figure is the median of the ratios of the rounds. Name rows to measure only those:
// node bench/start.ts import hello chunks stream steps calls children runs
import { execFile } from "node:child_process";
import { promisify } from "node:util";

const rounds = 7;

interface Bound {
  /** What is reached, with room for noise. */
  readonly limit: number;
  /** What is wanted, where it is less. */
  readonly goal?: number;
}

const bounds = {
  import: { limit: 0.95, goal: 0.8 },
  hello: { limit: 0.9 },
  chunks: { 20000: { limit: 1.9, goal: 1.2 }, 100000: { limit: 1.5, goal: 1.08 } },
  stream: { limit: 1.4, goal: 1.15 },
  steps: { limit: 11, goal: 2 },
  calls: { limit: 8 },
  deep: { limit: 2.4, goal: 1.18 },
  wide: { limit: 3.2, goal: 1.25 },
  runs: { limit: 3.5, goal: 1.6 },
  kilobytesPerRun: { limit: 200, goal: 50 },
} as const;

/** With zod, which a program with a tool imports, and which `ai` imports itself. */
const importOf = (name: string) => `
const start = performance.now();
await import("${name}");
await import("zod");
console.log(performance.now() - start);
`;
/** A model that says one word. */
const model = `
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const parts = [
  { type: "text-start", id: "t" },
  { type: "text-delta", id: "t", delta: "Hello." },
  { type: "text-end", id: "t" },
  { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage },
];
const model = {
  specificationVersion: "v4",
  provider: "bench",
  modelId: "hello",
  supportedUrls: {},
  doStream: async () => ({ stream: ReadableStream.from(parts) }),
};
`;
/** From the start of the process to the first text. */
const rivuletHello = `${model}
const { ReActAgent } = await import("rivulet");
for await (const event of new ReActAgent({ name: "bench", model }).stream("go")) {
  if (event.text === "") continue;
  console.log(performance.now());
  break;
}
process.exit();
`;
const aiHello = `${model}
const { streamText } = await import("ai");
for await (const _ of streamText({ model, prompt: "go" }).textStream) {
  console.log(performance.now());
  break;
}
process.exit();
`;

const start = promisify(execFile);
const cwd = new URL("..", import.meta.url);
const flags = ["--expose-gc", "--no-warnings"];

/** The figures that a program prints, by name; of one that prints a number, as `ms`. */
type Figures = Readonly<Record<string, number>>;
type Program = () => Promise<Figures>;

function program(text: string): Program {
  return async () => {
    const options = [...flags, "--input-type=module", "--eval", text];
    const { stdout } = await start(process.execPath, options, { cwd });
    return { ms: Number(stdout) };
  };
}

function cold(side: "model" | "run" | "stream", workload: string): Program {
  return async () => {
    const options = [...flags, "bench/cold.ts", side, workload];
    const { stdout } = await start(process.execPath, options, { cwd });
    return JSON.parse(stdout);
  };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] as number;
}

/** Runs both programs in turn. */
async function pairsOf(first: Program, second: Program) {
  const pairs: (readonly [Figures, Figures])[] = [];
  for (let round = 0; round < rounds; round++) pairs.push([await first(), await second()]);
  return pairs;
}

function expectAtMost(title: string, figure: number, { limit, goal }: Bound): void {
  const isWithin = figure <= limit;
  const wanted = goal === undefined ? `limit ${limit}` : `limit ${limit}, goal ${goal}`;
  console.log(`${title}: ${figure.toFixed(2)} (${wanted}) ${isWithin ? "ok" : "TOO HIGH"}`);
  if (!isWithin) process.exitCode = 1;
}

type Pairs = Awaited<ReturnType<typeof pairsOf>>;

function expectRatio(title: string, pairs: Pairs, key: string, bound: Bound): void {
  const of = (side: 0 | 1) => pairs.map((pair) => pair[side][key] ?? Number.NaN);
  const ratios = of(0).map((value, round) => value / (of(1)[round] ?? Number.NaN));
  const ms = `${median(of(0)).toFixed(0)} ms / ${median(of(1)).toFixed(0)} ms`;
  expectAtMost(`${title}, ${ms}`, median(ratios), bound);
}

const rows: Record<string, () => Promise<void>> = {
  async import() {
    const pairs = await pairsOf(program(importOf("rivulet")), program(importOf("ai")));
    expectRatio("import / ai", pairs, "ms", bounds.import);
  },
  async hello() {
    const pairs = await pairsOf(program(rivuletHello), program(aiHello));
    expectRatio("first text / ai", pairs, "ms", bounds.hello);
  },
  async chunks() {
    const pairs = await pairsOf(cold("run", "chunks"), cold("model", "chunks"));
    for (const count of [20000, 100000] as const) {
      const title = `CPU of ${count.toLocaleString("en")} chunks / the model alone`;
      expectRatio(title, pairs, String(count), bounds.chunks[count]);
    }
  },
  async stream() {
    const pairs = await pairsOf(cold("stream", "chunks"), cold("run", "chunks"));
    expectRatio("CPU of 100,000 chunks, stream() / run()", pairs, "100000", bounds.stream);
  },
  async steps() {
    const pairs = await pairsOf(cold("run", "steps"), cold("model", "steps"));
    expectRatio("CPU of 200 steps / the model alone", pairs, "200", bounds.steps);
  },
  async calls() {
    const pairs = await pairsOf(cold("run", "calls"), cold("model", "calls"));
    expectRatio("CPU of 500 parallel calls / the model alone", pairs, "500", bounds.calls);
  },
  async children() {
    const pairs = await pairsOf(cold("run", "children"), cold("model", "children"));
    const deep = "CPU of 5,000 chunks of a child at depth 3 / the model alone";
    expectRatio(deep, pairs, "deep", bounds.deep);
    const wide = "CPU of 50 children of 200 chunks / the model alone";
    expectRatio(wide, pairs, "wide", bounds.wide);
  },
  async runs() {
    const pairs = await pairsOf(cold("run", "runs"), cold("model", "runs"));
    expectRatio("CPU of 1,000 runs at once / the model alone", pairs, "cpu", bounds.runs);
    const kilobytes = median(pairs.map(([{ kilobytes = Number.NaN }]) => kilobytes));
    expectAtMost("kilobytes of the process per run at once", kilobytes, bounds.kilobytesPerRun);
  },
};

const chosen = process.argv.slice(2);
const known = Object.keys(rows);
if (!chosen.every((name) => known.includes(name))) throw new Error(`Rows: ${known.join(", ")}.`);
console.log(`cold processes of Node ${process.versions.node}, medians of ${rounds}`);
for (const [name, measure] of Object.entries(rows))
  if (chosen.length === 0 || chosen.includes(name)) await measure();
