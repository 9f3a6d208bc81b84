import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import { type FilesystemSuite, pathsOf, patient, refusal, writeAll } from "./fixture.ts";

/** `glob` and `grep`. */
export function searchCases({ describe, it }: FilesystemSuite): void {
  describe("glob", () => {
    const tree = { "a.md": "", "b.txt": "", "d/c.md": "", "d/e/f.md": "", "d/.h/g.md": "" };

    it("finds files by pattern, in order", async ({ files }) => {
      await writeAll(files, tree);
      const found = async (pattern: string, path?: string) =>
        (await files.glob(pattern, path === undefined ? {} : { path })).paths;
      deepEqual(await found("*.md"), ["a.md"]);
      deepEqual(await found("**/*.md"), ["a.md", "d/.h/g.md", "d/c.md", "d/e/f.md"]);
      equal((await found("**")).length, 5);
      deepEqual(await found("d/*.md"), ["d/c.md"]);
      deepEqual(await found("*.md", "d"), ["d/c.md"]);
      deepEqual(await found("e/*", "d"), ["d/e/f.md"]);
      deepEqual(await found("{a,b}.*"), ["a.md", "b.txt"]);
      deepEqual(await found("d"), []);
      deepEqual(await found("nowhere/*"), []);
      deepEqual(await found("a.md/*"), []);
    });

    it("rejects a start directory that does not exist", async ({ files }) => {
      await writeAll(files, tree);
      equal(await refusal(files.glob("*", { path: "nowhere" })), "not_found");
      equal(await refusal(files.glob("*", { path: "a.md" })), "not_a_directory");
      deepEqual(await files.glob("*", { path: "" }), { paths: ["a.md", "b.txt"] });
    });

    it("rejects patterns that leave the start directory", async ({ files }) => {
      await writeAll(files, tree);
      for (const pattern of [
        "../*",
        "d/../../*",
        "/etc/*",
        "{..,x}/*",
        "",
        "[a",
        "{a,b}".repeat(20),
      ]) {
        equal(await refusal(files.glob(pattern, { path: "d" })), "invalid_pattern", pattern);
      }
    });

    it("stops when its signal is aborted", async ({ files }) => {
      await writeAll(files, tree);
      const signal = AbortSignal.abort(new Error("enough"));
      await rejects(files.glob("**", { signal }), /enough/);
    });
  });

  describe("grep", () => {
    const tree = {
      "a.md": "first\nfind me\n\nfind me again",
      "b.txt": "Find Me\r\nend me$\r\n",
      "d/c.md": "\ufefffind (me)\n",
      "d/none": "",
      "d/one": "\n",
      "z.bin": "find me \0\n",
    };
    const show = ({ path, line, text }: { path: string; line: number; text: string }) =>
      `${path}:${line}:${text}`;

    it("finds lines, in order", async ({ files }) => {
      await writeAll(files, tree);
      const { matches, tooLarge, cutBy } = await files.grep({ pattern: "find.*me" });
      // Whether the line has its byte order mark is left open.
      deepEqual(
        matches.map((match) => show(match).replace("\ufeff", "")),
        ["a.md:2:find me", "a.md:4:find me again", "d/c.md:1:find (me)"],
      );
      deepEqual({ tooLarge, cutBy }, { tooLarge: 0, cutBy: undefined });
    });

    it("takes a pattern as a regular expression or literally", async ({ files }) => {
      await writeAll(files, tree);
      const found = async (pattern: string, options = {}) =>
        (await files.grep({ pattern, ...options })).matches.map(
          ({ path, line }) => `${path}:${line}`,
        );
      deepEqual(await found("(me)", { literal: true }), ["d/c.md:1"]);
      deepEqual(await found("me$", { literal: true }), ["b.txt:2"]);
      deepEqual(
        await found("me$"),
        ["a.md:2", "b.txt:1"].filter((at) => at !== "b.txt:1"),
      );
      deepEqual(await found("^find", { ignoreCase: true }), [
        "a.md:2",
        "a.md:4",
        "b.txt:1",
        "d/c.md:1",
      ]);
      deepEqual(await found("Me$"), ["b.txt:1"]);
      deepEqual(await found("find (?!me)"), ["d/c.md:1"]);
      deepEqual(await found("-e", { literal: true }), []);
      deepEqual(await found("--pre=cat"), []);
      deepEqual(await found("^$"), ["a.md:3", "d/one:1"]);
      deepEqual(await found("nowhere"), []);
    });

    it("searches only the given path and glob", async ({ files }) => {
      await writeAll(files, tree);
      const found = async (options: object) => [
        ...new Set(pathsOf((await files.grep({ pattern: "find" }, options)).matches)),
      ];
      deepEqual(await found({ path: "d" }), ["d/c.md"]);
      deepEqual(await found({ path: "a.md" }), ["a.md"]);
      deepEqual(await found({ glob: "*.md" }), ["a.md", "d/c.md"]);
      deepEqual(await found({ glob: "d/*" }), ["d/c.md"]);
      deepEqual(await found({ glob: "*.txt" }), []);
      equal(await refusal(files.grep({ pattern: "x" }, { path: "nowhere" })), "not_found");
    });

    it("rejects an invalid pattern", async ({ files }) => {
      await writeAll(files, tree);
      for (const pattern of ["(", "[", "a{2,1}", "", "a\nb", "a\0b", "\ud800", "a".repeat(1_001)]) {
        equal(await refusal(files.grep({ pattern })), "invalid_pattern", JSON.stringify(pattern));
      }
    });

    it("cuts a long line", async ({ files }) => {
      await files.write("long", `${"x".repeat(100_000)}find\n`);
      const { matches } = await files.grep({ pattern: "find" });
      equal(matches.length, 1);
      for (const { text } of matches) ok(text.length < 1_000);
    });

    it("finds the right line in many files", async ({ files }) => {
      const texts = Object.fromEntries(
        Array.from({ length: 60 }, (_, i) => [
          `f${i}`,
          `${"other\n".repeat(i)}find ${i}${i % 3 ? "\n" : ""}`,
        ]),
      );
      await writeAll(files, texts);
      const { matches } = await files.grep({ pattern: "^find" });
      equal(matches.length, 60);
      for (const { path, line, text } of matches) {
        deepEqual([path, line], [`f${line - 1}`, Number(text.slice(5)) + 1]);
      }
    });

    it("stops when its signal is aborted", async ({ files }) => {
      await writeAll(files, tree);
      const signal = AbortSignal.abort(new Error("enough"));
      await rejects(files.grep({ pattern: "find" }, { signal }), /enough/);
    });
  });

  describe("limits of search", () => {
    const limits = { ...patient, globPaths: 5, grepMatches: 5 };
    it(
      "cuts the matches at the limit",
      async ({ files }) => {
        for (let i = 0; i < 5; i++) await files.write(`f${i}`, "find\n");
        deepEqual(await files.glob("*"), { paths: ["f0", "f1", "f2", "f3", "f4"] });
        const whole = await files.grep({ pattern: "find" });
        equal(whole.matches.length, 5);
        equal(whole.cutBy, undefined);
        await files.write("f5", "find\nfind\n");
        const { paths, cutBy } = await files.glob("*");
        deepEqual([paths.length, cutBy], [5, "limit"]);
        const cut = await files.grep({ pattern: "find" });
        deepEqual([cut.matches.length, cut.cutBy], [5, "limit"]);
      },
      { limits },
    );
  });

  describe("time limits of search", () => {
    it(
      "stops and reports the time limit",
      async ({ files }) => {
        await files.write("a", "find\n");
        deepEqual(await files.glob("*"), { paths: [], cutBy: "time" });
        equal((await files.grep({ pattern: "find" })).cutBy, "time");
      },
      { limits: { globMs: -1, grepMs: 0 } },
    );
  });
}
