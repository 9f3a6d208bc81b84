import { mkdir, mkdtemp, readdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { canHold, createFile, openDirectory, openFile } from "./directory.ts";

let outer: string;
beforeEach(async () => {
  outer = await mkdtemp(join(tmpdir(), "rivulet-directory-"));
  await mkdir(join(outer, "root/dir"), { recursive: true });
  await mkdir(join(outer, "outside"));
  await writeFile(join(outer, "root/dir/file"), "inside");
  await writeFile(join(outer, "outside/file"), "outside");
});
afterEach(() => rm(outer, { recursive: true }));

/** Replaces the directory with a link to a directory outside. */
async function swap(): Promise<void> {
  await rename(join(outer, "root/dir"), join(outer, "root/away"));
  await symlink(join(outer, "outside"), join(outer, "root/dir"));
}

const open = (held: boolean, name = "dir") =>
  openDirectory({ path: join(outer, "root"), held }, { base: [], names: [name], path: name });

describe.skipIf(!canHold)("a directory with a handle", () => {
  it("stays the same when its path changes", async () => {
    const directory = await open(true);
    await swap();
    const { handle } = await openFile(directory, "file", "dir/file");
    expect(await handle.readFile("utf8")).toBe("inside");
    await handle.close();
    await (await createFile(directory, "new")).close();
    expect(await readdir(join(outer, "root/away"))).toEqual(["file", "new"]);
    expect(await readdir(join(outer, "outside"))).toEqual(["file"]);
    await directory.close();
  });
});

describe("a directory without a handle", () => {
  it("detects that its path leads elsewhere", async () => {
    const directory = await open(false);
    expect(await directory.holds()).toBe(true);
    await swap();
    expect(await directory.holds()).toBe(false);
    const refused = { code: "not_regular" };
    await expect(openFile(directory, "file", "dir/file")).rejects.toMatchObject(refused);
    await expect(createFile(directory, "new")).rejects.toMatchObject(refused);
    expect(await readdir(join(outer, "outside"))).toEqual(["file"]);
  });

  it("detects that an entry became a link", async () => {
    const directory = await open(false);
    await rm(join(outer, "root/dir/file"));
    await symlink(join(outer, "outside/file"), join(outer, "root/dir/file"));
    await expect(openFile(directory, "file", "dir/file")).rejects.toMatchObject({
      code: "not_regular",
      message: '"dir/file" is a symbolic link, and links are not followed.',
    });
  });
});

it.each([true, false])("refuses a link as a directory (handle: %s)", async (held) => {
  await symlink(join(outer, "outside"), join(outer, "root/link"));
  await expect(open(held && canHold, "link")).rejects.toMatchObject({ code: "not_regular" });
});
