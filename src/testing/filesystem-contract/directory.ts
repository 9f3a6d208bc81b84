import { deepEqual, equal, ok } from "node:assert/strict";
import { assertMatches } from "../contract.ts";
import { type FilesystemSuite, pathsOf, refusal, writeAll } from "./fixture.ts";

/** Listing directories and `stat`. */
export function directoryCases({ describe, it }: FilesystemSuite): void {
  describe("list", () => {
    it("is empty in an empty filesystem", async ({ files }) => {
      deepEqual(await files.list(""), { entries: [], cut: false });
      assertMatches(await files.stat(""), { path: "", type: "directory" });
    });

    it("lists direct entries only", async ({ files }) => {
      await writeAll(files, { "b.txt": "12345", "a/x/y": "", "a-1": "", "a.1": "", "c/z": "" });
      const { entries, cut } = await files.list("");
      equal(cut, false);
      deepEqual(pathsOf(entries), ["a", "a-1", "a.1", "b.txt", "c"]);
      assertMatches(entries[0], { type: "directory", size: 0 });
      assertMatches(entries[3], { path: "b.txt", type: "file", size: 5 });
      deepEqual(pathsOf((await files.list("a")).entries), ["a/x"]);
      equal(pathsOf((await files.list("/")).entries).length, 5);
    });

    it("lists each subdirectory once", async ({ files }) => {
      for (let i = 0; i < 30; i++) await files.write(`d${i % 3}/e${i}/f`, "");
      deepEqual(pathsOf((await files.list("")).entries), ["d0", "d1", "d2"]);
      equal((await files.list("d1")).entries.length, 10);
    });

    it("rejects a path that does not exist or is a file", async ({ files }) => {
      await files.write("a", "");
      equal(await refusal(files.list("b")), "not_found");
      equal(await refusal(files.list("a")), "not_a_directory");
      equal(await refusal(files.list("b/c")), "not_found");
    });
  });

  describe("stat", () => {
    it("returns type, size and time", async ({ files }) => {
      const before = Date.now();
      await files.write("a/b.txt", "123");
      assertMatches(await files.stat("a"), { path: "a", type: "directory" });
      assertMatches(await files.stat("./a/b.txt"), {
        path: "a/b.txt",
        type: "file",
        size: 3,
      });
      const { modifiedAt = 0 } = (await files.stat("a/b.txt")) ?? {};
      ok(modifiedAt >= before - 1_000);
      ok(modifiedAt <= Date.now() + 1_000);
    });

    it("returns undefined for a path that does not exist", async ({ files }) => {
      await files.write("a", "");
      for (const path of ["b", "b/c", "a/b", "a/b/c"]) equal(await files.stat(path), undefined);
    });
  });

  describe("limits of list", () => {
    it(
      "cuts a directory at the limit",
      async ({ files }) => {
        for (let i = 0; i < 5; i++) await files.write(`f${i}`, "");
        equal((await files.list("")).cut, false);
        await files.write("f5", "");
        const { entries, cut } = await files.list("");
        equal(entries.length, 5);
        ok(cut);
      },
      { limits: { listEntries: 5 } },
    );
  });
}
