import { expect, it } from "vitest";
import { isDeep } from "../../src/testing/deep.ts";
import { seed as first } from "../support/seed.ts";
import { simulate } from "./support/simulate.ts";

const count = Number(process.env.RIVULET_SIMULATIONS ?? (isDeep ? 20_000 : 100));
const most = 3;

it("keeps the laws on every machine, whatever fails", { timeout: 4 * 3_600_000 }, async () => {
  const seen: Record<string, number> = {};
  const failed: string[] = [];
  for (let seed = first; seed < first + count && failed.length < most; seed++) {
    const { problems, trace, seen: one } = await simulate(seed);
    for (const [what, times] of Object.entries(one)) seen[what] = (seen[what] ?? 0) + times;
    if (problems.length > 0)
      failed.push([`RIVULET_SEED=${seed}`, ...problems, ...trace.slice(-40)].join("\n"));
  }
  expect(failed.join("\n\n")).toBe("");
  console.info(`${count} simulations from seed ${first}: ${JSON.stringify(seen)}`);
  for (const what of ["completed", "cancelled", "suspended", "steered", "taken over"])
    expect(seen[what], what).toBeGreaterThan(count / 10);
  for (const what of ["kill", "stop", "restart", "drain", "cut"])
    expect(seen[what], what).toBeGreaterThan(count / 2);
});

it("gives the same trace for the same seed", async () => {
  for (const seed of [first, first + 1, first + 2]) {
    const { trace } = await simulate(seed);
    expect(trace.length).toBeGreaterThan(20);
    expect((await simulate(seed)).trace).toEqual(trace);
  }
  expect((await simulate(first)).trace).not.toEqual((await simulate(first + 1)).trace);
});
