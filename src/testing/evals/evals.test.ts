import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { agentTool, HarnessAgent, ReActAgent, type ReActAgentOptions, tool } from "../../index.ts";
import { memoryStore } from "../../store/index.ts";
import { type Script, scriptedModel } from "../scripted-model.ts";
import { defineEval, type EvalOptions } from "./eval.ts";
import type { EvalCell } from "./report.ts";
import { evalSuite, type RunEvalOptions, runEval } from "./run.ts";
import {
  agentWasCalled,
  citationsResolve,
  contains,
  costBelow,
  exact,
  judge,
  matchesSchema,
  type Scorer,
  stepsBelow,
} from "./scorers.ts";

const price = () => ({ amount: 0.02, currency: "USD" });
const agent = (script: Script, options: Partial<ReActAgentOptions> = {}) =>
  new ReActAgent({ name: "guide", model: scriptedModel(script), ...options });
const cases = [{ name: "France", input: "The capital of France?", expected: "Paris" }];

function run(options: Partial<EvalOptions>, how: RunEvalOptions = {}) {
  const given = { name: "capitals", cases, scorers: { exact: exact() }, ...options };
  const withAgent = options.variants ? given : { agent: agent(() => "Paris"), ...given };
  return runEval(defineEval(withAgent), { store: memoryStore(), ...how });
}

/** The score of one scorer for one reply. */
async function scored(
  scorer: Scorer,
  script: Script = () => "Paris",
  expected: unknown = "Paris",
  options: Partial<ReActAgentOptions> = {},
) {
  const [only] = cases;
  const { cells } = await run({
    agent: agent(script, options),
    cases: [{ name: "one", input: only?.input ?? "", expected }],
    scorers: { it: scorer },
  });
  return (cells[0] as EvalCell).scores.it;
}

describe("scorers", () => {
  it("exact compares texts without spaces around them, and other values as JSON", async () => {
    expect(await scored(exact(), () => " Paris\n")).toEqual({ score: 1 });
    expect(await scored(exact(), () => "Rome")).toEqual({ score: 0, why: 'The reply is "Rome".' });
    expect(await scored(exact(), () => '{"a":[1]}', { a: [1] })).toEqual({ score: 1 });
    const { cells } = await run({ cases: [{ name: "one", input: "?" }] });
    expect(cells[0]?.scores).toEqual({
      exact: { error: "exact() needs `expected` in the case." },
    });
  });

  it("contains gives the share of the texts", async () => {
    expect(await scored(contains(), () => "It is paris.")).toEqual({ score: 1 });
    expect(await scored(contains("Paris", "Seine"))).toEqual({
      score: 0.5,
      why: 'It lacks "Seine".',
    });
    expect(await scored(contains(), undefined, 5)).toHaveProperty("error");
  });

  it("matchesSchema reads the reply as JSON", async () => {
    const schema = z.object({ city: z.string() });
    expect(await scored(matchesSchema(schema), () => '{"city":"Paris"}')).toEqual({ score: 1 });
    expect(await scored(matchesSchema(schema))).toMatchObject({ score: 0 });
  });

  it("stepsBelow counts model calls and costBelow money, of the whole tree", async () => {
    const child = new ReActAgent({ name: "child", model: scriptedModel(() => "Paris"), price });
    const script: Script = ({ prompt }) =>
      prompt.some(({ role }) => role === "tool")
        ? "Paris"
        : [{ call: "child", input: { prompt: "?" } }];
    const options = { price, tools: [agentTool(child)] };
    const score = (scorer: Scorer) => scored(scorer, script, "Paris", options);
    expect(await score(stepsBelow(4))).toEqual({ score: 1 });
    expect(await score(stepsBelow(3))).toEqual({ score: 0, why: "It took 3 model calls." });
    expect(await score(agentWasCalled("child"))).toEqual({ score: 1 });
    expect(await score(agentWasCalled("guide"))).toEqual({ score: 0, why: "It called child." });
    expect(await scored(costBelow(0.03), () => "Paris", "", { price })).toEqual({ score: 1 });
    expect(await scored(costBelow(0.02), () => "Paris", "", { price })).toMatchObject({ score: 0 });
    expect(await scored(costBelow(1))).toEqual({ error: "The cost of the run is unknown." });
  });

  it("citationsResolve gives the share of the citations that lead to a result", async () => {
    const read = tool({ name: "read", description: "Reads.", execute: () => "Paris lies there." });
    const script: Script = ({ prompt }) =>
      prompt.some(({ role }) => role === "tool") ? "Paris [^1]." : [{ call: "read" }];
    const options = { tools: [read], references: true };
    expect(await scored(citationsResolve(), script, "", options)).toMatchObject({ score: 1 });
    expect(await scored(citationsResolve())).toMatchObject({ score: 0 });
  });

  it("a score out of range or a scorer that throws is an error of its cell alone", async () => {
    const throws: Scorer = ({ variant }) => {
      if (variant === "a") throw new Error("No score.");
      return 2;
    };
    const variants = { a: agent(() => "Paris"), b: agent(() => "Paris") };
    const { cells, total } = await run({ variants, scorers: { exact: exact(), throws } });
    expect(cells.map(({ scores, score }) => [scores.throws, scores.exact, score])).toEqual([
      [{ error: "No score." }, { score: 1 }, undefined],
      [{ error: "A scorer must return a number from 0 to 1, got 2." }, { score: 1 }, undefined],
    ]);
    expect(total).toMatchObject({ errors: 2, scored: 0, scores: { exact: 1 } });
  });

  it("a judge is asked once for a reply, and its tokens count", async () => {
    const model = scriptedModel(() => [
      { call: "generate_response", input: { score: 0.25, why: "Terse." } },
    ]);
    const store = memoryStore();
    const scorers = { judge: judge(model, "Be kind.") };
    const first = await run({ scorers }, { store });
    const second = await run({ scorers }, { store });
    expect(first.cells[0]?.scores.judge).toEqual({ score: 0.25, why: "Terse." });
    expect(second).toEqual(first);
    expect(model.calls).toHaveLength(1);
    expect(JSON.stringify(model.calls[0]?.prompt)).toMatch(/Be kind\..*Paris/);
    const [cell] = first.cells;
    expect(cell?.judging.usage.total_tokens).toBeGreaterThan(0);
    const tokens = cell?.bill.usage.total_tokens ?? 0;
    expect(first.total.usage.total_tokens).toBe(tokens + (cell?.judging.usage.total_tokens ?? 0));
    await run({ scorers: { judge: judge(model, "Be strict.") } }, { store });
    expect(model.calls).toHaveLength(2);
  });
});

describe("runEval", () => {
  it("reports each case, repeat and variant, with means", async () => {
    const variants = { right: agent(() => "Paris"), wrong: agent(() => "Rome", { price }) };
    const report = await run({ variants, repeats: 2 });
    expect(report.cells.map((cell) => [cell.case, cell.repeat, cell.variant, cell.score])).toEqual([
      ["France", 1, "right", 1],
      ["France", 1, "wrong", 0],
      ["France", 2, "right", 1],
      ["France", 2, "wrong", 0],
    ]);
    expect(report.variants).toMatchObject([
      { variant: "right", cells: 2, score: 1, costs: [] },
      { variant: "wrong", cells: 2, score: 0, costs: [{ amount: "0.04", currency: "USD" }] },
    ]);
    expect(report.total).toMatchObject({ cells: 4, scored: 4, score: 0.5, errors: 0, notRun: 0 });
  });

  it("runs a cell again after a change of its input, prompt or version, and not of its expected value", async () => {
    const store = memoryStore();
    const model = scriptedModel(() => "Paris");
    const calls = async (options: Partial<EvalOptions>, prompt = "") => {
      const guide = new ReActAgent({ name: "guide", model, systemPrompt: prompt });
      await run({ agent: guide, ...options }, { store });
      return model.calls.length;
    };
    const [france] = cases;
    expect(await calls({})).toBe(1);
    expect(await calls({ cases: [{ ...france, name: "France", input: "And now?" }] })).toBe(2);
    expect(await calls({}, "Be brief.")).toBe(3);
    expect(await calls({ version: "2" })).toBe(4);
    expect(await calls({ cases: [{ name: "France", input: "And now?", expected: "X" }] })).toBe(4);
  });

  it("repeats retryable failures only, and others when asked to", async () => {
    const store = memoryStore();
    const model = scriptedModel([{ error: new Error("Broken.") }, "Paris"]);
    const once = agent(() => "", { model, modelExecution: { maxAttempts: 1 } });
    const failed = await run({ agent: once }, { store });
    expect(failed.cells[0]).toMatchObject({ status: "failed", scores: {} });
    expect(failed.total).toMatchObject({ errors: 1 });
    expect((await run({ agent: once }, { store })).total.errors).toBe(1);
    expect(model.calls).toHaveLength(1);
    const retried = await run({ agent: once }, { store, retryFailed: true });
    expect(retried.cells[0]).toMatchObject({ status: "scored", score: 1 });

    const cut = scriptedModel([{ error: Object.assign(new TypeError("fetch failed")) }, "Paris"]);
    const flaky = agent(() => "", { model: cut, modelExecution: { maxAttempts: 1 } });
    expect((await run({ agent: flaky })).cells[0]).toMatchObject({ score: 1 });
    expect(cut.calls).toHaveLength(2);
  });

  it("starts no cell when the budget is used up, and continues with another one", async () => {
    const store = memoryStore();
    const many = Array.from({ length: 6 }, (_, at) => ({
      name: `${at}`,
      input: "?",
      expected: "Paris",
    }));
    const guide = agent(() => "Paris", { price });
    const options = { agent: guide, cases: many };
    const first = await run({ ...options, budget: { cost: 0.05 } }, { store, concurrency: 1 });
    expect(first.cells.map(({ status }) => status)).toEqual([
      ...["scored", "scored", "scored", "not_run", "not_run", "not_run"],
    ]);
    expect(first.cells[3]?.reason).toBe("The budget of the eval is used up: cost.");
    const reversed = { ...options, cases: many.toReversed(), budget: { cost: 0.05 } };
    const again = await run(reversed, { store, concurrency: 1 });
    expect(again.total).toMatchObject({ scored: 3, notRun: 3 }); // what has ended counts first
    expect((await run(options, { store })).total).toMatchObject({ scored: 6, notRun: 0 });
    let now = 0;
    const clock = { now: () => now, sleep: () => Promise.resolve() };
    const onProgress = () => {
      now += 10;
    };
    const timed = { ...options, budget: { wallMs: 20 } };
    const late = await run(timed, { concurrency: 1, clock, onProgress });
    expect(late.total).toMatchObject({ scored: 2, notRun: 4 });
    const unpriced = run({ ...options, agent: agent(() => "Paris"), budget: { cost: 1 } });
    await expect(unpriced).rejects.toMatchObject({ code: "invalid_settings" });
  });

  it("runs agents with a workspace on its store, under an id that no server has", async () => {
    const script: Script = ({ prompt, tools }) =>
      tools?.some(({ name }) => name === "agent_spawn") &&
      !prompt.some(({ role }) => role === "tool")
        ? [{ call: "agent_spawn", input: { agent_id: "helper", task: "Look." } }]
        : "Paris";
    const lead = new HarnessAgent({
      ...{ name: "lead", model: scriptedModel(script), store: memoryStore(), filesystem: false },
      subagents: [{ name: "helper", description: "Helps.", systemPrompt: "Help." }],
    });
    const store = memoryStore();
    const scorers = { exact: exact(), helped: agentWasCalled("helper") };
    const { cells } = await run({ agent: lead, scorers }, { store });
    expect(cells).toMatchObject([{ variant: "lead", score: 1 }]);
    const tasks = await store.tasks({ rootTaskId: cells[0]?.taskId ?? "" });
    expect(tasks.map(({ agentId }) => agentId)).toEqual(["lead@eval", "helper"]);
  });

  it("stops for a signal, and lets the cells that run end", async () => {
    const stop = new AbortController();
    const many = ["a", "b", "c"].map((name) => ({ name, input: name, expected: "Paris" }));
    const how = { signal: stop.signal, concurrency: 1, onProgress: () => stop.abort() };
    expect((await run({ cases: many }, how)).total).toMatchObject({ scored: 1, notRun: 2 });
  });

  it("reports a run that waits for an answer as failed", async () => {
    const ask = tool({ name: "ask", description: "Asks.", needsApproval: true, execute: () => "" });
    const report = await run({ agent: agent(() => [{ call: "ask" }], { tools: [ask] }) });
    expect(report.cells[0]).toMatchObject({ status: "failed" });
    expect(report.cells[0]?.reason).toContain("The run waits for an answer.");
  });
});

describe("cases", () => {
  it("come from an array, a function or a file", async () => {
    const folder = mkdtempSync(join(tmpdir(), "rivulet-cases-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = (name: string, text: string) => {
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    };
    async function* generate() {
      yield* cases;
    }
    const sources = [
      cases,
      () => cases,
      generate,
      file("cases.json", JSON.stringify(cases)),
      file("cases.jsonl", `${JSON.stringify(cases[0])}\n\n`),
    ];
    for (const source of sources)
      expect((await run({ cases: source })).total).toMatchObject({ scored: 1, score: 1 });
  });

  it("are refused without a name, with one name twice, and from a file that is not JSON", async () => {
    const [france] = cases;
    await expect(run({ cases: [] })).rejects.toThrow("An eval has no cases.");
    await expect(run({ cases: [...cases, ...cases] })).rejects.toThrow(
      'Two cases have the name "France".',
    );
    const unknown = [{ ...france, output: "Paris" }] as unknown as EvalOptions["cases"];
    await expect(run({ cases: unknown })).rejects.toThrow("Case 1 has no option `output`.");
    await expect(run({ cases: "/nowhere.json" })).rejects.toMatchObject({ code: "invalid_cases" });
  });
});

describe("evalSuite", () => {
  it("has a test for each case and variant, which fails with the scores", async () => {
    const variants = { right: agent(() => "Paris"), wrong: agent(() => "Rome") };
    const scorers = { exact: exact(), length: () => ({ score: 0.8, why: "Short." }) };
    const suite = await evalSuite(defineEval({ name: "capitals", variants, cases, scorers }), {
      store: memoryStore(),
      failBelow: 0.9,
    });
    expect(suite.map(({ group, name }) => [group, name])).toEqual([
      ["right", "France"],
      ["wrong", "France"],
    ]);
    await suite[0]?.run();
    await expect(suite[1]?.run()).rejects.toThrow(
      /^capitals: wrong on France\nexact: 0, The reply is "Rome"\.\nlength: 0\.8, Short\.\nreply: Rome\nrun: eval_\w+$/,
    );
  });
});
