import { mkdir, mkdtemp, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { Clock } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import { memoryStore } from "../../store/memory.ts";
import type { Filesystem } from "../filesystem/filesystem.ts";
import { localFilesystem } from "../filesystem/local.ts";
import { storeFilesystem } from "../filesystem/store.ts";
import type { LocalSubagent } from "./declaration.ts";
import { declarationLoader } from "./load.ts";

/** Creates a workspace with these files. */
async function workspaceWith(texts: Readonly<Record<string, string | Uint8Array>>) {
  const files = storeFilesystem(memoryStore(), { readOnly: [] });
  for (const [name, text] of Object.entries(texts)) await files.write(`subagents/${name}`, text);
  return files;
}

const description = "description: Reviews code.";
const fenced = (yaml: string, body = "") => `---\n${yaml}\n---\n${body}`;

/** Loads one file, `reviewer.md`. */
async function loaded(text: string | Uint8Array) {
  const { declarations, problems } = await declarationLoader(
    await workspaceWith({ "reviewer.md": text }),
  )();
  for (const problem of problems) expect(problem.path).toBe("subagents/reviewer.md");
  return { declarations, problems: problems.map(({ level, reason }) => `${level}: ${reason}`) };
}

/** Returns the only declaration, and expects no problems. */
async function good(text: string): Promise<LocalSubagent | undefined> {
  const { declarations, problems } = await loaded(text);
  expect(problems).toEqual([]);
  return declarations[0];
}

/** Returns why the file was skipped. */
async function skipped(text: string | Uint8Array): Promise<string> {
  const { declarations, problems } = await loaded(text);
  expect(declarations).toEqual([]);
  expect(problems).toHaveLength(1);
  expect(problems[0]).toMatch(/^skipped: /);
  return problems[0] ?? "";
}

const plain = { name: "reviewer", description: "Reviews code." };

describe("a file", () => {
  it("declares a subagent with its name", async () => {
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
      systemPrompt: "You review.\n\nAlways.",
    });
  });

  it("requires only a description", async () => {
    expect(await good(fenced(description))).toEqual(plain);
  });

  it("can name a directory with the definition", async () => {
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
    expect(await good(text)).toEqual({ ...plain, systemPrompt: "Review." });
  });

  it("keeps --- inside a value and in its body", async () => {
    const read = await good(fenced('description: "a --- b"', "One.\n---\nTwo."));
    expect(read).toEqual({ ...plain, description: "a --- b", systemPrompt: "One.\n---\nTwo." });
  });

  it.each([
    ["maxIters: '8'", 8],
    ['maxIters: "12"', 12],
    ["steps: 3", 3],
    ['steps: "4"', 4],
  ])("reads %j as a number", async (line, maxIters) => {
    expect(await good(fenced(`${description}\n${line}`))).toEqual({ ...plain, maxIters });
  });

  it.each([
    ["tools: read_file, grep_*", ["read_file", "grep_*"]],
    ["tools: read_file", ["read_file"]],
    ["tools: [' read_file ']", ["read_file"]],
    ["tools: []", []],
    ["tools: ''", []],
  ])("reads %j as a list", async (line, tools) => {
    expect(await good(fenced(`${description}\n${line}`))).toEqual({ ...plain, tools });
  });

  it.each([
    ["colour: red", '"colour" is ignored: it is an unknown key.'],
    ["leaf: false", '"leaf" is ignored: it is an unknown key.'],
    ["__proto__: {url: x}", '"__proto__" is ignored: it is an unknown key.'],
    ["constructor: x", '"constructor" is ignored: it is an unknown key.'],
    ["name: other", '"name" is ignored: the file name is the name.'],
    ["url: https://x.example", '"url" is ignored: declare remote subagents in code.'],
    ["headers: {a: b}", '"headers" is ignored: declare remote subagents in code.'],
    ["workspace.mode: shared", '"workspace.mode" is ignored: put mode below workspace.'],
    ["workspace: {root: x}", '"workspace.root" is ignored: it is an unknown key.'],
  ])("ignores %j with a warning", async (line, reason) => {
    const read = await loaded(fenced(`${description}\n${line}`));
    expect(read).toEqual({ declarations: [plain], problems: [`warning: ${reason}`] });
  });

  it("warns about five of many unknown keys, and counts the rest", async () => {
    const lines = Array.from({ length: 6_000 }, (_, index) => `k${index}: x`);
    const { declarations, problems } = await loaded(fenced([description, ...lines].join("\n")));
    expect(declarations).toEqual([plain]);
    expect(problems).toHaveLength(6);
    expect(problems[4]).toBe('warning: "k4" is ignored: it is an unknown key.');
    expect(problems[5]).toBe("warning: 5995 more unknown keys are ignored.");
  });

  it("shortens a long unknown key", async () => {
    const { problems } = await loaded(fenced(`${description}\n? ${"k".repeat(10_000)}\n: x`));
    expect(problems).toHaveLength(1);
    expect(problems[0]?.length).toBeLessThan(200);
  });

  it("prefers maxIters to steps", async () => {
    const read = await loaded(fenced(`${description}\nsteps: 3\nmaxIters: 4`));
    expect(read.declarations).toEqual([{ ...plain, maxIters: 4 }]);
    expect(read.problems).toEqual(["warning: steps is ignored: maxIters is set."]);
  });

  it("ignores its body when it has a workspace path", async () => {
    const yaml = `${description}\nworkspace:\n  path: defs/reviewer`;
    const read = await loaded(fenced(yaml, "You review."));
    expect(read.declarations).toEqual([{ ...plain, workspace: "defs/reviewer" }]);
    expect(read.problems).toEqual([
      "warning: Its text is ignored: the AGENTS.md of its workspace is used.",
    ]);
  });

  it.each([
    ["nothing in it", "", "must start with front matter"],
    ["no front matter", "You review.", "must start with front matter"],
    ["an empty line before it", `\n${fenced(description)}`, "must start with front matter"],
    ["no end of it", `---\n${description}\nYou review.`, "has no end"],
    ["bad YAML", fenced(`${description}\ntools: [a`), "Line 3: "],
    ["a key twice", fenced(`${description}\n${description}`), "is duplicated"],
    ["a tag", fenced(`${description}\nmodel: !!js/function x`), "Unresolved tag"],
    ["no keys", fenced("Reviews code."), "must be keys with values"],
    ["no description", fenced("model: openai:x"), "has no description"],
    ["a blank description", fenced("description: ' '"), "has no description"],
    ["a description that is not a string", fenced("description: [a]"), "has no description"],
    [
      "a number that is none",
      fenced(`${description}\nmaxIters: many`),
      '`maxIters` must be an integer of at least 1, got "many"',
    ],
    [
      "a number too small",
      fenced(`${description}\nmaxIters: '0'`),
      "`maxIters` must be an integer of at least 1, got 0",
    ],
    [
      "half a number",
      fenced(`${description}\nsteps: 1.5`),
      "`maxIters` must be an integer of at least 1, got 1.5",
    ],
    ["an unknown model", fenced(`${description}\nmodel: nobody:x`), 'no provider "nobody"'],
    [
      "a model without provider",
      fenced(`${description}\nmodel: gpt`),
      'must have the form "provider:model"',
    ],
    [
      "several models",
      fenced(`${description}\nmodel: [openai:a, openai:b]`),
      "model must be one name",
    ],
    [
      "a model that is a map",
      fenced(`${description}\nmodel: {a: b}`),
      "must be a model, got an object",
    ],
    [
      "tools that are none",
      fenced(`${description}\ntools: 3`),
      "`tools` must be an array of tools and of names or globs of tools, got 3",
    ],
    [
      "a tool that is none",
      fenced(`${description}\ntools: [a, 3]`),
      "`tools` must be an array of tools",
    ],
    [
      "a tool that is a map",
      fenced(`${description}\ntools: [{name: a}]`),
      "not created with tool()",
    ],
    ["an unknown mode", fenced(`${description}\nworkspace: {mode: Shared}`), "workspaceMode"],
    [
      "a workspace that is a text",
      fenced(`${description}\nworkspace: defs/x`),
      "must have the keys",
    ],
    [
      "a path that is none",
      fenced(`${description}\nworkspace: {path: [a]}`),
      "`workspace` must be the path",
    ],
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
    ["too long a description", fenced(`description: ${"x".repeat(2_001)}`), "2001 characters"],
    ["too large a front matter", fenced(`${description}\nx: ${"x".repeat(65_536)}`), "65536 bytes"],
    ["1 MB", fenced(description, "x".repeat(1024 * 1024)), "larger than 262144 bytes"],
  ])("is skipped with %s", async (_, text, reason) => {
    expect(await skipped(text)).toContain(reason);
  });

  it("is skipped if it is not text", async () => {
    const bytes = Buffer.concat([Buffer.from(fenced(description)), Buffer.from([0xff, 0xfe])]);
    expect(await skipped(bytes)).toContain("is not UTF-8 text");
  });

  it("is skipped if its aliases expand without limit", async () => {
    const lines = Array.from("bcdefghi", (name, index) => {
      const before = "abcdefgh".charAt(index);
      return `${name}: &${name} [${Array(9).fill(`*${before}`).join(",")}]`;
    });
    const bomb = [description, "a: &a x", ...lines, "tools: *i"].join("\n");
    expect(await skipped(fenced(bomb))).toContain("aliases are not followed");
  });
});

describe("a directory", () => {
  it("gives its Markdown files in the order of names, without subdirectories", async () => {
    const files = await workspaceWith({
      "b.md": fenced(description),
      "a.md": fenced(description),
      "C.md": fenced(description),
      "notes.txt": "x",
      "more/d.md": fenced(description),
      "e.md/f.md": fenced(description),
    });
    const { declarations, problems } = await declarationLoader(files)();
    expect(declarations.map(({ name }) => name)).toEqual(["C", "a", "b"]);
    expect(problems).toEqual([]);
  });

  it("can be missing, or have another path", async () => {
    const none = { declarations: [], problems: [] };
    const files = await workspaceWith({ "team/a.md": fenced(description) });
    expect(await declarationLoader(await workspaceWith({}))()).toEqual(none);
    expect(await declarationLoader(files)()).toEqual(none);
    expect((await declarationLoader(files, "subagents/team")()).declarations).toHaveLength(1);
  });

  it("gives the other files if one is invalid", async () => {
    const files = await workspaceWith({
      "a.md": fenced(description),
      "b.md": "bad",
      "c d.md": fenced(description),
      "z.md": fenced(description),
    });
    const { declarations, problems } = await declarationLoader(files)();
    expect(declarations.map(({ name }) => name)).toEqual(["a", "z"]);
    expect(problems.map(({ path, level }) => `${level} ${path}`)).toEqual([
      "skipped subagents/b.md",
      "skipped subagents/c d.md",
    ]);
    expect(problems[1]?.reason).toContain('"c d" cannot be the name of a subagent');
  });

  it("gives the first usable of two names that differ only in case", async () => {
    const files = await workspaceWith({
      "REVIEWER.md": "bad",
      "Reviewer.md": fenced(description),
      "reviewer.md": fenced(description),
    });
    const { declarations, problems } = await declarationLoader(files)();
    expect(declarations.map(({ name }) => name)).toEqual(["Reviewer"]);
    expect(problems[1]).toEqual({
      path: "subagents/reviewer.md",
      level: "skipped",
      reason: "subagents/Reviewer.md declares the same name.",
    });
  });

  it("gives the first 256 files", async () => {
    const names = Array.from({ length: 257 }, (_, index) => `a${String(index).padStart(3, "0")}`);
    const texts = names.map((name) => [`${name}.md`, fenced(description)]);
    const files = await workspaceWith(Object.fromEntries(texts));
    const { declarations, problems } = await declarationLoader(files)();
    expect(declarations.map(({ name }) => name)).toEqual(names.slice(0, 256));
    expect(problems).toEqual([
      {
        path: "subagents",
        level: "skipped",
        reason: "Only the first 256 files are read.",
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

  it("follows no links", async () => {
    await writeFile(join(root, "real.md"), fenced(description));
    await symlink(join(root, "real.md"), join(root, "subagents", "link.md"));
    const { declarations, problems } = await declarationLoader(files)();
    expect(declarations).toEqual([]);
    expect(problems).toEqual([
      {
        path: "subagents/link.md",
        level: "skipped",
        reason: "It is not a regular file. Links are not followed.",
      },
    ]);
  });

  it("declares nothing in a directory that is a link or a file", async () => {
    await symlink(join(root, "subagents"), join(root, "link"));
    await writeFile(join(root, "file"), "");
    for (const directory of ["link", "file"]) {
      const { declarations, problems } = await declarationLoader(files, directory)();
      expect(declarations).toEqual([]);
      expect(problems).toMatchObject([{ path: directory, level: "skipped" }]);
    }
  });

  it("accepts a definition below a root of the operator", async () => {
    const outside = await mkdtemp(join(tmpdir(), "rivulet-load-"));
    const yaml = `${description}\nworkspace: {path: ${join(outside, "reviewer")}}`;
    await writeFile(join(root, "subagents", "reviewer.md"), fenced(yaml));
    expect((await declarationLoader(files)()).problems).toMatchObject([{ level: "skipped" }]);
    const { declarations } = await declarationLoader(files, "subagents", { roots: [outside] })();
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

    it("reads again only after a change", async () => {
      vi.useFakeTimers({ toFake: ["performance"] });
      onTestFinished(() => void vi.useRealTimers());
      const load = loader();
      const noticed = () => vi.advanceTimersByTime(51); // the disk is looked at every 50 ms
      expect((await load()).declarations).toEqual([]);
      await write("a.md", fenced(description));
      noticed();
      const first = await load();
      expect(first.declarations).toHaveLength(1);
      expect(await load()).toBe(first);
      expect(reads).toBe(1);

      await write("a.md", fenced("description: Another."), start + 1);
      noticed();
      const second = await load();
      expect(second.declarations).toMatchObject([{ description: "Another." }]);
      await write("b.md", "bad");
      noticed();
      const third = await load();
      expect(third.declarations).toHaveLength(1);
      expect(third.problems).toHaveLength(1);
      expect(await load()).toBe(third);
      await rm(join(root, "subagents", "a.md"));
      noticed();
      expect((await load()).declarations).toEqual([]);
    });

    it("reads a recent file again, and returns the same object while it is equal", async () => {
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

    it("retries a file that could not be read", async () => {
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

it("keeps a model from declaring a subagent with its file tools", async () => {
  const files = storeFilesystem(memoryStore());
  for (const path of ["subagents/x.md", "SUBAGENTS/x.md", "./a/../subagents/x.md"]) {
    await expect(files.write(path, fenced(description))).rejects.toMatchObject({
      code: "read_only",
    });
  }
  expect(await declarationLoader(files)()).toEqual({ declarations: [], problems: [] });
});
