import { describe, expect, it } from "vitest";
import { definitionOf } from "../../../src/agent/tool/tool.ts";
import type { Filesystem } from "../../../src/harness/filesystem/filesystem.ts";
import { storeFilesystem } from "../../../src/harness/filesystem/store.ts";
import { fileTools } from "../../../src/harness/tools/files.ts";
import { memoryStore } from "../../../src/store/index.ts";
import { patient } from "../../../src/testing/filesystem-contract/fixture.ts";
import { toolBox } from "./support/tool-box.ts";

const files = () => storeFilesystem(memoryStore(), { limits: patient });

it("creates six tools; those that write are exclusive and not idempotent", () => {
  const policies = fileTools(files()).map((made) => {
    const { name, idempotent, exclusive } = definitionOf(made);
    return [name, idempotent, exclusive];
  });
  expect(policies).toEqual([
    ["read_file", true, false],
    ["write_file", false, true],
    ["edit_file", false, true],
    ["grep_files", true, false],
    ["glob_files", true, false],
    ["list_files", true, false],
  ]);
});

describe("read_file", () => {
  it("numbers the lines", async () => {
    const call = toolBox(files());
    await call("write_file", { path: "a.md", content: "one\r\ntwo\n\nfour" });
    expect(await call("read_file", { path: "a.md" })).toBe(
      "     1\tone\n     2\ttwo\n     3\t\n     4\tfour",
    );
    expect(await call("read_file", { path: "a.md", offset: 2, limit: 2 })).toBe(
      "     2\ttwo\n     3\t\n[lines 2 to 3 of 4; continue with offset 4]",
    );
    expect(await call("read_file", { path: "a.md", offset: 4 })).toBe("     4\tfour");
    expect(await call("read_file", { path: "a.md", offset: 5 })).toBe(
      "(the file has only 4 lines)",
    );
  });

  it("pages through a long file", async () => {
    const filesystem = files();
    const lines = Array.from({ length: 5_000 }, (_, i) => `line ${i + 1} ${"x".repeat(i % 90)}`);
    await filesystem.write("long", lines.join("\n"));
    const call = toolBox(filesystem);
    const read: string[] = [];
    for (let offset = 1; offset > 0; ) {
      const said = await call("read_file", { path: "long", offset });
      expect(said.length).toBeLessThan(41_000);
      const next = /\[lines .* continue with offset (\d+)\]$/.exec(said);
      read.push(...said.split("\n").slice(0, next ? -1 : undefined));
      offset = Number(next?.[1] ?? 0);
    }
    expect(read.map((line) => line.slice(7))).toEqual(lines);
  });

  it("reports a missing, empty or binary file", async () => {
    const filesystem = files();
    await filesystem.write("empty", "");
    await filesystem.write("image", Uint8Array.of(0x89, 0x50, 0, 1));
    await filesystem.write("line", "x".repeat(100_000));
    const call = toolBox(filesystem);
    expect(await call("read_file", { path: "empty" })).toBe("(the file is empty)");
    expect(await call("read_file", { path: "image" })).toContain(
      'Error: "image" is binary (4 bytes).',
    );
    expect(await call("read_file", { path: "line" })).toMatch(/x{2000} \[98000 more characters\]$/);
    expect(await call("read_file", { path: "none" })).toBe(
      'Error: There is no "none". Use list_files to see the files.',
    );
  });
});

describe("write_file and edit_file", () => {
  it("change files", async () => {
    const call = toolBox(files());
    expect(await call("write_file", { path: "a", content: "é" })).toBe("Created a (2 bytes).");
    expect(await call("write_file", { path: "./a", content: "x y x" })).toBe(
      "Replaced a (5 bytes).",
    );
    const edit = (input: object) => call("edit_file", { path: "a", ...input });
    expect(await edit({ old_string: "y", new_string: "$&" })).toBe("Replaced 1 occurrence in a.");
    expect(await edit({ old_string: "x", new_string: "z" })).toBe(
      'Error: old_string is in "a" more than once. Add more of the surrounding text, or set replace_all.',
    );
    expect(await edit({ old_string: "x", new_string: "z", replace_all: true })).toBe(
      "Replaced 2 occurrences in a.",
    );
    expect(await edit({ old_string: "y", new_string: "" })).toBe(
      'Error: old_string is not in "a". Read the file again.',
    );
    expect(await edit({ old_string: "", new_string: "" })).toMatch(/^invalid input/);
    expect(await call("read_file", { path: "a" })).toBe("     1\tz $& z");
  });

  it("keep the changes of another writer", async () => {
    const filesystem = files();
    await filesystem.write("a", "one two");
    let others = 0;
    const contested: Filesystem = {
      ...filesystem,
      async read(path) {
        const content = await filesystem.read(path);
        if (others++ < 8) await filesystem.write("a", `one two ${others}`);
        return content;
      },
    };
    const input = { path: "a", old_string: "one", new_string: "1" };
    expect(await toolBox(contested)("edit_file", input)).toBe("Replaced 1 occurrence in a.");
    expect(await toolBox(filesystem)("read_file", { path: "a" })).toBe("     1\t1 two 8");
  });

  it("report a conflict when the text to edit is gone", async () => {
    const filesystem = files();
    await filesystem.write("a", "one two");
    const contested: Filesystem = {
      ...filesystem,
      async read(path) {
        const content = await filesystem.read(path);
        await filesystem.write("a", "something else");
        return content;
      },
    };
    const input = { path: "a", old_string: "one", new_string: "1" };
    expect(await toolBox(contested)("edit_file", input)).toMatch(/another writer changed it/);
  });

  it("stop retrying a contested file when the signal aborts", async () => {
    const filesystem = files();
    await filesystem.write("a", "one 0");
    const stop = new AbortController();
    let reads = 0;
    const contested: Filesystem = {
      ...filesystem,
      async read(path) {
        const content = await filesystem.read(path);
        await filesystem.write("a", `one ${++reads}`);
        if (reads === 3) stop.abort(new Error("enough"));
        return content;
      },
    };
    const input = { path: "a", old_string: "one", new_string: "1" };
    const said = await toolBox(contested)("edit_file", input, { signal: stop.signal });
    expect([said, reads]).toEqual(["Error: enough", 3]);
  });

  it("refuse to edit binary files", async () => {
    const filesystem = files();
    await filesystem.write("a", Uint8Array.of(0x61, 0xff));
    const input = { path: "a", old_string: "a", new_string: "b" };
    expect(await toolBox(filesystem)("edit_file", input)).toContain(
      'Error: "a" is not UTF-8 text.',
    );
  });
});

describe("grep_files, glob_files and list_files", () => {
  it("show their results", async () => {
    const filesystem = files();
    await filesystem.write("src/a.ts", "let a;\nlet b;\n");
    await filesystem.write("b.md", "let\n");
    const call = toolBox(filesystem);
    expect(await call("grep_files", { pattern: "let [ab]" })).toBe(
      "src/a.ts:1: let a;\nsrc/a.ts:2: let b;",
    );
    expect(await call("grep_files", { pattern: "LET", ignore_case: true, glob: "*.md" })).toBe(
      "b.md:1: let",
    );
    expect(await call("grep_files", { pattern: "[ab", literal: true })).toBe("(no matches)");
    expect(await call("grep_files", { pattern: "[ab" })).toMatch(
      /^Error: The pattern "\[ab" cannot/,
    );
    expect(await call("glob_files", { pattern: "**/*.ts" })).toBe("src/a.ts");
    expect(await call("glob_files", { pattern: "*.js" })).toBe("(no files)");
    expect(await call("list_files", {})).toBe("b.md (4 bytes)\nsrc/");
    expect(await call("list_files", { path: "src" })).toBe("a.ts (14 bytes)");
  });

  it("shorten long results and say what is missing", async () => {
    const filesystem = storeFilesystem(memoryStore(), {
      limits: { ...patient, grepMatches: 3_000 },
    });
    await filesystem.write("a", `${"find this line ".repeat(3)}\n`.repeat(4_000));
    const said = await toolBox(filesystem)("grep_files", { pattern: "find" });
    expect(said.length).toBeLessThan(41_000);
    expect(said).toMatch(/\[matches: \d+ of 3000 shown; there are more\. Narrow the search\.\]$/);
  });
});

describe("the scope", () => {
  it("defaults to the user", async () => {
    const filesystem = files();
    const call = toolBox(filesystem);
    const [ann, bob] = [{ userId: "ann" }, { userId: "bob" }];
    await call("write_file", { path: "a", content: "from ann" }, ann);
    expect(await call("read_file", { path: "a" }, { ...ann, sessionId: "other" })).toContain("ann");
    expect(await call("read_file", { path: "a" }, bob)).toMatch(/^Error: There is no "a"/);
    expect(await call("list_files", {})).toBe("(no entries)");
  });

  it.each([
    ["session", { sessionId: "s2" }],
    ["agent", { agentId: "other" }],
  ] as const)("can be the %s", async (scope, other) => {
    const call = toolBox(files(), scope);
    await call("write_file", { path: "a", content: "1" }, { userId: "ann" });
    expect(await call("list_files", {}, { userId: "bob" })).toBe("a (1 bytes)");
    expect(await call("list_files", {}, { userId: "ann", ...other })).toBe("(no entries)");
  });

  it("can be global", async () => {
    const call = toolBox(files(), "global");
    await call("write_file", { path: "a", content: "1" }, { userId: "ann" });
    expect(await call("list_files", {}, { userId: "bob", sessionId: "s2" })).toBe("a (1 bytes)");
  });

  it("refuses an invalid user id", async () => {
    const call = toolBox(files());
    expect(await call("list_files", {}, { userId: "" })).toMatch(/^Error: A user id must have/);
  });
});
