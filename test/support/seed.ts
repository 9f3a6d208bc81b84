import { isDeep } from "../../src/testing/deep.ts";
/**
 * The seed of random tests: fixed in ordinary runs, so that only a change of the code changes the result, and new in every
 * deep run. RIVULET_SEED repeats a run.
 */
export const seed = Number(
  process.env.RIVULET_SEED ?? (isDeep ? Math.floor(Math.random() * 1e9) : 1),
);
