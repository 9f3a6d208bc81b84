import { deepEqual, equal } from "node:assert/strict";
import { type FilesystemSuite, pathsOf, refusal, textOf } from "./fixture.ts";

/** Paths that are rejected, and paths that are read-only. */
export function fenceCases({ describe, it }: FilesystemSuite): void {
  describe("paths", () => {
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
      ".wh.x",
      "a/.WH.x",
    ];
    const all = [
      ...outside.map((path) => [path, "outside_workspace"] as const),
      ...invalid.map((path) => [path, "invalid_path"] as const),
    ];

    it("rejects paths that leave the root or are ambiguous, in every method", async ({ files }) => {
      await files.write("a/b", "");
      for (const [path, code] of all) {
        const codes = [
          await refusal(files.read(path)),
          await refusal(files.write(path, "x")),
          await refusal(files.remove(path)),
          await refusal(files.rename(path, "x")),
          await refusal(files.rename("a/b", path)),
          await refusal(files.list(path)),
          await refusal(files.stat(path)),
          await refusal(files.glob("*", { path })),
          await refusal(files.grep({ pattern: "x" }, { path })),
        ];
        deepEqual(
          codes,
          codes.map(() => code),
          JSON.stringify(path),
        );
      }
    });

    it("normalizes paths", async ({ files }) => {
      await files.write("a/b", "1");
      for (const path of ["./a/b", "a//b", "a/./b", "a/c/../b", "x/../a/b", "a/b/"]) {
        equal(await textOf(files, path), "1", path);
      }
    });
  });

  describe("agent configuration", () => {
    const paths = [
      "subagents/x.md",
      "skills/x/SKILL.md",
      "tools.json",
      "AGENTS.md",
      "agents.MD",
      "a/b/AGENTS.md",
      "a/b/Agents.md",
      "rivulet.config.ts",
      "knowledge/KNOWLEDGE.md",
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

    it("rejects writing and removing it", async ({ files }) => {
      for (const path of paths) {
        equal(await refusal(files.write(path, "x")), "read_only", path);
        equal(await refusal(files.remove(path)), "read_only", path);
        equal(await refusal(files.rename(path, "x")), "read_only", path);
        equal(await refusal(files.rename("x", path)), "read_only", path);
      }
      deepEqual(await files.list(""), { entries: [], cut: false });
    });

    it(
      "allows reading it",
      async ({ files }) => {
        await files.write("skills/x/SKILL.md", "how");
        equal(await textOf(files, "skills/x/SKILL.md"), "how");
        deepEqual(pathsOf((await files.list("skills")).entries), ["skills/x"]);
      },
      { readOnly: [] },
    );

    it("allows writing files with the same names in subdirectories", async ({ files }) => {
      await files.write("notes/skills/x", "1");
      await files.write("skills.md", "1");
      deepEqual((await files.glob("**")).paths, ["notes/skills/x", "skills.md"]);
    });
  });
}
