// Measures the built package in cold processes: its import beside that of `ai`, a first reply, and the cost of a chunk
// beside a bare loop over the same model. Each figure is the median of ratios within a round.
import { execFile } from "node:child_process";
import { promisify } from "node:util";

const rounds = 7;
const limits = { import: 0.95, hello: 0.9, stream: 1.25, chunks: { 20000: 1.9, 100000: 1.8 } };
/** What is wanted and not reached everywhere. */
const goals = { import: 0.8, stream: 1.15, chunks: { 20000: 1.2, 100000: 1.08 } };

/** Shared by all programs: a model that streams words as providers do, without a delay, and the CPU time of a run in milliseconds. */
const common = `
async function* wordsOf(count) {
  for (let sent = 0; sent < count; sent++) yield "someword";
}
async function* partsOf(count) {
  yield { type: "text-start", id: "t" };
  for await (const delta of wordsOf(count)) yield { type: "text-delta", id: "t", delta };
  yield { type: "text-end", id: "t" };
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
  yield { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage };
}
const words = (count) => {
  const parts = partsOf(count);
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = await parts.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
};
const modelOf = (count) => ({
  specificationVersion: "v4",
  provider: "bench",
  modelId: "words",
  supportedUrls: {},
  doStream: async () => ({ stream: words(count) }),
});
const cpuOf = async (work) => {
  globalThis.gc();
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
};
const expectCount = (got, wanted) => {
  if (got !== wanted) throw new Error("got " + got + " chunks instead of " + wanted);
};
`;
const rivulet = `
const { ReActAgent } = await import("rivulet");
const agentOf = (count) => new ReActAgent({ name: "bench", model: modelOf(count) });
`;
/** A run of \`count\` chunks in a process that has run a few chunks before. */
const chunkRun = (run: string, count: number) => `${common}${run}
await cpuOf(() => run(500));
await cpuOf(() => run(2000));
console.log(await cpuOf(() => run(${count})));
`;
const bareRun = `
const run = async (count) => {
  let seen = 0;
  for await (const part of words(count)) {
    if (JSON.stringify({ seen, delta: part.delta }) && part.type === "text-delta") seen += 1;
  }
  expectCount(seen, count);
};
`;
const agentRun = `${rivulet}
const run = async (count) => {
  let seen = 0;
  for await (const event of agentOf(count).run("go")) if (event.type === "task.text.delta") seen += 1;
  expectCount(seen, count);
};
`;
const agentStream = `${rivulet}
const run = async (count) => {
  let seen = 0;
  for await (const event of agentOf(count).stream("go")) {
    if (event.type === "reasoning" && !event.last) seen += 1;
  }
  expectCount(seen, count);
};
`;
/** With zod, which a program with a tool imports, and which \`ai\` imports itself. */
const importOf = (name: string) => `
const start = performance.now();
await import("${name}");
await import("zod");
console.log(performance.now() - start);
`;
/** From the start of the process to the first text. */
const rivuletHello = `${common}${rivulet}
for await (const event of agentOf(1).stream("go")) {
  if (event.text === "") continue;
  console.log(performance.now());
  break;
}
process.exit();
`;
const aiHello = `${common}
const { streamText } = await import("ai");
for await (const _ of streamText({ model: modelOf(1), prompt: "go" }).textStream) {
  console.log(performance.now());
  break;
}
process.exit();
`;

const run = promisify(execFile);
const cwd = new URL("..", import.meta.url);

/** Runs a program in a new process and returns the number that it prints. */
async function measure(program: string): Promise<number> {
  const flags = ["--expose-gc", "--no-warnings", "--input-type=module", "--eval", program];
  const { stdout } = await run(process.execPath, flags, { cwd });
  return Number(stdout);
}

/** The first program over the second, in interleaved cold processes. */
async function compare(first: string, second: string) {
  const pairs: { readonly ratio: number; readonly first: number; readonly second: number }[] = [];
  for (let round = 0; round < rounds; round++) {
    const pair = { first: await measure(first), second: await measure(second) };
    pairs.push({ ...pair, ratio: pair.first / pair.second });
  }
  const median = (key: "first" | "second" | "ratio") =>
    pairs.map((pair) => pair[key]).sort((a, b) => a - b)[rounds >> 1] as number;
  return { first: median("first"), second: median("second"), ratio: median("ratio") };
}

async function expectAtMost(
  title: string,
  first: string,
  second: string,
  limit: number,
  goal = limit,
) {
  const { ratio, ...times } = await compare(first, second);
  const isWithin = ratio <= limit;
  const ms = `${times.first.toFixed(0)} ms / ${times.second.toFixed(0)} ms`;
  const verdict = `${ratio.toFixed(2)} (limit ${limit}, goal ${goal}) ${isWithin ? "ok" : "TOO HIGH"}`;
  console.log(`${title}: ${ms} = ${verdict}`);
  if (!isWithin) process.exitCode = 1;
}

console.log(`cold processes, medians of ${rounds}`);
await expectAtMost("import / ai", importOf("rivulet"), importOf("ai"), limits.import, goals.import);
await expectAtMost("first text / ai", rivuletHello, aiHello, limits.hello);
for (const count of [20000, 100000] as const) {
  const [agent, bare] = [agentRun, bareRun].map((each) => chunkRun(each, count));
  const title = `CPU of ${count.toLocaleString("en")} chunks, run() / the model alone`;
  const [limit, goal] = [limits.chunks[count], goals.chunks[count]];
  await expectAtMost(title, agent as string, bare as string, limit, goal);
}
const [stream, events] = [agentStream, agentRun].map((each) => chunkRun(each, 100_000));
const title = "CPU of 100,000 chunks, stream() / run()";
await expectAtMost(title, stream as string, events as string, limits.stream, goals.stream);
