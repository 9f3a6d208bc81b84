import { existsSync, readdirSync, readlinkSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { RivuletError } from "../../base/error.ts";
import { localFilesystem } from "./local.ts";

describe("localFilesystem", () => {
  let directory: string;
  let root: string;
  let layer: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "rivulet-files-"));
    root = join(directory, "root");
    layer = join(root, ".rivulet/namespaces/user-ann");
    await mkdir(root);
  });
  afterEach(() => rm(directory, { recursive: true }));

  it("accepts absolute paths inside the root", async () => {
    const files = localFilesystem(root);
    await files.write(join(root, "a/b"), "1");
    expect(await readdir(join(root, "a"))).toEqual(["b"]);
    expect(await files.stat(root)).toMatchObject({ path: "", type: "directory" });
    await expect(files.read(`${root}-evil/a`)).rejects.toMatchObject({ code: "outside_workspace" });
  });

  it("notices a change that is made through it at once, and any other within 50 ms", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const files = localFilesystem(root);
    await files.write("a", "1");
    const stamp = files.track?.("a") ?? (() => "");
    const first = stamp();
    expect(stamp()).toBe(first);
    await files.within({ scope: "user", id: "ann" }).write("b", "1");
    expect(stamp()).toBe(first);
    await files.write("a", "12");
    const second = stamp();
    expect(second).not.toBe(first);
    await writeFile(join(root, "a"), "123");
    vi.advanceTimersByTime(50);
    expect(stamp()).toBe(second);
    vi.advanceTimersByTime(1);
    expect(stamp()).not.toBe(second);
  });

  it("accepts a link as its root", async () => {
    await symlink(root, join(directory, "link"));
    await localFilesystem(join(directory, "link")).write("a", "1");
    expect(await readdir(root)).toContain("a");
  });

  it("keeps the mode of a replaced file, without setuid bits", async () => {
    await writeFile(join(root, "run.sh"), "old");
    await chmod(join(root, "run.sh"), 0o4750);
    await localFilesystem(root).write("run.sh", "new");
    expect((await stat(join(root, "run.sh"))).mode & 0o7777).toBe(0o750);
  });

  it("keeps the mode of a common file that a user copies by writing", async () => {
    await writeFile(join(root, "run.sh"), "old");
    await chmod(join(root, "run.sh"), 0o750);
    const ann = localFilesystem(root).within({ scope: "user", id: "ann" });
    await ann.write("run.sh", "new");
    await ann.rename("run.sh", "bin/run.sh");
    expect((await stat(join(layer, "bin/run.sh"))).mode & 0o777).toBe(0o750);
  });

  it("keeps a layer as a directory with whiteouts", async () => {
    const files = localFilesystem(root);
    for (const path of ["a", "docs/b", "docs/c", "old/d"]) await files.write(path, "common");
    const ann = files.within({ scope: "user", id: "ann" });
    await ann.write("docs/b", "own");
    await ann.remove("docs/c");
    await ann.remove("old");
    expect((await readdir(layer, { recursive: true })).sort()).toEqual([
      ...[".wh.old", "docs", "docs/.wh.c", "docs/b"],
    ]);
    expect((await stat(join(layer, ".wh.old"))).size).toBe(0);
  });

  it("obeys whiteouts that another program has written", async () => {
    const files = localFilesystem(root);
    for (const path of ["docs/b", "docs/deep/c"]) await files.write(path, "common");
    await mkdir(join(layer, "docs/deep"), { recursive: true });
    await writeFile(join(layer, "docs/deep/mine"), "own");
    await writeFile(join(layer, "docs/.wh.deep"), "");
    const ann = files.within({ scope: "user", id: "ann" });
    expect((await ann.glob("**")).paths).toEqual(["docs/b", "docs/deep/mine"]);
    expect(await ann.stat("docs/deep/c")).toBeUndefined();
  });

  it("follows a link in neither layer", async () => {
    await writeFile(join(directory, "secret"), "secret");
    await symlink(directory, join(root, "common-link"));
    await writeFile(join(root, "file"), "common");
    await mkdir(join(root, "dir"));
    await writeFile(join(root, "dir/file"), "common");
    await mkdir(layer, { recursive: true });
    await symlink(directory, join(layer, "own-link"));
    await symlink(join(directory, "secret"), join(layer, "file"));
    await symlink(directory, join(layer, "dir"));
    const ann = localFilesystem(root).within({ scope: "user", id: "ann" });
    const paths = ["common-link/secret", "own-link/secret", "file", "dir/file"];
    for (const path of [...paths, "dir/secret"]) {
      await expect(ann.read(path), path).rejects.toMatchObject({ code: "not_regular" });
      await expect(ann.write(path, "x"), path).rejects.toMatchObject({ code: "not_regular" });
      await expect(ann.remove(path), path).rejects.toMatchObject({ code: "not_regular" });
    }
    expect(await readdir(directory)).toEqual(["root", "secret"]);
    expect((await ann.grep({ pattern: "secret" })).matches).toEqual([]);
  });

  it("removes no directory that contains a repository, and no link target", async () => {
    const files = localFilesystem(root);
    await mkdir(join(root, "a/b/.git"), { recursive: true });
    await writeFile(join(root, "a/b/.git/config"), "");
    await expect(files.remove("a")).rejects.toMatchObject({ code: "read_only" });
    await expect(files.rename("a", "c")).rejects.toMatchObject({ code: "read_only" });
    await mkdir(join(root, "d"));
    await writeFile(join(directory, "kept"), "");
    await symlink(directory, join(root, "d/link"));
    await files.remove("d");
    expect(await readdir(root)).toEqual([".rivulet", "a"]);
    expect(await readdir(directory)).toContain("kept");
  });

  it("leaves no temporary file after a failed write", async () => {
    const files = localFilesystem(root);
    await files.write("a", "1");
    await expect(files.write("a", "2", { ifVersion: null })).rejects.toThrow("version");
    await mkdir(join(root, "dir"));
    await expect(files.write("dir", "2")).rejects.toThrow("directory");
    expect(await readdir(root)).toEqual([".rivulet", "a", "dir"]);
  });

  it("hides temporary files and names that no path can have", async () => {
    for (const name of [".rivulet-0123", "a:b", "c ", "back\\slash", "fine"]) {
      await writeFile(join(root, name), "find me");
    }
    const files = localFilesystem(root);
    expect((await files.list("")).entries.map(({ path }) => path)).toEqual(["fine"]);
    expect((await files.glob("**")).paths).toEqual(["fine"]);
    expect((await files.grep({ pattern: "find" })).matches).toHaveLength(1);
  });

  it("reports system errors without paths of this machine", async () => {
    const files = localFilesystem(join(root, "file"));
    await writeFile(join(root, "file"), "in the way");
    const error: RivuletError = await files.read("a").then(
      () => undefined as never,
      (error) => error,
    );
    expect(error.toJSON()).toEqual({
      code: "file_failed",
      message: '"a" could not be used: EEXIST.',
      retryable: false,
    });
  });

  it.skipIf(process.platform !== "linux")("closes every handle", async () => {
    const files = localFilesystem(root);
    await symlink("/", join(root, "link"));
    const works: readonly (() => Promise<unknown>)[] = [
      () => files.write("a/b/c", "find me"),
      () => files.read("a/b/c"),
      () => files.read("a/none"),
      () => files.read("a/b"),
      () => files.read("link/etc/passwd"),
      () => files.write("a/b", ""),
      () => files.write("a/b/c", "", { ifVersion: "other" }),
      () => files.list("a"),
      () => files.list("link"),
      () => files.glob("**"),
      () => files.grep({ pattern: "find" }),
      () => files.stat("a/b/c/d"),
      () => files.within({ scope: "user", id: "ann" }).remove("a/b"),
      () => files.rename("a/b", "d"),
      () => files.remove("d"),
      () => files.remove("d"),
    ];
    const openInRoot = () =>
      readdirSync("/proc/self/fd").flatMap((fd) => {
        const link = `/proc/self/fd/${fd}`;
        // One of them belonged to readdirSync and is closed.
        return existsSync(link) && readlinkSync(link).startsWith(root) ? [readlinkSync(link)] : [];
      });
    for (const work of works) {
      await work().catch(() => {});
      // At once, because the garbage collector would close forgotten handles.
      expect(openInRoot(), String(work)).toEqual([]);
    }
  });
});
