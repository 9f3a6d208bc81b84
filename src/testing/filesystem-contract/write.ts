import { deepEqual, equal, notEqual, ok } from "node:assert/strict";
import { type FilesystemSuite, refusal, textOf } from "./fixture.ts";

/** Reading, writing and removing files. */
export function writeCases({ describe, it }: FilesystemSuite): void {
  describe("files", () => {
    it("returns a file unchanged", async ({ files }) => {
      const written = await files.write("notes.md", "hello");
      deepEqual(written, { path: "notes.md", version: written.version, created: true });
      equal(typeof written.version, "string");
      const { data, ...rest } = await files.read("notes.md");
      deepEqual(rest, { path: "notes.md", version: written.version });
      equal(new TextDecoder().decode(data), "hello");
    });

    it("keeps every byte, an empty file and a megabyte", async ({ files }) => {
      const every = Uint8Array.from({ length: 256 }, (_, i) => i);
      const large = Uint8Array.from({ length: 1_000_000 }, (_, i) => (i * 31) % 251);
      for (const [path, bytes] of Object.entries({ every, large, none: new Uint8Array() })) {
        await files.write(path, bytes);
        ok(Buffer.from((await files.read(path)).data).equals(bytes), path);
      }
    });

    it("keeps every text unchanged", async ({ files }) => {
      const text = "\ufeffé e\u0301 😀 \u2028 \0 \r\n";
      await files.write("text", text);
      equal(await textOf(files, "text"), text);
    });

    it("accepts common file names", async ({ files }) => {
      const names = [
        ".env",
        "a b.txt",
        "été.md",
        "日本：語.md",
        "a%b",
        "[x]{y}",
        "-rf",
        "$HOME",
        "..a",
      ];
      for (const name of names) await files.write(`dir/${name}`, name);
      for (const name of names) equal(await textOf(files, `dir/${name}`), name);
      equal((await files.list("dir")).entries.length, names.length);
    });

    it("creates missing directories", async ({ files }) => {
      await files.write("a/b/c/d.txt", "deep");
      equal(await textOf(files, "./a//b/../b/c/d.txt"), "deep");
    });

    it("replaces a file and changes its version", async ({ files }) => {
      const first = await files.write("a", "a longer text");
      const second = await files.write("a", "short");
      equal(second.created, false);
      notEqual(second.version, first.version);
      equal(await textOf(files, "a"), "short");
    });

    it("rejects reading before the first write and after a removal", async ({ files }) => {
      equal(await refusal(files.read("a")), "not_found");
      equal(await refusal(files.remove("a")), "not_found");
      await files.write("a", "1");
      await files.remove("a");
      equal(await files.stat("a"), undefined);
      equal(await refusal(files.read("dir/a")), "not_found");
    });

    it("rejects a file in the place of a directory, or below a file", async ({ files }) => {
      await files.write("dir/file", "1");
      equal(await refusal(files.write("dir", "x")), "not_a_file");
      equal(await refusal(files.read("dir")), "not_a_file");
      equal(await refusal(files.read("")), "not_a_file");
      equal(await refusal(files.write("", "x")), "not_a_file");
      equal(await refusal(files.write("dir/file/below", "x")), "not_a_directory");
      equal(await textOf(files, "dir/file"), "1");
    });
  });

  describe("directories", () => {
    const texts = { "dir/a": "1", "dir/deep/b": "2", "dir/deep/er/c": "3", "dir.md": "4" };

    it("are removed with everything in them", async ({ files, second }) => {
      for (const [path, text] of Object.entries(texts)) await files.write(path, text);
      equal(await refusal(files.remove("")), "not_a_file");
      await files.remove("dir");
      equal(await second.stat("dir"), undefined);
      equal(await refusal(second.list("dir")), "not_found");
      equal(await refusal(files.remove("dir")), "not_found");
      deepEqual((await second.glob("**")).paths, ["dir.md"]);
    });

    it("are renamed with everything in them", async ({ files, second }) => {
      for (const [path, text] of Object.entries(texts)) await files.write(path, text);
      await files.rename("dir", "new/dir");
      deepEqual((await second.glob("**")).paths, [
        ...["dir.md", "new/dir/a", "new/dir/deep/b", "new/dir/deep/er/c"],
      ]);
      equal(await textOf(second, "new/dir/deep/er/c"), "3");
      await files.rename("dir.md", "dir");
      equal(await textOf(second, "dir"), "4");
    });

    it("are not renamed to a path that exists or is inside them", async ({ files }) => {
      for (const [path, text] of Object.entries(texts)) await files.write(path, text);
      for (const to of ["dir", "./dir/", "dir/x", "dir.md"]) {
        equal(await refusal(files.rename("dir", to)), "conflict", to);
      }
      equal(await refusal(files.rename("dir.md", "dir/a/x")), "not_a_directory");
      equal(await refusal(files.rename("nothing", "x")), "not_found");
      equal(await refusal(files.rename("", "x")), "not_a_file");
      deepEqual((await files.glob("**")).paths.length, 4);
    });
  });

  describe("conditional writes", () => {
    it("accepts the current version", async ({ files }) => {
      const { version } = await files.write("a", "one");
      equal((await files.read("a")).version, version);
      const next = await files.write("a", "two", { ifVersion: version });
      equal(next.created, false);
      equal(await textOf(files, "a"), "two");
    });

    it("rejects any other version and changes nothing", async ({ files, second }) => {
      const { version } = await files.write("a", "one");
      await second.write("a", "two");
      for (const ifVersion of [version, null, "", "0", "nonsense", "NaN"]) {
        equal(await refusal(files.write("a", "three", { ifVersion })), "conflict");
      }
      equal(await textOf(files, "a"), "two");
      equal((await files.list("")).entries.length, 1);
    });

    it("creates a file only if it does not exist", async ({ files }) => {
      await files.write("a", "one", { ifVersion: null });
      equal(await refusal(files.write("a", "two", { ifVersion: null })), "conflict");
      const { version } = await files.read("a");
      await files.remove("a");
      equal(await refusal(files.write("a", "two", { ifVersion: version })), "conflict");
      equal(await files.stat("a"), undefined);
    });

    it("accepts one of many concurrent writes", async ({ files, second }) => {
      const { version: ifVersion } = await files.write("a", "start");
      const tries = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          refusal((i % 2 ? files : second).write("a", `writer ${i}`, { ifVersion })),
        ),
      );
      equal(tries.filter((code) => code === "nothing").length, 1);
      equal(tries.filter((code) => code === "conflict").length, 19);
    });

    it("loses no concurrent update", async ({ files, second }) => {
      await files.write("count", "0");
      const increment = async (_: unknown, index: number) => {
        const mine = index % 2 ? files : second;
        for (;;) {
          const { data, version } = await mine.read("count");
          const next = String(Number(new TextDecoder().decode(data)) + 1);
          const code = await refusal(mine.write("count", next, { ifVersion: version }));
          if (code === "nothing") return;
          equal(code, "conflict");
        }
      };
      await Promise.all(Array.from({ length: 10 }, increment));
      equal(await textOf(files, "count"), "10");
    });
  });

  describe("concurrent reads", () => {
    it("return a complete file while it is replaced", async ({ files, second }) => {
      const texts = ["a".repeat(200_000), "b".repeat(100_000)];
      await files.write("a", texts[0] as string);
      let isDone = false;
      const writing = (async () => {
        for (let i = 0; i < 20; i++) await files.write("a", texts[i % 2] as string);
        isDone = true;
      })();
      while (!isDone) ok(texts.includes(await textOf(second, "a")));
      await writing;
    });
  });

  describe("limits of write", () => {
    it(
      "rejects a file above the limit",
      async ({ files }) => {
        for (const size of [99, 100]) {
          await files.write("a", "x".repeat(size));
          equal((await files.read("a")).data.length, size);
        }
        equal(await refusal(files.write("a", "x".repeat(101))), "too_large");
        equal(await refusal(files.write("a", "é".repeat(51))), "too_large");
        equal((await files.read("a")).data.length, 100);
      },
      { limits: { fileBytes: 100 } },
    );
  });
}
