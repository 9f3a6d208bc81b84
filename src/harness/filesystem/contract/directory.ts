import { describe, expect } from "vitest";
import { type ContractTest, pathsOf, refusal, writeAll } from "./fixture.ts";

/** Directories: what is in them, what there is at a path. */
export function directoryCases(it: ContractTest): void {
  describe("a directory", () => {
    it("is empty at first", async ({ files }) => {
      expect(await files.list("")).toEqual({ entries: [], cut: false });
      expect(await files.stat("")).toMatchObject({ path: "", type: "directory" });
    });

    it("lists what is in it and nothing below", async ({ files }) => {
      await writeAll(files, { "b.txt": "12345", "a/x/y": "", "a-1": "", "a.1": "", "c/z": "" });
      const { entries, cut } = await files.list("");
      expect(cut).toBe(false);
      expect(pathsOf(entries)).toEqual(["a", "a-1", "a.1", "b.txt", "c"]);
      expect(entries[0]).toMatchObject({ type: "directory", size: 0 });
      expect(entries[3]).toMatchObject({ path: "b.txt", type: "file", size: 5 });
      expect(pathsOf((await files.list("a")).entries)).toEqual(["a/x"]);
      expect(pathsOf((await files.list("/")).entries)).toHaveLength(5);
    });

    it("with many directories in it is listed once each", async ({ files }) => {
      for (let i = 0; i < 30; i++) await files.write(`d${i % 3}/e${i}/f`, "");
      expect(pathsOf((await files.list("")).entries)).toEqual(["d0", "d1", "d2"]);
      expect((await files.list("d1")).entries).toHaveLength(10);
    });

    it("that is not there, or is a file, cannot be listed", async ({ files }) => {
      await files.write("a", "");
      expect(await refusal(files.list("b"))).toBe("not_found");
      expect(await refusal(files.list("a"))).toBe("not_a_directory");
      expect(await refusal(files.list("b/c"))).toBe("not_found");
    });
  });

  describe("stat", () => {
    it("says what there is", async ({ files }) => {
      const before = Date.now();
      await files.write("a/b.txt", "123");
      expect(await files.stat("a")).toMatchObject({ path: "a", type: "directory" });
      expect(await files.stat("./a/b.txt")).toMatchObject({
        path: "a/b.txt",
        type: "file",
        size: 3,
      });
      const { modifiedAt = 0 } = (await files.stat("a/b.txt")) ?? {};
      expect(modifiedAt).toBeGreaterThanOrEqual(before - 1_000);
      expect(modifiedAt).toBeLessThanOrEqual(Date.now() + 1_000);
    });

    it("says nothing of what is not there", async ({ files }) => {
      await files.write("a", "");
      for (const path of ["b", "b/c", "a/b", "a/b/c"])
        expect(await files.stat(path)).toBeUndefined();
    });
  });

  describe("a long directory", () => {
    const limited = it.extend({ options: { limits: { listEntries: 5 } } });

    limited("is listed up to the limit, and says so beyond it", async ({ files }) => {
      for (let i = 0; i < 5; i++) await files.write(`f${i}`, "");
      expect((await files.list("")).cut).toBe(false);
      await files.write("f5", "");
      const { entries, cut } = await files.list("");
      expect(entries).toHaveLength(5);
      expect(cut).toBe(true);
    });
  });
}
