import { expect, it } from "vitest";
import { isDeep } from "../../../src/testing/deep.ts";
import { seed as first } from "../../support/seed.ts";
import { playSchedule } from "./support/schedule.ts";

const count = isDeep ? 10_000 : 400;
const most = 3;

const title =
  "ends tasks correctly under any schedule of work, cancels, sweeps, reads, crashes and stalls";
it(title, { timeout: isDeep ? 3_600_000 : 600_000 }, async () => {
  const seen: Record<string, number> = {};
  const failed: string[] = [];
  for (let seed = first; seed < first + count && failed.length < most; seed++) {
    const played = await playSchedule(seed);
    for (const [what, times] of Object.entries(played.seen)) seen[what] = (seen[what] ?? 0) + times;
    const { problems, story } = played;
    if (problems.length > 0) {
      failed.push([`RIVULET_SEED=${seed}`, ...problems, story.join(", ")].join("\n"));
    }
  }
  expect(failed.join("\n\n")).toBe("");
  console.info(`${count} schedules from seed ${first}: ${JSON.stringify(seen)}`);
  for (const what of ["completed", "cancelled", "lost", "recovered", "suspended", "promoted"]) {
    expect(seen[what], what).toBeGreaterThan(count / 100);
  }
  expect(seen["in the background"]).toBeGreaterThan(count / 10);
  expect(seen.told).toBeGreaterThan(count / 10);
});
