import { describe, expect } from "vitest";
import { type ContractTest, pathsOf, refusal, textOf } from "./fixture.ts";

/** What no path reaches, and what is only read. */
export function fenceCases(it: ContractTest): void {
  describe("a path", () => {
    const outside = [
      "..",
      "../x",
      "a/../../x",
      "/etc/passwd",
      "//etc/passwd",
      "/../x",
      "~",
      "~root/x",
    ];
    const invalid = [
      "a\0b",
      "a\nb",
      "a\\b",
      "C:\\x",
      "C:x",
      "a.txt:stream",
      "file:///etc/passwd",
      "a.",
      "a ",
      " a",
      "...",
      "CON",
      "nul.txt",
      "SUBAGE~1",
      "%2e%2e/x",
      "%252e%252e/x",
      "..%c0%af",
      "\u2025/x",
      "a\u2215b",
      "a\uff0fb",
      "\u202egnp.exe",
      "\ud800",
      "x".repeat(256),
      "a/".repeat(65),
      "x/".repeat(3_000),
      ".rivulet/namespaces",
      ".RIVULET",
      ".rivulet-0",
      "a/.riv\u200dulet-x",
    ];
    const all = [
      ...outside.map((path) => [path, "outside_workspace"] as const),
      ...invalid.map((path) => [path, "invalid_path"] as const),
    ];

    it("that leads out or cannot be trusted is refused everywhere", async ({ files }) => {
      await files.write("a/b", "");
      for (const [path, code] of all) {
        const codes = [
          await refusal(files.read(path)),
          await refusal(files.write(path, "x")),
          await refusal(files.remove(path)),
          await refusal(files.list(path)),
          await refusal(files.stat(path)),
          await refusal(files.glob("*", { path })),
          await refusal(files.grep({ pattern: "x" }, { path })),
        ];
        expect(codes, JSON.stringify(path)).toEqual(codes.map(() => code));
      }
    });

    it("is the same without its detours", async ({ files }) => {
      await files.write("a/b", "1");
      for (const path of ["./a/b", "a//b", "a/./b", "a/c/../b", "x/../a/b", "a/b/"]) {
        expect(await textOf(files, path), path).toBe("1");
      }
    });
  });

  describe("what steers the agent", () => {
    const paths = [
      "subagents/x.md",
      "skills/x/SKILL.md",
      "tools.json",
      "agents/x/workspace/y",
      "subagents",
      "./a/../skills/x",
      "SubAgents/x.md",
      "SKILLS/x",
      "Tools.JSON",
      "\uff54ools.json",
      "s\u212aills/x",
      "skill\u017f/x",
      "ski\u200blls/x",
      ".git/hooks/pre-commit",
      "a/.GIT/config",
    ];

    it("cannot be written or removed", async ({ files }) => {
      for (const path of paths) {
        expect(await refusal(files.write(path, "x")), path).toBe("read_only");
        expect(await refusal(files.remove(path)), path).toBe("read_only");
      }
      expect(await files.list("")).toEqual({ entries: [], cut: false });
    });

    const open = it.extend({ options: { readOnly: [] } });

    open("can be read, once somebody else has written it", async ({ files }) => {
      await files.write("skills/x/SKILL.md", "how");
      expect(await textOf(files, "skills/x/SKILL.md")).toBe("how");
      expect(pathsOf((await files.list("skills")).entries)).toEqual(["skills/x"]);
    });

    it("has nothing to do with what is only called like it further down", async ({ files }) => {
      await files.write("notes/skills/x", "1");
      await files.write("skills.md", "1");
      expect((await files.glob("**")).paths).toEqual(["notes/skills/x", "skills.md"]);
    });
  });
}
