const isDeep = process.env.RIVULET_DEEP === "1";

/**
 * What random tests begin with: the same in every ordinary run, so that a change alone decides whether it passes, and
 * another one in every deep run, which is there to find something new. RIVULET_SEED repeats a run.
 */
export const seed = Number(
  process.env.RIVULET_SEED ?? (isDeep ? Math.floor(Math.random() * 1e9) : 1),
);
