import { expect, it } from "vitest";
import { deep } from "../../agent/support/deep.ts";
import { playSchedule } from "./support/schedule.ts";

const count = Number(process.env.COUNT ?? (deep ? 10_000 : 1_000));
const most = Number(process.env.MOST ?? 3);
const first = Number(process.env.RIVULET_SEED ?? Math.floor(Math.random() * 1e9));

it("tasks end truthfully, whoever works, cancels, sweeps, reads, crashes, stalls or has the wrong time", async () => {
  let tasks = 0;
  const failed: string[] = [];
  for (let seed = first; seed < first + count && failed.length < most; seed++) {
    const { problems, story, tasks: played } = await playSchedule(seed);
    tasks += played;
    if (problems.length > 0) {
      failed.push([`RIVULET_SEED=${seed}`, ...problems, story.join(", ")].join("\n"));
    }
  }
  expect(failed.join("\n\n")).toBe("");
  expect(tasks).toBeGreaterThan(count);
  console.info(`${count} schedules, ${tasks} tasks`);
});
