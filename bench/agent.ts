// What the agent costs over its model: a turn of many chunks, and many iterations with a tool call, as ratios to a
// bare `for await` over the same model's stream with one small JSON.stringify per chunk. Interleaved, in one run.
import type { LanguageModelV4Prompt } from "@ai-sdk/provider";
import { agentTool, jsonSchema, ReActAgent, tool } from "../src/index.ts";
import type { ScriptedTurn } from "../src/testing/index.ts";
import { scriptedModel } from "../src/testing/index.ts";

const limit = 1.5;

const chunk = "some words of text ";
const long = (chunks: number): ScriptedTurn => ({
  text: Array.from({ length: chunks }, () => chunk),
});
const prompt: LanguageModelV4Prompt = [{ role: "user", content: [{ type: "text", text: "go" }] }];

/** Makes what is measured, as a program does once, and gives the part whose time is taken. */
type Work = () => () => Promise<void>;
/** The same for a turn of many chunks: it says when the first and the last of them came. */
type Turn = () => () => Promise<{ readonly first: number; readonly last: number }>;

/** The least anybody can do with a model's stream and still send it on. */
const bare =
  (chunks: number): Turn =>
  () => {
    const model = scriptedModel([long(chunks)]);
    return async () => {
      const { stream } = await model.doStream({ prompt });
      let bytes = 0;
      let count = 0;
      let first = 0;
      let last = 0;
      for await (const part of stream) {
        if (part.type !== "text-delta") continue;
        bytes += JSON.stringify({ delta: part.delta }).length;
        count += 1;
        if (count === 1) first = performance.now();
        else if (count === chunks) last = performance.now();
      }
      if (bytes < chunks) throw new Error("The model did not say it all.");
      return { first, last };
    };
  };

/** The same turn through an agent, every event read; at depth n through n agents around it. */
const agent =
  (chunks: number, depth: number): Turn =>
  () => {
    let inner = new ReActAgent({ name: "worker", model: scriptedModel([long(chunks)]) });
    for (let level = 0; level < depth; level++) {
      const script: ScriptedTurn[] = [{ call: inner.name, input: { prompt: "go" } }, "done"];
      const tools = [agentTool(inner)];
      inner = new ReActAgent({ name: `lead_${level}`, model: scriptedModel(script), tools });
    }
    return async () => {
      let count = 0;
      let first = 0;
      let last = 0;
      for await (const { type } of inner.run("go")) {
        if (type !== "task.text.delta") continue;
        count += 1;
        if (count === 1) first = performance.now();
        else if (count === chunks) last = performance.now();
      }
      // The chunks, and a last word of each agent around them.
      if (count !== chunks + depth) throw new Error(`${count} deltas of ${chunks + depth}.`);
      return { first, last };
    };
  };

const iterationTurns = (count: number): ScriptedTurn[] =>
  Array.from({ length: count }, (_, index) => [{ call: "count", input: { index } }]);

/** Many iterations: each calls a tool once. */
const iterations = (count: number) => () => {
  const count_ = tool({
    name: "count",
    description: "Counts.",
    input: jsonSchema<{ index: number }>({
      type: "object",
      properties: { index: { type: "number" } },
    }),
    execute: ({ index }) => `That was ${index}.`,
  });
  const worker = new ReActAgent({
    name: "worker",
    model: scriptedModel([...iterationTurns(count), "done"]),
    tools: [count_],
    maxIters: count + 1,
  });
  return async () => {
    for await (const _ of worker.run("go"));
  };
};

/** The model's part of the same iterations, with prompts that grow in the same way. */
const bareIterations = (count: number) => () => {
  const model = scriptedModel(iterationTurns(count));
  return async () => {
    const grown: LanguageModelV4Prompt = [...prompt];
    for (let index = 0; index < count; index++) {
      const { stream } = await model.doStream({ prompt: grown });
      for await (const part of stream) JSON.stringify({ type: part.type });
      const toolCallId = `call_${index}`;
      grown.push({
        role: "assistant",
        content: [{ type: "tool-call", toolCallId, toolName: "count", input: { index } }],
      });
      const output = { type: "text", value: `That was ${index}.` } as const;
      grown.push({
        role: "tool",
        content: [{ type: "tool-result", toolCallId, toolName: "count", output }],
      });
    }
  };
};

/** Milliseconds of the best of several interleaved rounds. */
async function best(rounds: number, work: Record<string, Work>): Promise<Record<string, number>> {
  const times: Record<string, number> = {};
  for (let round = 0; round < rounds; round++) {
    for (const [name, make] of Object.entries(work)) {
      const run = make();
      const start = performance.now();
      await run();
      times[name] = Math.min(times[name] ?? Infinity, performance.now() - start);
    }
  }
  return times;
}

/** The same for turns: the time from the first chunk to the last, and of the whole run. */
async function bestTurns(rounds: number, turns: readonly Turn[]) {
  const times = turns.map((make) => ({ make, turn: Infinity, whole: Infinity }));
  for (let round = 0; round < rounds; round++) {
    for (const time of times) {
      const run = time.make();
      const start = performance.now();
      const { first, last } = await run();
      time.turn = Math.min(time.turn, last - first);
      time.whole = Math.min(time.whole, performance.now() - start);
    }
  }
  return times;
}

/** What is measured is a process that has worked for a while: its code is compiled, for short turns and for long ones. */
async function warmUp(turns: readonly Turn[]): Promise<void> {
  for (let round = 0; round < 300; round++) for (const make of turns) await make()();
}

let held = true;
const claim = (what: string, ratio: number, most: number) => {
  const ok = ratio <= most;
  held &&= ok;
  console.log(`  ${what}: ${ratio.toFixed(2)} (at most ${most}) ${ok ? "ok" : "TOO MUCH"}`);
};

const depths = [0, 1, 2, 3];
await warmUp([bare(1), ...depths.map((depth) => agent(1, depth))]);
const perChunk: number[] = [];
for (const chunks of [20_000, 100_000]) {
  const turns = [bare(chunks), ...depths.map((depth) => agent(chunks, depth))];
  const [alone, ...deep] = await bestTurns(3_000_000 / chunks, turns);
  const each = (ms = 0) => (ms * 1_000) / chunks;
  console.log(`one turn of ${chunks.toLocaleString("en")} text chunks`);
  console.log(`  bare: ${each(alone?.turn).toFixed(2)} µs per chunk`);
  for (const [depth, { turn, whole }] of deep.entries()) {
    const around = `${(whole - turn).toFixed(1)} ms before and after`;
    console.log(`  depth ${depth}: ${each(turn).toFixed(2)} µs per chunk, ${around}`);
    claim(`depth ${depth} over bare, first chunk to last`, turn / (alone?.turn ?? 1), limit);
    claim(`depth ${depth} over bare, the whole run`, whole / (alone?.whole ?? 1), limit);
  }
  perChunk.push(each(deep[0]?.turn));
}
claim("per chunk, 100,000 over 20,000", (perChunk[1] ?? 0) / (perChunk[0] ?? 1), limit);

console.log("iterations with one tool call each");
const perIteration: number[] = [];
for (const count of [50, 200, 800]) {
  const times = await best(30, { bare: bareIterations(count), agent: iterations(count) });
  const each = ((times.agent ?? 0) * 1_000) / count;
  const over = (times.agent ?? 0) / (times.bare ?? 1);
  perIteration.push(each - ((times.bare ?? 0) * 1_000) / count);
  console.log(
    `  ${count}: ${each.toFixed(0)} µs per iteration, ${over.toFixed(2)} times the model alone`,
  );
}
claim(
  "the agent's own cost per iteration, 800 over 50",
  (perIteration[2] ?? 0) / (perIteration[0] ?? 1),
  limit,
);
process.exitCode = held ? 0 : 1;
