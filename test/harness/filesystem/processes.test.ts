import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { localFilesystem } from "../../../src/harness/filesystem/local.ts";
import { seededRandom } from "../../support/random.ts";
import { deep, temporaryDirectory } from "./support/temporary.ts";

const seed = Number(process.env.SEED ?? (deep ? Date.now() % 2 ** 31 : 1));

function startWriter(...args: readonly string[]): ChildProcess & { stdout: NodeJS.ReadableStream } {
  const program = join(import.meta.dirname, "support/writer.ts");
  const child = spawn(process.execPath, [program, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

/** What a writer has printed when it has ended well. */
async function outputOf(...args: readonly string[]): Promise<string> {
  const child = startWriter(...args);
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, "exit")]);
  expect(code).toBe(0);
  return output;
}

describe("two processes in one root", () => {
  const each = deep ? 5_000 : 500;

  it(`lose none of ${2 * each} updates on condition, and are told of conflicts`, async () => {
    const root = await temporaryDirectory({ inMemory: true });
    const files = localFilesystem(root);
    await files.write("count", "0");
    const conflicts = await Promise.all(
      [1, 2].map(() => outputOf(root, "increment", "count", String(each))),
    );
    expect(new TextDecoder().decode((await files.read("count")).data)).toBe(String(2 * each));
    expect(conflicts.reduce((sum, output) => sum + Number(output), 0)).toBeGreaterThan(0);
    expect(await readdir(root)).toEqual([".rivulet", "count"]);
  });

  it("lose none of their edits of one file", async () => {
    const root = await temporaryDirectory({ inMemory: true });
    const files = localFilesystem(root);
    await files.write("shared", "a=0; b=0;\n");
    const count = String(each / 5);
    await Promise.all([outputOf(root, "edit", "a", count), outputOf(root, "edit", "b", count)]);
    expect(new TextDecoder().decode((await files.read("shared")).data)).toBe(
      `a=${count}; b=${count};\n`,
    );
  });
});

it("a process that is killed while it writes leaves a whole file and no lock", async () => {
  const random = seededRandom(seed);
  const root = await temporaryDirectory();
  const files = localFilesystem(root);
  for (let kills = deep ? 200 : 10; kills > 0; kills--) {
    const child = startWriter(root, "write", "file");
    await once(child.stdout, "data");
    await new Promise((resolve) => setTimeout(resolve, random.int(0, 30)));
    child.kill("SIGKILL");
    await once(child, "exit");
    const found = new TextDecoder().decode((await files.read("file")).data);
    expect(found, `seed ${seed}`).toMatch(/^([a-j])\1*$/);
    expect(found).toHaveLength(300_000);
    await files.write("file", found, { ifVersion: (await files.read("file")).version });
  }
  expect((await files.list("")).entries.map(({ path }) => path)).toEqual(["file"]);
});
