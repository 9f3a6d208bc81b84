import { mkdir, mkdtemp, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Clock } from "../../protocol/clock.ts";
import { RivuletError } from "../../protocol/error.ts";
import { memoryStore } from "../../store/index.ts";
import type { Filesystem } from "../filesystem/filesystem.ts";
import { localFilesystem } from "../filesystem/local.ts";
import { storeFilesystem } from "../filesystem/store.ts";
import type { LocalSubagent } from "./declaration.ts";
import { declarationLoader, loadDeclarations } from "./load.ts";

/** A workspace in which the operator has written these files. */
async function workspaceWith(texts: Readonly<Record<string, string | Uint8Array>>) {
  const files = storeFilesystem(memoryStore(), { readOnly: [] });
  for (const [name, text] of Object.entries(texts)) await files.write(`subagents/${name}`, text);
  return files;
}

const description = "description: Reviews code.";
const fenced = (yaml: string, body = "") => `---\n${yaml}\n---\n${body}`;

/** What becomes of one file, `reviewer.md`. */
async function loaded(text: string | Uint8Array) {
  const { declarations, problems } = await loadDeclarations(
    await workspaceWith({ "reviewer.md": text }),
  );
  for (const problem of problems) expect(problem.path).toBe("subagents/reviewer.md");
  return { declarations, problems: problems.map(({ level, reason }) => `${level}: ${reason}`) };
}

/** The one that was loaded, without a problem. */
async function good(text: string): Promise<LocalSubagent | undefined> {
  const { declarations, problems } = await loaded(text);
  expect(problems).toEqual([]);
  return declarations[0];
}

/** Why it was left out. */
async function skipped(text: string | Uint8Array): Promise<string> {
  const { declarations, problems } = await loaded(text);
  expect(declarations).toEqual([]);
  expect(problems).toHaveLength(1);
  expect(problems[0]).toMatch(/^skipped: /);
  return problems[0] ?? "";
}

const plain = { name: "reviewer", description: "Reviews code." };

describe("a file", () => {
  it("declares a subagent that is called like it", async () => {
    const yaml = [
      description,
      "workspace:",
      "  mode: shared",
      "model: openai:gpt-5-mini",
      "maxIters: 8",
      "tools: [read_file, 'grep_*']",
    ].join("\n");
    expect(await good(fenced(yaml, "\nYou review.\n\nAlways.\n"))).toEqual({
      ...plain,
      workspaceMode: "shared",
      model: "openai:gpt-5-mini",
      maxIters: 8,
      tools: ["read_file", "grep_*"],
      instructions: "You review.\n\nAlways.",
    });
  });

  it("needs nothing but a description", async () => {
    expect(await good(fenced(description))).toEqual(plain);
  });

  it("may have a directory that defines it", async () => {
    const yaml = `${description}\nworkspace: { path: ./defs/reviewer }`;
    expect(await good(fenced(yaml))).toEqual({ ...plain, workspace: "./defs/reviewer" });
  });

  it.each([
    ["a BOM", `\uFEFF${fenced(description, "Review.")}`],
    ["CRLF", fenced(description, "Review.\n").replaceAll("\n", "\r\n")],
    ["no line end at the end", fenced(description, "Review.")],
    ["a folded description", fenced("description: >\n  Reviews\n  code.", "Review.")],
    ["a quoted description", fenced('description: "Reviews code."', "Review.")],
    [
      "keys without a value",
      fenced(`${description}\nmodel:\nmaxIters:\ntools:\nworkspace:`, "Review."),
    ],
  ])("with %s is read", async (_, text) => {
    expect(await good(text)).toEqual({ ...plain, instructions: "Review." });
  });

  it("keeps --- inside a value, and in its text", async () => {
    const read = await good(fenced('description: "a --- b"', "One.\n---\nTwo."));
    expect(read).toEqual({ ...plain, description: "a --- b", instructions: "One.\n---\nTwo." });
  });

  it.each([
    ["maxIters: '8'", 8],
    ['maxIters: "12"', 12],
    ["steps: 3", 3],
    ['steps: "4"', 4],
  ])("takes %j for a number", async (line, maxIters) => {
    expect(await good(fenced(`${description}\n${line}`))).toEqual({ ...plain, maxIters });
  });

  it.each([
    ["tools: read_file, grep_*", ["read_file", "grep_*"]],
    ["tools: read_file", ["read_file"]],
    ["tools: [' read_file ']", ["read_file"]],
    ["tools: []", []],
    ["tools: ''", []],
  ])("takes %j for a list", async (line, tools) => {
    expect(await good(fenced(`${description}\n${line}`))).toEqual({ ...plain, tools });
  });

  it.each([
    ["colour: red", '"colour" is ignored: it is not known.'],
    ["leaf: false", '"leaf" is ignored: it is not known.'],
    ["__proto__: {url: x}", '"__proto__" is ignored: it is not known.'],
    ["constructor: x", '"constructor" is ignored: it is not known.'],
    ["name: other", '"name" is ignored: the name of the file is the name.'],
    ["url: https://x.example", '"url" is ignored: declare a subagent on another server in code.'],
    ["headers: {a: b}", '"headers" is ignored: declare a subagent on another server in code.'],
    ["workspace.mode: shared", '"workspace.mode" is ignored: write mode below workspace.'],
    ["workspace: {root: x}", '"workspace.root" is ignored: it is not known.'],
  ])("with %j is read without it, and a warning", async (line, reason) => {
    const read = await loaded(fenced(`${description}\n${line}`));
    expect(read).toEqual({ declarations: [plain], problems: [`warning: ${reason}`] });
  });

  it("with maxIters and steps has maxIters", async () => {
    const read = await loaded(fenced(`${description}\nsteps: 3\nmaxIters: 4`));
    expect(read.declarations).toEqual([{ ...plain, maxIters: 4 }]);
    expect(read.problems).toEqual(["warning: steps is ignored: maxIters is there."]);
  });

  it("with a text beside the path of its workspace loses the text", async () => {
    const yaml = `${description}\nworkspace:\n  path: defs/reviewer`;
    const read = await loaded(fenced(yaml, "You review."));
    expect(read.declarations).toEqual([{ ...plain, workspace: "defs/reviewer" }]);
    expect(read.problems).toEqual([
      "warning: Its text is ignored: the AGENTS.md of its workspace counts.",
    ]);
  });

  it.each([
    ["nothing in it", "", "does not begin with front matter"],
    ["no front matter", "You review.", "does not begin with front matter"],
    ["an empty line before it", `\n${fenced(description)}`, "does not begin with front matter"],
    ["no end of it", `---\n${description}\nYou review.`, "has no end"],
    ["bad YAML", fenced(`${description}\ntools: [a`), "Line 3: "],
    ["a key twice", fenced(`${description}\n${description}`), "is there twice"],
    ["a tag", fenced(`${description}\nmodel: !!js/function x`), "Unresolved tag"],
    ["no keys", fenced("Reviews code."), "not a list of keys"],
    ["no description", fenced("model: openai:x"), "has no description"],
    ["a blank description", fenced("description: ' '"), "has no description"],
    ["a description that is no text", fenced("description: [a]"), "has no description"],
    ["a number that is none", fenced(`${description}\nmaxIters: many`), 'has maxIters "many"'],
    ["a number too small", fenced(`${description}\nmaxIters: '0'`), "has maxIters 0"],
    ["half a number", fenced(`${description}\nsteps: 1.5`), "has maxIters 1.5"],
    ["an unknown model", fenced(`${description}\nmodel: nobody:x`), 'no provider "nobody"'],
    ["a model without provider", fenced(`${description}\nmodel: gpt`), "does not name a provider"],
    ["several models", fenced(`${description}\nmodel: [openai:a, openai:b]`), "model is a list"],
    ["a model that is a map", fenced(`${description}\nmodel: {a: b}`), "This is not a model"],
    ["tools that are none", fenced(`${description}\ntools: 3`), "has tools 3"],
    ["a tool that is none", fenced(`${description}\ntools: [a, 3]`), "has tools"],
    ["a tool that is a map", fenced(`${description}\ntools: [{name: a}]`), "not made with tool()"],
    ["an unknown mode", fenced(`${description}\nworkspace: {mode: Shared}`), "workspaceMode"],
    ["a workspace that is a text", fenced(`${description}\nworkspace: defs/x`), "has no keys"],
    ["a path that is none", fenced(`${description}\nworkspace: {path: [a]}`), "has workspace"],
    ["a path outside", fenced(`${description}\nworkspace: {path: ../x}`), "outside the workspace"],
    [
      "an absolute path",
      fenced(`${description}\nworkspace: {path: /etc}`),
      "outside the workspace",
    ],
    ["a path that steers", fenced(`${description}\nworkspace: {path: skills/x}`), "cannot work in"],
    [
      "a path with a NUL",
      fenced(`${description}\nworkspace: {path: "a\\0b"}`),
      "control character",
    ],
    ["too large a front matter", fenced(`${description}\nx: ${"x".repeat(65_536)}`), "65536 bytes"],
    ["1 MB", fenced(description, "x".repeat(1024 * 1024)), "larger than 262144 bytes"],
  ])("with %s is left out", async (_, text, reason) => {
    expect(await skipped(text)).toContain(reason);
  });

  it("that is no text is left out", async () => {
    const bytes = Buffer.concat([Buffer.from(fenced(description)), Buffer.from([0xff, 0xfe])]);
    expect(await skipped(bytes)).toContain("is not UTF-8 text");
  });

  it("that would unfold into far more than it is, is left out", async () => {
    const lines = Array.from("bcdefghi", (name, index) => {
      const before = "abcdefgh".charAt(index);
      return `${name}: &${name} [${Array(9).fill(`*${before}`).join(",")}]`;
    });
    const bomb = [description, "a: &a x", ...lines, "tools: *i"].join("\n");
    expect(await skipped(fenced(bomb))).toContain("aliases are not followed");
  });
});

describe("a directory", () => {
  it("is read without what is below it or is no Markdown, in the order of its names", async () => {
    const files = await workspaceWith({
      "b.md": fenced(description),
      "a.md": fenced(description),
      "C.md": fenced(description),
      "notes.txt": "x",
      "more/d.md": fenced(description),
      "e.md/f.md": fenced(description),
    });
    const { declarations, problems } = await loadDeclarations(files);
    expect(declarations.map(({ name }) => name)).toEqual(["C", "a", "b"]);
    expect(problems).toEqual([]);
  });

  it("may be missing, or another one", async () => {
    const none = { declarations: [], problems: [] };
    const files = await workspaceWith({ "team/a.md": fenced(description) });
    expect(await loadDeclarations(await workspaceWith({}))).toEqual(none);
    expect(await loadDeclarations(files)).toEqual(none);
    expect((await loadDeclarations(files, "subagents/team")).declarations).toHaveLength(1);
  });

  it("of which one file is bad still gives the others", async () => {
    const files = await workspaceWith({
      "a.md": fenced(description),
      "b.md": "bad",
      "c d.md": fenced(description),
      "z.md": fenced(description),
    });
    const { declarations, problems } = await loadDeclarations(files);
    expect(declarations.map(({ name }) => name)).toEqual(["a", "z"]);
    expect(problems.map(({ path, level }) => `${level} ${path}`)).toEqual([
      "skipped subagents/b.md",
      "skipped subagents/c d.md",
    ]);
    expect(problems[1]?.reason).toContain('"c d" cannot be the name of a subagent');
  });

  it("with names that differ only in case gives the first that can be used", async () => {
    const files = await workspaceWith({
      "REVIEWER.md": "bad",
      "Reviewer.md": fenced(description),
      "reviewer.md": fenced(description),
    });
    const { declarations, problems } = await loadDeclarations(files);
    expect(declarations.map(({ name }) => name)).toEqual(["Reviewer"]);
    expect(problems[1]).toEqual({
      path: "subagents/reviewer.md",
      level: "skipped",
      reason: "subagents/Reviewer.md declares the same name.",
    });
  });

  it("with too many files gives the first", async () => {
    const names = Array.from({ length: 257 }, (_, index) => `a${String(index).padStart(3, "0")}`);
    const texts = names.map((name) => [`${name}.md`, fenced(description)]);
    const files = await workspaceWith(Object.fromEntries(texts));
    const { declarations, problems } = await loadDeclarations(files);
    expect(declarations.map(({ name }) => name)).toEqual(names.slice(0, 256));
    expect(problems).toEqual([
      {
        path: "subagents",
        level: "skipped",
        reason: "Only the first 256 files in it are read.",
      },
    ]);
  });
});

describe("on a disk", () => {
  let root: string;
  let files: Filesystem;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "rivulet-load-"));
    await mkdir(join(root, "subagents"));
    files = localFilesystem(root);
  });
  afterEach(() => rm(root, { recursive: true }));

  it("no link is followed", async () => {
    await writeFile(join(root, "real.md"), fenced(description));
    await symlink(join(root, "real.md"), join(root, "subagents", "link.md"));
    const { declarations, problems } = await loadDeclarations(files);
    expect(declarations).toEqual([]);
    expect(problems).toEqual([
      {
        path: "subagents/link.md",
        level: "skipped",
        reason: "It is not a regular file, and links are not followed.",
      },
    ]);
  });

  it("a directory that is a link, or none, declares nothing", async () => {
    await symlink(join(root, "subagents"), join(root, "link"));
    await writeFile(join(root, "file"), "");
    for (const directory of ["link", "file"]) {
      const { declarations, problems } = await loadDeclarations(files, directory);
      expect(declarations).toEqual([]);
      expect(problems).toMatchObject([{ path: directory, level: "skipped" }]);
    }
  });

  it("a definition may lie below a root that the operator lists", async () => {
    const outside = await mkdtemp(join(tmpdir(), "rivulet-load-"));
    const yaml = `${description}\nworkspace: {path: ${join(outside, "reviewer")}}`;
    await writeFile(join(root, "subagents", "reviewer.md"), fenced(yaml));
    expect((await loadDeclarations(files)).problems).toMatchObject([{ level: "skipped" }]);
    const { declarations } = await loadDeclarations(files, "subagents", { roots: [outside] });
    expect(declarations).toEqual([{ ...plain, workspace: join(outside, "reviewer") }]);
    await rm(outside, { recursive: true });
  });

  describe("declarationLoader", () => {
    const start = 1_700_000_000_000;
    let now: number;
    let reads: number;
    const clock: Clock = { now: () => now, sleep: () => Promise.reject(new Error("no sleep")) };
    beforeEach(() => {
      now = start + 10_000;
      reads = 0;
    });

    async function write(name: string, text: string, time = start): Promise<void> {
      const path = join(root, "subagents", name);
      await writeFile(path, text);
      await utimes(path, time / 1_000, time / 1_000);
    }
    function loader(read: Filesystem["read"] = (path) => files.read(path)) {
      const counted: Filesystem = {
        ...files,
        read: (path) => {
          reads++;
          return read(path);
        },
      };
      return declarationLoader(counted, "subagents", { clock });
    }

    it("reads again only what has changed", async () => {
      const load = loader();
      expect((await load()).declarations).toEqual([]);
      await write("a.md", fenced(description));
      const first = await load();
      expect(first.declarations).toHaveLength(1);
      expect(await load()).toBe(first);
      expect(reads).toBe(1);

      await write("a.md", fenced("description: Another."), start + 1);
      const second = await load();
      expect(second.declarations).toMatchObject([{ description: "Another." }]);
      await write("b.md", "bad");
      const third = await load();
      expect(third.declarations).toHaveLength(1);
      expect(third.problems).toHaveLength(1);
      expect(await load()).toBe(third);
      await rm(join(root, "subagents", "a.md"));
      expect((await load()).declarations).toEqual([]);
    });

    it("reads a file again that was written just now, and gives the same while it is the same", async () => {
      await write("a.md", fenced("description: One."));
      now = start + 1_000;
      const load = loader();
      const first = await load();
      expect(await load()).toBe(first);
      expect(reads).toBe(2);
      await write("a.md", fenced("description: Two."));
      expect((await load()).declarations).toMatchObject([{ description: "Two." }]);
      now = start + 3_000;
      await load();
      await load();
      expect(reads).toBe(4);
    });

    it("tries again what could not be read", async () => {
      await write("a.md", fenced(description));
      let isBroken = true;
      const load = loader(async (path) => {
        if (isBroken) throw new RivuletError("file_failed", "Too many files are open.");
        return files.read(path);
      });
      const broken = await load();
      expect(broken.problems).toMatchObject([{ level: "skipped" }]);
      expect(await load()).toBe(broken);
      isBroken = false;
      expect((await load()).declarations).toEqual([{ ...plain, name: "a" }]);
    });
  });
});

it("a model cannot declare a subagent with the tools it has", async () => {
  const files = storeFilesystem(memoryStore());
  for (const path of ["subagents/x.md", "SUBAGENTS/x.md", "./a/../subagents/x.md"]) {
    await expect(files.write(path, fenced(description))).rejects.toMatchObject({
      code: "read_only",
    });
  }
  expect(await loadDeclarations(files)).toEqual({ declarations: [], problems: [] });
});
