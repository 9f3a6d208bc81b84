import { deepEqual, equal, notEqual, ok } from "node:assert/strict";
import type { Filesystem, Namespace } from "../../harness/index.ts";
import { assertMatches } from "../contract.ts";
import { type FilesystemSuite, pathsOf, patient, refusal, textOf, writeAll } from "./fixture.ts";

const ann: Namespace = { scope: "user", id: "ann" };
const bob: Namespace = { scope: "user", id: "bob" };

/** Every file with its text, which read, list, glob and grep must agree on. */
async function textsOf(files: Filesystem, path = ""): Promise<Record<string, string>> {
  const { paths } = await files.glob("**", { path });
  const { matches } = await files.grep({ pattern: "." }, { path });
  deepEqual(pathsOf(matches), paths);
  const listed: string[] = [];
  const open = [path];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const entry of (await files.list(next)).entries) {
      if (entry.type === "directory") open.push(entry.path);
      else listed.push(entry.path);
      assertMatches(await files.stat(entry.path), { path: entry.path, type: entry.type });
    }
  }
  deepEqual(listed.sort(), paths);
  const texts: Record<string, string> = {};
  for (const file of paths) texts[file] = await textOf(files, file);
  for (const { path: file, text } of matches) equal(text, texts[file]);
  return texts;
}

/** The common files below the files of a user, session or agent. */
export function layerCases({ describe, it }: FilesystemSuite): void {
  const common = { "a.md": "A", "docs/b.md": "B", "docs/deep/c.md": "C" };

  describe("layers", () => {
    it("reads the common files in every method", async ({ files, second }) => {
      await writeAll(files, common);
      const own = second.within(ann);
      deepEqual(await textsOf(own), common);
      deepEqual(await textsOf(own, "docs"), { "docs/b.md": "B", "docs/deep/c.md": "C" });
      deepEqual(pathsOf((await own.list("docs")).entries), ["docs/b.md", "docs/deep"]);
      deepEqual((await own.glob("*.md", { path: "docs" })).paths, ["docs/b.md"]);
      deepEqual(pathsOf((await own.grep({ pattern: "C" }, { path: "docs/deep/c.md" })).matches), [
        "docs/deep/c.md",
      ]);
      equal(await refusal(own.read("docs")), "not_a_file");
      equal(await refusal(own.list("a.md")), "not_a_directory");
    });

    it("tracks changes of both layers, if it tracks files", async ({ files }) => {
      const own = files.within(ann);
      const track = own.track?.("docs/b.md");
      if (track === undefined) return;
      const seen = new Set([track()]);
      for (const change of [
        () => files.write("docs/b.md", "B"),
        () => own.write("docs/b.md", "mine"),
        () => own.remove("docs/b.md"),
        () => own.write("docs/b.md", "again"),
        () => own.remove("docs"),
      ]) {
        await change();
        equal(track(), track());
        ok(!seen.has(track()));
        seen.add(track());
      }
    });

    it("writes to the own layer alone and merges directories", async ({ files, second }) => {
      await writeAll(files, common);
      const own = files.within(ann);
      assertMatches(await own.write("a.md", "Ann's"), { path: "a.md", created: false });
      assertMatches(await own.write("docs/new.md", "New"), { created: true });
      const merged = { ...common, "a.md": "Ann's", "docs/new.md": "New" };
      deepEqual(await textsOf(second.within(ann)), merged);
      deepEqual(await textsOf(files), common);
      deepEqual(await textsOf(second.within(bob)), common);
    });

    it("shows a change of a common file until the user has written it", async ({ files }) => {
      await writeAll(files, common);
      const own = files.within(ann);
      await files.write("a.md", "A2");
      equal(await textOf(own, "a.md"), "A2");
      await own.write("a.md", "mine");
      await files.write("a.md", "A3");
      equal(await textOf(own, "a.md"), "mine");
      await own.remove("a.md");
      equal(await own.stat("a.md"), undefined);
    });

    it("hides a removed common file from this user alone, also after a restart", async ({
      files,
      second,
    }) => {
      await writeAll(files, common);
      await files.within(ann).remove("docs/b.md");
      await files.within(ann).remove("a.md");
      const own = second.within(ann);
      for (const path of ["a.md", "docs/b.md"]) {
        equal(await refusal(own.read(path)), "not_found");
        equal(await refusal(own.remove(path)), "not_found");
        equal(await own.stat(path), undefined);
      }
      deepEqual(await textsOf(own), { "docs/deep/c.md": "C" });
      deepEqual(await textsOf(files), common);
      deepEqual(await textsOf(second.within(bob)), common);
      await own.write("a.md", "again", { ifVersion: null });
      equal(await textOf(files.within(ann), "a.md"), "again");
      await own.remove("a.md");
      equal(await refusal(own.read("a.md")), "not_found");
    });

    it("removes a directory and creates it again without the old files", async ({
      files,
      second,
    }) => {
      await writeAll(files, common);
      const own = files.within(ann);
      await own.write("docs/mine.md", "mine");
      await own.remove("docs");
      equal(await own.stat("docs"), undefined);
      equal(await refusal(own.list("docs")), "not_found");
      equal(await refusal(own.read("docs/deep/c.md")), "not_found");
      await own.write("docs/deep/new.md", "new");
      await files.write("docs/later.md", "later");
      deepEqual(await textsOf(second.within(ann)), { "a.md": "A", "docs/deep/new.md": "new" });
      await own.remove("docs");
      deepEqual(await textsOf(second.within(ann)), { "a.md": "A" });
      deepEqual(await textsOf(files), { ...common, "docs/later.md": "later" });
    });

    it("renames common files and directories for this user alone", async ({ files, second }) => {
      await writeAll(files, common);
      const own = files.within(ann);
      await own.write("docs/mine.md", "mine");
      await own.rename("docs", "old/docs");
      await own.rename("a.md", "docs");
      const moved = {
        docs: "A",
        "old/docs/b.md": "B",
        "old/docs/deep/c.md": "C",
        "old/docs/mine.md": "mine",
      };
      deepEqual(await textsOf(second.within(ann)), moved);
      deepEqual(await textsOf(files), common);
      deepEqual(await textsOf(files.within(bob)), common);
    });

    it("replaces a removed directory with a file, and a file with a directory", async ({
      files,
    }) => {
      await writeAll(files, common);
      const own = files.within(ann);
      equal(await refusal(own.write("docs", "x")), "not_a_file");
      equal(await refusal(own.write("a.md/x", "x")), "not_a_directory");
      equal(await refusal(own.write("a.md/x/y", "x")), "not_a_directory");
      await own.remove("docs");
      await own.write("docs", "a file");
      await own.remove("a.md");
      await own.write("a.md/x", "below");
      deepEqual(await textsOf(own), { "a.md/x": "below", docs: "a file" });
      equal(await own.stat("docs/b.md"), undefined);
    });

    it("prefers the own entry when a common one of another type appears", async ({ files }) => {
      const own = files.within(ann);
      await own.write("x", "a file");
      await own.write("y/z", "below");
      await writeAll(files, { "x/b": "hidden", y: "hidden" });
      deepEqual(await textsOf(own), { x: "a file", "y/z": "below" });
      equal(await own.stat("x/b"), undefined);
      await own.write("y/new", "more");
      deepEqual(await textsOf(own), { x: "a file", "y/new": "more", "y/z": "below" });
    });

    it("treats names that differ in case as the storage does", async ({ files }) => {
      await files.write("Notes.md", "common");
      const own = files.within(ann);
      const isFolding = (await files.stat("notes.md")) !== undefined;
      equal(await refusal(own.remove("notes.md")), isFolding ? "nothing" : "not_found");
      equal((await own.stat("Notes.md")) !== undefined, !isFolding);
    });

    it("has no path for the files that hide others", async ({ files }) => {
      await writeAll(files, common);
      const own = files.within(ann);
      await own.remove("docs/b.md");
      for (const path of ["docs/.wh.b.md", ".wh.docs", "docs/.WH.b.md"]) {
        equal(await refusal(own.read(path)), "invalid_path");
        equal(await refusal(own.write(path, "x")), "invalid_path");
        equal(await refusal(own.remove(path)), "invalid_path");
      }
      ok(!JSON.stringify([await own.list("docs"), await own.glob("**")]).includes(".wh."));
    });

    it("applies to a directory that another user works in", async ({ files }) => {
      await writeAll(files, common);
      const child = files.below("docs");
      await child.within(ann).write("b.md", "Ann's");
      await child.within(ann).remove("deep");
      deepEqual(await textsOf(child.within(ann)), { "b.md": "Ann's" });
      deepEqual(await textsOf(files.within(ann)), { "a.md": "A", "docs/b.md": "Ann's" });
      deepEqual(await textsOf(child.within(bob)), { "b.md": "B", "deep/c.md": "C" });
      await files.within(bob).remove("docs");
      deepEqual(await textsOf(child.within(bob)), {});
    });

    it(
      "cuts a merged directory at the limit",
      async ({ files }) => {
        await writeAll(files, { a: "1", b: "2", c: "3" });
        const own = files.within(ann);
        await writeAll(own, { a: "own", d: "4" });
        deepEqual(pathsOf((await own.list("")).entries), ["a", "b", "c", "d"]);
        await own.write("e", "5");
        assertMatches(await own.list(""), { cut: true });
        equal((await own.list("")).entries.length, 4);
        await own.remove("b");
        deepEqual(pathsOf((await own.list("")).entries), ["a", "c", "d", "e"]);
      },
      { limits: { ...patient, listEntries: 4 } },
    );
  });

  describe("versions of layers", () => {
    it("accepts the version of a common file once", async ({ files }) => {
      await files.write("a", "common");
      const own = files.within(ann);
      const { version } = await own.read("a");
      for (const ifVersion of [null, "", "0", "1", "nonsense"]) {
        equal(await refusal(own.write("a", "x", { ifVersion })), "conflict", String(ifVersion));
      }
      const written = await own.write("a", "own", { ifVersion: version });
      assertMatches(written, { created: false, version: (await own.read("a")).version });
      notEqual(written.version, version);
      equal(await refusal(own.write("a", "x", { ifVersion: version })), "conflict");
      equal(await textOf(own, "a"), "own");
      equal(await textOf(files, "a"), "common");
    });

    it("rejects the version of a common file that was changed or hidden", async ({ files }) => {
      await writeAll(files, { a: "1", b: "1" });
      const own = files.within(ann);
      const [a, b] = [await own.read("a"), await own.read("b")];
      await files.write("a", "2");
      await own.remove("b");
      equal(await refusal(own.write("a", "x", { ifVersion: a.version })), "conflict");
      equal(await refusal(own.write("b", "x", { ifVersion: b.version })), "conflict");
      equal(await own.stat("b"), undefined);
    });

    it("accepts one of many concurrent first writes", async ({ files, second }) => {
      await files.write("a", "start");
      const [one, two] = [files.within(ann), second.within(ann)];
      const { version: ifVersion } = await one.read("a");
      const tries = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          refusal((i % 2 ? one : two).write("a", `writer ${i}`, { ifVersion })),
        ),
      );
      equal(tries.filter((code) => code === "nothing").length, 1);
      equal(tries.filter((code) => code === "conflict").length, 19);
      equal(await textOf(files, "a"), "start");
    });

    it("loses no concurrent update of a common file", async ({ files, second }) => {
      await files.write("count", "0");
      const views = [files.within(ann), second.within(ann)];
      const increment = async (_: unknown, index: number) => {
        const own = views[index % 2] as Filesystem;
        for (;;) {
          const { data, version } = await own.read("count");
          const next = String(Number(new TextDecoder().decode(data)) + 1);
          const code = await refusal(own.write("count", next, { ifVersion: version }));
          if (code === "nothing") return;
          equal(code, "conflict");
        }
      };
      await Promise.all(Array.from({ length: 10 }, increment));
      equal(await textOf(views[0] as Filesystem, "count"), "10");
      equal(await textOf(files, "count"), "0");
    });

    it("keeps a common file removed while others try to edit it", async ({ files, second }) => {
      const [one, two] = [files.within(ann), second.within(ann)];
      for (let round = 0; round < 20; round++) {
        const path = `f${round}`;
        await files.write(path, "common");
        const { version: ifVersion } = await one.read(path);
        await Promise.all([two.remove(path), refusal(one.write(path, "edited", { ifVersion }))]);
        equal(await one.stat(path), undefined, path);
      }
    });
  });
}
