// Runs an eval of scripted models on a store in a folder, and prints its report. Each call of a model leaves a line in a
// file, and each cell that ends a line on stderr. The process kills itself in a call, or after a cell, if asked to.
import { appendFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { ReActAgent, sqliteStore } from "../../../src/index.ts";
import {
  contains,
  defineEval,
  exact,
  judge,
  runEval,
  scriptedModel,
} from "../../../src/testing.ts";

const [folder = "", count = "0", killedIn = "", killedAt = "0"] = process.argv.slice(2);
const store = sqliteStore(join(folder, "store.db"));
const happened = { call: 0, cell: 0 };

function note(kind: "call" | "cell", line: string): void {
  if (kind === "call") appendFileSync(join(folder, "calls.log"), `${line}\n`);
  else writeSync(2, `${line}\n`);
  happened[kind] += 1;
  if (kind === killedIn && happened[kind] === Number(killedAt))
    process.kill(process.pid, "SIGKILL");
}

function agent(variant: string, error: number): ReActAgent {
  const model = scriptedModel(({ prompt }) => {
    const asked = JSON.stringify(prompt.findLast(({ role }) => role === "user")?.content);
    const [, number = "0"] = /(\d+) \+/.exec(asked) ?? [];
    const hasTool = prompt.some(({ role }) => role === "tool");
    note("call", `${variant} case ${number}`);
    return hasTool || variant !== "tool"
      ? `It is ${Number(number) + error}.`
      : [{ call: "nothing" }];
  });
  return new ReActAgent({
    ...{ name: "adder", model, leaseMs: 300, price: () => ({ amount: 0.01, currency: "USD" }) },
  });
}

const judgeModel = scriptedModel(({ prompt }) => {
  const asked = JSON.stringify(prompt.findLast(({ role }) => role === "user")?.content);
  note("call", `judge case ${/What is (\d+)/.exec(asked)?.[1]}`);
  return [{ call: "generate_response", input: { score: 0.5, why: "Short." } }];
});

const report = await runEval(
  defineEval({
    name: "sums",
    variants: { right: agent("right", 0), wrong: agent("wrong", 1), tool: agent("tool", 0) },
    cases: Array.from({ length: Number(count) }, (_, index) => ({
      name: `case ${index}`,
      input: `What is ${index} + 0?`,
      expected: `It is ${index}.`,
    })),
    scorers: {
      exact: exact(),
      number: contains(),
      judge: judge(judgeModel, "Short answers are good."),
    },
  }),
  { store, onProgress: ({ cell }) => note("cell", `${cell.variant} ${cell.case}`) },
);
await store.close();
process.stdout.write(JSON.stringify(report));
