import { describe, expect, it } from "vitest";
import { hasPostgres } from "../support/postgres-server.ts";
import { seed } from "../support/seed.ts";
import { runChaos } from "./support/chaos.ts";

/** The share of the full size that `npm run test:chaos` asks for; `npm test` has a small size of its own. */
const share = Number(process.env.RIVULET_CHAOS ?? 0);
const large = {
  ...{ runs: 500 * share, kills: 200 * share, stops: 50 * share, leaseMs: 2_000 },
  limitMs: 300_000,
  killEveryMs: [1_000, 5_000],
  restartEveryMs: [20_000, 40_000],
} as const;
const small = {
  ...{ runs: 24, kills: 20, stops: 3, leaseMs: 1_000, limitMs: 60_000 },
  killEveryMs: [300, 1_000],
  restartEveryMs: [5_000, 8_000],
} as const;

describe.skipIf(!hasPostgres())("workers and web nodes on PostgreSQL", () => {
  it(
    "lose, double and repeat nothing while processes, connections and the database fail",
    async () => {
      const { problems, figures } = await runChaos(share > 0 ? large : small, seed);
      console.info(figures.join("\n"));
      expect(problems).toEqual([]);
    },
    share > 0 ? 3_600_000 : 240_000,
  );
});
