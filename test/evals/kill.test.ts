import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { isDeep } from "../../src/testing/deep.ts";
import type { EvalReport } from "../../src/testing.ts";
import { createFolder, removeFolder } from "../store/support/folder.ts";

const program = fileURLToPath(new URL("./support/eval-process.ts", import.meta.url));
const cases = isDeep ? 200 : 30;
const kills = isDeep ? 20 : 4;
const concurrency = 4;

let folders: readonly [string, string];
beforeAll(() => {
  folders = [createFolder(), createFolder()];
});
afterAll(() => folders.forEach(removeFolder));

/** Runs the eval in a process; the report is missing if it was killed. */
async function run(folder: string, ...kill: readonly string[]) {
  const args = ["--disable-warning=ExperimentalWarning", program, folder, String(cases), ...kill];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  const [, signal] = await once(child, "close");
  const [stdout, stderr] = await output;
  expect({ stderr, signal }).toMatchObject({ signal: kill.length > 0 ? "SIGKILL" : null });
  const ended = stderr.split("\n").filter((line) => line !== "");
  return { ended, ...(signal === null && { report: JSON.parse(stdout) as EvalReport }) };
}

/** How often models were called, by cell. */
function callsIn(folder: string): ReadonlyMap<string, number> {
  const calls = new Map<string, number>();
  for (const line of readFileSync(join(folder, "calls.log"), "utf8").trim().split("\n"))
    calls.set(line, (calls.get(line) ?? 0) + 1);
  return calls;
}

const used = new Set(["ms", "bill", "judging", "usage", "costs", "unpriced_tokens"]);

/** A report without what the cells used: a model call that a kill has interrupted is made, and paid, again. */
function outcomes(report: EvalReport | undefined): unknown {
  return JSON.parse(JSON.stringify(report), (key, value) => (used.has(key) ? undefined : value));
}

/** The usage of runs and judges whose calls were made once in both. */
function billsOf(report: EvalReport | undefined, isOnce: (call: string) => boolean): unknown {
  return report?.cells.map(({ case: name, variant, bill, judging }) => [
    isOnce(`${variant} ${name}`) && bill,
    isOnce(`judge ${name}`) && judging,
  ]);
}

const sum = (calls: ReadonlyMap<string, number>) => [...calls.values()].reduce((a, b) => a + b, 0);

it("an eval that is killed again and again runs no finished cell twice, and reports the same", async () => {
  const [whole, killed] = folders;
  const expected = await run(whole);
  const once = callsIn(whole);
  expect(expected.report?.total).toMatchObject({ cells: 3 * cases, scored: 3 * cases, errors: 0 });
  /** The calls for each cell, when it had ended. */
  const finished = new Map<string, number>();
  let least = 0;
  for (let at = 1; at <= kills; at++) {
    const kind = at % 2 === 0 ? "cell" : "call";
    // Each process reads the cells of those before it, which count as ended, and makes some progress.
    const work = Math.ceil(((kind === "cell" ? 3 * cases : sum(once)) / (kills + 2)) * 0.9);
    const { ended } = await run(killed, kind, String(kind === "cell" ? least + work : work));
    const calls = callsIn(killed);
    for (const cell of ended) if (!finished.has(cell)) finished.set(cell, calls.get(cell) ?? 0);
    // A cell that was seen to end is read back before any other.
    if (kind === "cell") expect(ended.length).toBe(least + work);
    least = Math.max(least, finished.size);
  }
  const { report, ended } = await run(killed);
  const calls = callsIn(killed);
  expect(ended).toHaveLength(3 * cases);
  expect(finished.size).toBeGreaterThan(cases);
  for (const [cell, count] of finished) expect([cell, calls.get(cell)]).toEqual([cell, count]);
  expect([...calls.keys()].sort()).toEqual([...once.keys()].sort());
  expect(sum(calls)).toBeLessThanOrEqual(sum(once) + kills * concurrency);
  expect(outcomes(report)).toEqual(outcomes(expected.report));
  const isOnce = (call: string) => calls.get(call) === once.get(call);
  expect([...once.keys()].filter(isOnce).length).toBeGreaterThanOrEqual(
    once.size - kills * concurrency,
  );
  expect(billsOf(report, isOnce)).toEqual(billsOf(expected.report, isOnce));
});
