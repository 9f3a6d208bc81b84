import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isDeep } from "../../../src/testing/deep.ts";
import { seededRandom } from "../../support/random.ts";
import { seed } from "../../support/seed.ts";
import { attack } from "./support/attacks.ts";
import { temporaryDirectory } from "./support/temporary.ts";
import { toolBox } from "./support/tool-box.ts";
import { localWorld, secret, storeWorld, unguessable, type World } from "./support/worlds.ts";

const count = isDeep ? 100_000 : 3_000; // on each filesystem
const callers = [
  ["a caller without a user id", undefined],
  ["a user", "ann"],
] as const;
const each = count / callers.length;

/** Calls of every tool with a hostile string as its path; expensive tools get only some of the strings. */
const uses: readonly (readonly [name: string, inputOf: (text: string) => object, every: number])[] =
  [
    ["read_file", (path) => ({ path }), 1],
    ["write_file", (path) => ({ path, content: "attacked\n" }), 1],
    ["edit_file", (path) => ({ path, old_string: "\n", new_string: "!\n", replace_all: true }), 1],
    ["list_files", (path) => ({ path }), 1],
    ["glob_files", (pattern) => ({ pattern }), 10],
    ["glob_files", (path) => ({ path, pattern: "**" }), 2],
    ["grep_files", (path) => ({ path, pattern: "S3cr[3]t" }), 10],
    ["grep_files", (glob) => ({ glob, pattern: "S3cr[3]t" }), 40],
  ];
const calls = uses.reduce((sum, [, , every]) => sum + Math.ceil(each / every), 0);
const together = 10;
const resetEvery = 250;

/** Attacks as one caller, and resolves to the share of accepted calls. */
async function attackAs(userId: string | undefined, world: World): Promise<number> {
  const call = toolBox(world.filesystem);
  const random = seededRandom(seed);
  const before = await world.protectedFrom(userId);
  const leaks: string[] = [];
  let made = 0;
  let answered = 0;

  async function attackWith(text: string, number: number): Promise<void> {
    for (const [name, inputOf, every] of uses) {
      if (number % every > 0) continue;
      const said = await call(name, inputOf(text), userId === undefined ? {} : { userId });
      made += 1;
      if (!said.startsWith("Error: ")) answered += 1;
      if (said.includes(secret) || said.includes(unguessable) || said.includes("root:x:0:")) {
        leaks.push(`${name} ${JSON.stringify(text)}: ${said.slice(0, 200)}`);
      }
    }
  }
  for (let done = 0; done < each; done += resetEvery) {
    let begun = 0;
    const goOn = async () => {
      while (begun < resetEvery) await attackWith(attack(random, world.targets), done + begun++);
    };
    await Promise.all(Array.from({ length: together }, goOn));
    const where = `after attack ${done + resetEvery} with seed ${seed}`;
    expect(await world.protectedFrom(userId), where).toEqual(before);
    await world.reset();
  }
  expect(leaks, `seed ${seed}`).toEqual([]);
  expect(made).toBe(calls);
  return answered / made;
}

describe.each([
  ["local", async () => localWorld(await temporaryDirectory({ inMemory: true }))],
  ["store", storeWorld],
])("%s: hostile paths through every tool", (_, createWorld) => {
  it.each(callers)(
    `get %s nowhere: ${each} paths, ${calls} calls, 0 escapes`,
    async (_, userId) => {
      const world = await createWorld();
      const answered = await attackAs(userId, world);
      // Some strings are harmless; if the tools refused them too, the test would prove nothing.
      expect(answered).toBeGreaterThan(0.05);
      expect(answered).toBeLessThan(0.5);
    },
  );
});

it("the secrets can be reached by a tool that checks paths only as text", async () => {
  const { targets, filesystem } = await localWorld(await temporaryDirectory({ inMemory: true }));
  for (const path of ["link-file", "link-up/canary.txt", "link-chain/canary.txt"]) {
    expect(await readFile(join(targets.root, path), "utf8")).toContain(secret);
    await expect(filesystem.read(path)).rejects.toMatchObject({ code: "not_regular" });
  }
  expect(await toolBox(filesystem)("read_file", { path: "notes.md" })).toContain("plain");
});
