// Evals: two prompts side by side, scored, interrupted and continued. Run it with: npm run example 26
import assert from "node:assert/strict";
import { memoryStore, ReActAgent } from "rivulet";
import { contains, defineEval, exact, judge, runEval, scriptedModel } from "rivulet/testing";

const capitals = { France: "Paris", Italy: "Rome", Japan: "Tokyo" };
const model = scriptedModel(({ prompt }) => {
  const asked = JSON.stringify(prompt);
  const [, city] = Object.entries(capitals).find(([country]) => asked.includes(country)) ?? [];
  return asked.includes("one word") ? `${city}` : `That is ${city}, I think.`;
});
const guide = (systemPrompt: string) => new ReActAgent({ name: "guide", model, systemPrompt });
const strict = scriptedModel(({ prompt }) => {
  const isUnsure = JSON.stringify(prompt).includes("I think");
  const why = isUnsure ? "It is unsure." : "It is certain.";
  return [{ call: "generate_response", input: { score: isUnsure ? 0.2 : 1, why } }];
});

const evaluation = defineEval({
  name: "capitals",
  variants: { plain: guide("You know geography."), terse: guide("Answer with one word.") },
  cases: Object.entries(capitals).map(([name, expected]) => ({
    name,
    input: `What is the capital of ${name}?`,
    expected,
  })),
  scorers: {
    exact: exact(),
    contains: contains(),
    certain: judge(strict, "The answer is certain."),
  },
});

// The eval is stopped after two cells, and continues in the same store.
const store = memoryStore();
const stop = new AbortController();
const onProgress = ({ done }: { done: number }) => void (done === 2 && stop.abort());
const first = await runEval(evaluation, { store, signal: stop.signal, onProgress, concurrency: 1 });
console.log(`${first.total.scored} of ${first.total.cells} cells, then it was stopped.`);
const report = await runEval(evaluation, { store });

for (const cell of report.cells)
  console.log(`${cell.case.padEnd(8)}${cell.variant.padEnd(7)}${cell.score?.toFixed(2)}`);
for (const { variant, scores } of report.variants) console.log(variant, JSON.stringify(scores));

assert.equal(first.total.notRun, 4);
assert.equal(model.calls.length, 6); // no cell ran twice
assert.equal(strict.calls.length, 6); // and no judge was asked twice
