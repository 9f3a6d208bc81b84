import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isDeep } from "../../src/testing/deep.ts";
import { seededRandom } from "../support/random.ts";
import { requires } from "../support/requires.ts";
import { seed } from "../support/seed.ts";
import { checkDatabase } from "./support/check-database.ts";
import { createFolder, removeFolder } from "./support/folder.ts";
import { startWriter } from "./support/run-writer.ts";

const steps = 30;
/** The system calls by which SQLite changes files. */
const writingCalls = ["pwrite64", "fsync", "fdatasync", "ftruncate", "unlink"] as const;
/** How many kills at each call. The rare calls end transactions and delete files, so they get many kills. */
const shares: Readonly<Record<(typeof writingCalls)[number], number>> = isDeep
  ? { pwrite64: 500, fsync: 100, fdatasync: 100, ftruncate: 100, unlink: 100 }
  : { pwrite64: 8, fsync: 8, fdatasync: 8, ftruncate: 2, unlink: 2 };
const random = seededRandom(seed);

let folder: string;
beforeEach(() => {
  folder = createFolder();
});
afterEach(() => removeFolder(folder));

/** Adds the seed to the error of a failed attempt. */
async function withSeed<Result>(what: string, attempt: () => Promise<Result>): Promise<Result> {
  try {
    return await attempt();
  } catch (error) {
    throw new Error(`${what}; RIVULET_SEED=${seed}`, { cause: error });
  }
}

/** The system calls of a complete run, in order. */
async function trace(path: string): Promise<readonly string[]> {
  const output = join(folder, "trace.txt");
  const calls = [...writingCalls, "write"].join();
  const strace = [`--trace=${calls}`, `--output=${output}`];
  const { code, problems } = await startWriter(path, { steps, strace }).ended;
  expect({ code, problems }).toEqual({ code: 0, problems: "" });
  return readFileSync(output, "utf8").split("\n");
}

function countOf(call: string, lines: readonly string[]): number {
  return lines.filter((line) => line.includes(` ${call}(`)).length;
}

describe.runIf(requires("strace"))("a process killed at a write", () => {
  it("loses no confirmed write at any system call", async () => {
    const lines = await trace(join(folder, "whole.db"));
    const boundaries = writingCalls.flatMap((call) =>
      Array.from({ length: countOf(call, lines) }, (_, i) => ({ call, at: i + 1 })),
    );
    expect(boundaries.length).toBeGreaterThan(1000);
    const chosen = writingCalls.flatMap((call) => {
      const ofCall = boundaries.filter((boundary) => boundary.call === call);
      if (ofCall.length <= shares[call]) return ofCall;
      return Array.from({ length: shares[call] }, () => random.pick(ofCall));
    });
    let killed = 0;
    for (const [index, { call, at }] of chosen.entries()) {
      const path = join(folder, `${index}.db`);
      const strace = [`--trace=${call}`, `--inject=${call}:signal=KILL:when=${at}`];
      await withSeed(`killed at ${call} number ${at}`, async () => {
        const { lines, signal } = await startWriter(path, { steps, strace }).ended;
        if (signal === "SIGKILL") killed += 1;
        await checkDatabase(path, lines);
      });
    }
    expect(killed).toBe(chosen.length);
  });

  it("confirms a write only after a sync", async () => {
    const lines = await trace(join(folder, "whole.db"));
    let synced = 0;
    let confirmed = 0;
    for (const line of lines) {
      if (/ f(data)?sync\(/.test(line)) synced += 1;
      if (!line.includes('write(1, "step')) continue;
      confirmed += 1;
      expect(synced, `before ${line}`).toBeGreaterThan(0);
      synced = 0;
    }
    expect(confirmed).toBe(steps);
  });
});

describe("a process killed at a random moment", () => {
  it("loses no confirmed write, also after repeated kills", async () => {
    const kills = isDeep ? 500 : 20;
    let path = "";
    for (let kill = 0; kill < kills; kill++) {
      // Each database is used five times, so that recovered ones are killed again.
      if (kill % 5 === 0) path = join(folder, `${kill}.db`);
      await withSeed(`kill ${kill}`, async () => {
        const writer = startWriter(path, { steps: 1_000_000 });
        await writer.printed(random.int(0, 60));
        await new Promise((resolve) => setTimeout(resolve, random.int(0, 5)));
        writer.process.kill("SIGKILL");
        const { lines, signal, problems } = await writer.ended;
        expect({ signal, problems }).toEqual({ signal: "SIGKILL", problems: "" });
        await checkDatabase(path, lines);
      });
    }
  });
});
