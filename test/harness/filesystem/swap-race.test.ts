import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { localFilesystem } from "../../../src/harness/filesystem/local.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { seededRandom } from "../../support/random.ts";
import { seed } from "../../support/seed.ts";
import { snapshot } from "./support/snapshot.ts";
import { temporaryDirectory } from "./support/temporary.ts";
import { toolBox } from "./support/tool-box.ts";
import { secret, unguessable } from "./support/worlds.ts";

const attempts = isDeep ? 100_000 : 5_000;
const together = 4;
const isLinux = process.platform === "linux";
if (!isLinux)
  console.info("not run: only Linux can hold directories, so only there no race is lost");

/** A root in which a directory and a file keep becoming links to the outside. */
async function contestedRoot() {
  const outer = await temporaryDirectory({ inMemory: true });
  const root = join(outer, "root");
  const outside = join(outer, "outside");
  await mkdir(join(root, "dir/sub"), { recursive: true });
  await mkdir(join(outside, "sub"), { recursive: true });
  for (const path of ["dir/file.txt", "dir/sub/file.txt", "file.txt"]) {
    await writeFile(join(root, path), "inside\n");
  }
  for (const path of ["file.txt", "sub/file.txt", unguessable, `sub/${unguessable}`]) {
    await writeFile(join(outside, path), `${secret} inside\n`);
  }
  return { root, outside };
}

async function startSwapper(root: string, outside: string): Promise<ChildProcess> {
  const program = join(import.meta.dirname, "support/swapper.ts");
  const pairs = [join(root, "dir"), outside, join(root, "file.txt"), join(outside, "file.txt")];
  const swapper = spawn(process.execPath, [program, ...pairs], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(async () => {
    if (swapper.exitCode !== null) return;
    swapper.kill("SIGKILL");
    await once(swapper, "exit");
  });
  await once(swapper.stdout, "data");
  return swapper;
}

const paths = ["dir/file.txt", "dir/sub/file.txt", "file.txt"];
const moves: readonly (readonly [weight: number, name: string, input: (path: string) => object])[] =
  [
    [50, "read_file", (path) => ({ path })],
    [16, "write_file", (path) => ({ path, content: "inside\nattacked\n" })],
    [12, "edit_file", (path) => ({ path, old_string: "inside", new_string: "inside attacked" })],
    [15, "list_files", (path) => ({ path: path.slice(0, path.lastIndexOf("/") + 1) })],
    [5, "glob_files", () => ({ pattern: "**" })],
    [2, "grep_files", () => ({ pattern: "inside" })],
  ];
const bag = moves.flatMap(([weight, ...move]) => Array.from({ length: weight }, () => move));

it.skipIf(!isLinux)(
  `follows no link that appears during an operation: ${attempts} tries, 0 escapes`,
  async () => {
    const { root, outside } = await contestedRoot();
    const before = await snapshot(outside);
    const swapper = await startSwapper(root, outside);

    // A naive reader follows the link, so the race is real.
    let lured = 0;
    for (let tries = 0; lured < 20 && tries < 1_000_000; tries++) {
      const text = await readFile(join(root, "dir/file.txt"), "utf8").catch(() => "");
      if (text.includes(secret)) lured += 1;
    }
    expect(lured).toBe(20);

    const call = toolBox(localFilesystem(root));
    const random = seededRandom(seed);
    const leaks: string[] = [];
    let begun = 0;
    let answered = 0;
    let stopped = 0;
    const goOn = async () => {
      while (begun++ < attempts) {
        const [name, input] = random.pick(bag);
        const said = await call(name, input(random.pick(paths)));
        if (!said.startsWith("Error: ")) answered += 1;
        if (said.includes("links are not followed")) stopped += 1;
        if (said.includes(secret) || said.includes(unguessable)) leaks.push(`${name}: ${said}`);
      }
    };
    await Promise.all(Array.from({ length: together }, goOn));
    expect(swapper.exitCode).toBeNull();
    expect(leaks, `seed ${seed}`).toEqual([]);
    expect(await snapshot(outside)).toEqual(before);
    // Both outcomes happened often.
    expect(answered).toBeGreaterThan(attempts / 20);
    expect(stopped).toBeGreaterThan(attempts / 100);
    console.info(
      `${attempts} tries: ${answered} answered, ${stopped} stopped at a link, 0 led out`,
    );
  },
);
