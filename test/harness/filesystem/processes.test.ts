import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, it, onTestFinished } from "vitest";
import { openStore } from "../../../src/store/index.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { seededRandom } from "../../support/random.ts";
import { seed } from "../../support/seed.ts";
import { filesAt, isLocal } from "./support/files-at.ts";
import { temporaryDirectory } from "./support/temporary.ts";

/** A writer that is ready to start. */
async function startWriter(...args: readonly string[]) {
  const program = join(import.meta.dirname, "support/writer.ts");
  const child = spawn(process.execPath, [program, ...args], { stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const nextLine = async () => (await lines.next()).value as string | undefined;
  expect(await nextLine()).toBe("ready");
  return { child, nextLine, begin: () => child.stdin.write("begin\n") };
}

/** Runs writers in parallel, and resolves to their outputs when all have succeeded. */
async function runTogether(...writers: readonly (readonly string[])[]) {
  const started = await Promise.all(writers.map((args) => startWriter(...args)));
  const ended = started.map(async ({ child, nextLine }) => {
    const [said, [code]] = await Promise.all([nextLine(), once(child, "exit")]);
    expect(code).toBe(0);
    return said;
  });
  for (const { begin } of started) begin();
  return Promise.all(ended);
}

/** A place that is closed and removed after the test. */
async function newPlace(placeIn: (directory: string) => string): Promise<string> {
  const where = placeIn(await temporaryDirectory({ inMemory: true }));
  if (!isLocal(where)) onTestFinished(() => openStore(where).close());
  return where;
}

async function textAt(where: string, path: string): Promise<string> {
  return new TextDecoder().decode((await filesAt(where).read(path)).data);
}

describe.each([
  ["one directory", (directory: string) => join(directory, "root")],
  ["one database", (directory: string) => `sqlite:${join(directory, "files.db")}`],
])("two processes on %s", (_, placeIn) => {
  const each = isDeep ? 5_000 : 500;

  it(`lose none of ${2 * each} conditional updates, and get conflicts`, async () => {
    const where = await newPlace(placeIn);
    await filesAt(where).write("count", "0");
    const writer = [where, "increment", "count", String(each)];
    const conflicts = await runTogether(writer, writer);
    expect(await textAt(where, "count")).toBe(String(2 * each));
    expect(conflicts.reduce((sum, count) => sum + Number(count), 0)).toBeGreaterThan(0);
    if (isLocal(where)) expect(await readdir(where)).toEqual([".rivulet", "count"]);
  });

  it("copy a common file once and lose no update of the copy", async () => {
    const where = await newPlace(placeIn);
    await filesAt(where).write("docs/count", "0");
    const writer = [where, "increment", "docs/count", String(each / 5), "ann"];
    await runTogether(writer, writer);
    const ann = filesAt(where).within({ scope: "user", id: "ann" });
    expect(new TextDecoder().decode((await ann.read("docs/count")).data)).toBe(
      String((2 * each) / 5),
    );
    expect(await textAt(where, "docs/count")).toBe("0");
  });

  it(`lose none of their ${(2 * each) / 5} edits of one file`, async () => {
    const where = await newPlace(placeIn);
    await filesAt(where).write("shared", "a=0; b=0;\n");
    const count = String(each / 5);
    await runTogether([where, "edit", "a", count], [where, "edit", "b", count]);
    expect(await textAt(where, "shared")).toBe(`a=${count}; b=${count};\n`);
  });
});

it("leaves a complete file and no lock when a process is killed during a write", async () => {
  const random = seededRandom(seed);
  const root = await temporaryDirectory();
  const files = filesAt(root);
  for (let kills = isDeep ? 200 : 10; kills > 0; kills--) {
    const { child, begin, nextLine } = await startWriter(root, "write", "file");
    begin();
    expect(await nextLine()).toBe("started");
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
