import fc from "fast-check";
import { expect, it } from "vitest";
import { isDeep } from "../../../src/testing/deep.ts";
import { programArbitrary } from "./support/program.ts";
import { runProgram } from "./support/run-program.ts";

const size = { messages: 3, turns: 3, calls: 3, depth: 2 };
const disturbances = fc.record({
  seed: fc.noShrink(fc.integer({ min: 0, max: 0x7fffffff })),
  processes: fc.integer({ min: 2, max: 4 }),
  stops: fc.integer({ min: 0, max: 4 }),
});

it("several processes, some of them killed or paused, leave the same documents as one process", async () => {
  let recovered = 0;
  await fc.assert(
    fc.asyncProperty(programArbitrary(size), disturbances, async (program, disturbance) => {
      const undisturbed = { seed: disturbance.seed, processes: 1, stops: 0 };
      const whole = await runProgram(program, undisturbed);
      const disturbed = await runProgram(program, disturbance);
      expect(disturbed.documents).toEqual(whole.documents);
      expect(whole.recovered).toBe(0);
      recovered += disturbed.recovered;
    }),
    { numRuns: isDeep ? 2_000 : 100 },
  );
  expect(recovered).toBeGreaterThan(50);
});
