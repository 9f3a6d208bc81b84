import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isTerminal } from "../../../src/protocol/task.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { createFolder, removeFolder } from "../../store/support/folder.ts";
import { type Random, seededRandom } from "../../support/random.ts";
import { seed } from "../../support/seed.ts";
import { type Plot, type Story, Trio } from "./support/story.ts";
import { StoryProcess } from "./support/story-process.ts";

/** How many stories run at the same time. */
const trios = 5;
const kills = isDeep ? 500 : 20;
/** About how long a story takes when no process is killed. */
const lengthMs = 900;
const timeout = isDeep ? 3_600_000 : 600_000;

let folder: string;
beforeAll(async () => {
  folder = createFolder();
  await new StoryProcess(folder).end();
});
afterAll(() => removeFolder(folder));

/** Plays stories side by side; an error names the seed and the moments of the kills. */
async function playAll(name: string, plots: readonly Plot[]): Promise<readonly Story[]> {
  const played: Story[] = [];
  let next = 0;
  await Promise.all(
    Array.from({ length: trios }, async () => {
      const trio = new Trio(folder);
      try {
        for (let at = next++; at < plots.length; at = next++) {
          const plot = plots[at] as Plot;
          const moments = Object.entries(plot.kills ?? {}).map((moment) => moment.join("-"));
          const label = `${name}-seed-${seed}-${at}-of-${plot.processes}-${moments.join("-")}`;
          const story = await trio.play(label, plot).catch((error: Error) => {
            error.message = `${label}: ${error.message}`;
            throw error;
          });
          played.push(story);
        }
      } finally {
        await trio.end();
      }
    }),
  );
  return played;
}

const started = { text: "Started." };
const answered = { text: "Second." };
const signed = { text: "Signed." };

/** Plots in which one process is killed at some moment; a third of them have two processes. */
function plotsWithout(victim: "a" | "b", random: Random): readonly Plot[] {
  return Array.from({ length: kills }, (_, index) => ({
    processes: index % 3 === 0 ? 2 : 3,
    kills: { [victim]: random.int(0, lengthMs) },
  }));
}

describe("processes on one database and one session", () => {
  it.each([2, 3] as const)("share the work when there are %i", async (processes) => {
    const trio = new Trio(folder);
    const story = await trio.play(`whole-${processes}`, { processes });
    expect(story.first).toMatchObject(started);
    expect(story.childrenAtSecond).toHaveLength(2);
    for (const status of story.childrenAtSecond) expect(isTerminal(status)).toBe(false);
    expect(story.second).toMatchObject({ ...answered, isStreamed: true });
    expect(story.second?.startedMs).toBeLessThan(1_000);
    expect(story.answer).toMatchObject(signed);
    expect(story.answer?.taskId).not.toBe(story.first?.taskId);
    expect(story.recovered).toBe(0);
    await trio.end();
  });

  it("continue when the process that owns the session is killed", { timeout }, async () => {
    const played = await playAll("owner", plotsWithout("a", seededRandom(seed)));
    for (const { second, answer } of played) {
      expect(second).toMatchObject(answered);
      expect(answer).toMatchObject(signed);
    }
    const recovered = played.filter((story) => story.recovered > 0);
    expect(recovered.length).toBeGreaterThan(kills / 5);
  });

  it("continue when a process that waits for its task is killed", { timeout }, async () => {
    const played = await playAll("door", plotsWithout("b", seededRandom(seed + 1)));
    for (const { first } of played) expect(first).toMatchObject(started);
  });

  it("continue when the second owner is killed after the first", { timeout }, async () => {
    const random = seededRandom(seed + 2);
    const plots = Array.from({ length: kills / 5 }, () => ({
      processes: 3 as const,
      kills: { a: random.int(0, lengthMs / 2), b: random.int(lengthMs, 3 * lengthMs) },
    }));
    await playAll("owners", plots);
  });
});
