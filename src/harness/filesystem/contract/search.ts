import { describe, expect } from "vitest";
import { type ContractTest, pathsOf, patient, refusal, writeAll } from "./fixture.ts";

/** Files found by their path and by what is in them. */
export function searchCases(it: ContractTest): void {
  describe("glob", () => {
    const tree = { "a.md": "", "b.txt": "", "d/c.md": "", "d/e/f.md": "", "d/.h/g.md": "" };

    it("finds files by path, in order", async ({ files }) => {
      await writeAll(files, tree);
      const found = async (pattern: string, path?: string) =>
        (await files.glob(pattern, path === undefined ? {} : { path })).paths;
      expect(await found("*.md")).toEqual(["a.md"]);
      expect(await found("**/*.md")).toEqual(["a.md", "d/.h/g.md", "d/c.md", "d/e/f.md"]);
      expect(await found("**")).toHaveLength(5);
      expect(await found("d/*.md")).toEqual(["d/c.md"]);
      expect(await found("*.md", "d")).toEqual(["d/c.md"]);
      expect(await found("e/*", "d")).toEqual(["d/e/f.md"]);
      expect(await found("{a,b}.*")).toEqual(["a.md", "b.txt"]);
      expect(await found("d")).toEqual([]);
      expect(await found("nowhere/*")).toEqual([]);
      expect(await found("a.md/*")).toEqual([]);
    });

    it("begins at a directory that is there", async ({ files }) => {
      await writeAll(files, tree);
      expect(await refusal(files.glob("*", { path: "nowhere" }))).toBe("not_found");
      expect(await refusal(files.glob("*", { path: "a.md" }))).toBe("not_a_directory");
      expect(await files.glob("*", { path: "" })).toEqual({ paths: ["a.md", "b.txt"] });
    });

    it("does not leave where it begins", async ({ files }) => {
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
        expect(await refusal(files.glob(pattern, { path: "d" })), pattern).toBe("invalid_pattern");
      }
    });

    it("stops when it is told to", async ({ files }) => {
      await writeAll(files, tree);
      const signal = AbortSignal.abort(new Error("enough"));
      await expect(files.glob("**", { signal })).rejects.toThrow("enough");
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
      expect(matches.map(show)).toEqual([
        "a.md:2:find me",
        "a.md:4:find me again",
        expect.stringMatching(/^d\/c\.md:1:\ufeff?find \(me\)$/),
      ]);
      expect({ tooLarge, cutBy }).toEqual({ tooLarge: 0 });
    });

    it("takes a pattern as a regular expression or as it is", async ({ files }) => {
      await writeAll(files, tree);
      const found = async (pattern: string, options = {}) =>
        (await files.grep({ pattern, ...options })).matches.map(
          ({ path, line }) => `${path}:${line}`,
        );
      expect(await found("(me)", { literal: true })).toEqual(["d/c.md:1"]);
      expect(await found("me$", { literal: true })).toEqual(["b.txt:2"]);
      expect(await found("me$")).toEqual(["a.md:2", "b.txt:1"].filter((at) => at !== "b.txt:1"));
      expect(await found("^find", { ignoreCase: true })).toEqual([
        "a.md:2",
        "a.md:4",
        "b.txt:1",
        "d/c.md:1",
      ]);
      expect(await found("Me$")).toEqual(["b.txt:1"]);
      expect(await found("find (?!me)")).toEqual(["d/c.md:1"]);
      expect(await found("-e", { literal: true })).toEqual([]);
      expect(await found("--pre=cat")).toEqual([]);
      expect(await found("^$")).toEqual(["a.md:3", "d/one:1"]);
      expect(await found("nowhere")).toEqual([]);
    });

    it("looks where it is told to", async ({ files }) => {
      await writeAll(files, tree);
      const found = async (options: object) => [
        ...new Set(pathsOf((await files.grep({ pattern: "find" }, options)).matches)),
      ];
      expect(await found({ path: "d" })).toEqual(["d/c.md"]);
      expect(await found({ path: "a.md" })).toEqual(["a.md"]);
      expect(await found({ glob: "*.md" })).toEqual(["a.md", "d/c.md"]);
      expect(await found({ glob: "d/*" })).toEqual(["d/c.md"]);
      expect(await found({ glob: "*.txt" })).toEqual([]);
      expect(await refusal(files.grep({ pattern: "x" }, { path: "nowhere" }))).toBe("not_found");
    });

    it("refuses a pattern that is not one", async ({ files }) => {
      await writeAll(files, tree);
      for (const pattern of ["(", "[", "a{2,1}", "", "a\nb", "a\0b", "\ud800", "a".repeat(1_001)]) {
        expect(await refusal(files.grep({ pattern })), JSON.stringify(pattern)).toBe(
          "invalid_pattern",
        );
      }
    });

    it("shows the beginning of a long line", async ({ files }) => {
      await files.write("long", `${"x".repeat(100_000)}find\n`);
      const { matches } = await files.grep({ pattern: "find" });
      expect(matches).toHaveLength(1);
      expect(matches[0]?.text.length).toBeLessThan(1_000);
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
      expect(matches).toHaveLength(60);
      for (const { path, line, text } of matches) {
        expect([path, line]).toEqual([`f${line - 1}`, Number(text.slice(5)) + 1]);
      }
    });

    it("stops when it is told to", async ({ files }) => {
      await writeAll(files, tree);
      const signal = AbortSignal.abort(new Error("enough"));
      await expect(files.grep({ pattern: "find" }, { signal })).rejects.toThrow("enough");
    });
  });

  describe("a search that finds too much", () => {
    const limits = { ...patient, globPaths: 5, grepMatches: 5 };
    const limited = it.extend({ options: { limits } });

    limited("is cut at the limit, and says so beyond it", async ({ files }) => {
      for (let i = 0; i < 5; i++) await files.write(`f${i}`, "find\n");
      expect(await files.glob("*")).toEqual({ paths: ["f0", "f1", "f2", "f3", "f4"] });
      const whole = await files.grep({ pattern: "find" });
      expect(whole.matches).toHaveLength(5);
      expect(whole.cutBy).toBeUndefined();
      await files.write("f5", "find\nfind\n");
      const { paths, cutBy } = await files.glob("*");
      expect([paths.length, cutBy]).toEqual([5, "limit"]);
      const cut = await files.grep({ pattern: "find" });
      expect([cut.matches.length, cut.cutBy]).toEqual([5, "limit"]);
    });
  });

  describe("a search that takes too long", () => {
    const limited = it.extend({ options: { limits: { globMs: -1, grepMs: 0 } } });

    limited("is cut, and says so", async ({ files }) => {
      await files.write("a", "find\n");
      expect(await files.glob("*")).toEqual({ paths: [], cutBy: "time" });
      expect((await files.grep({ pattern: "find" })).cutBy).toBe("time");
    });
  });
}
