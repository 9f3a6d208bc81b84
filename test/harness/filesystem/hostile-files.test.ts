import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync } from "node:fs";
import { link, mkdir, readFile, symlink, truncate, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { describe, expect, it, onTestFinished } from "vitest";
import type { FilesystemOptions } from "../../../src/harness/filesystem/fenced.ts";
import { localFilesystem } from "../../../src/harness/filesystem/local.ts";
import { storeFilesystem } from "../../../src/harness/filesystem/store.ts";
import { memoryStore } from "../../../src/store/index.ts";
import { deep, temporaryDirectory } from "./support/temporary.ts";
import { toolBox } from "./support/tool-box.ts";

const mebibyte = 1024 * 1024;

/** Runs something and says how long it took, how long it held the process up and how much memory it took. */
async function measured<T>(work: () => Promise<T>) {
  const delay = monitorEventLoopDelay({ resolution: 5 });
  const memory = process.memoryUsage().rss;
  delay.enable();
  const start = performance.now();
  const result = await work();
  const ms = performance.now() - start;
  delay.disable();
  return { result, ms, heldUpMs: delay.max / 1e6, grownBy: process.memoryUsage().rss - memory };
}

async function localTools(options: FilesystemOptions = {}, { inMemory = false } = {}) {
  const root = join(await temporaryDirectory({ inMemory }), "root");
  await mkdir(root);
  return { root, call: toolBox(localFilesystem(root, options)) };
}

describe("a pattern that takes for ever", () => {
  const text = `${"a".repeat(60)}!\n`.repeat(2_000);
  const patterns = ["^(a+)+$", "(a|aa)+$", "^(a|a)*$", "([a-z]+)*\\d", "(?=(a+))\\1+b|^(a+)+$"];

  async function tryPatterns(tried: readonly string[], options: FilesystemOptions): Promise<void> {
    const { root, call } = await localTools(options);
    await writeFile(join(root, "text"), text);
    const inStore = toolBox(storeFilesystem(memoryStore(), options));
    await inStore("write_file", { path: "text", content: text });
    for (const pattern of tried) {
      for (const grep of [call, inStore]) {
        const { result, ms, heldUpMs } = await measured(() => grep("grep_files", { pattern }));
        expect(result, pattern).toMatch(/^\(no matches\)|took too long|match limit exceeded/);
        expect(ms, pattern).toBeLessThan(4_000);
        expect(heldUpMs, pattern).toBeLessThan(1_000);
      }
    }
  }

  it("is stopped in time by ripgrep", () => tryPatterns(patterns, {}));

  // Here each one lasts as long as it may.
  it("is stopped in time without ripgrep", () =>
    tryPatterns(deep ? patterns : patterns.slice(0, 2), { ripgrep: false }));
});

describe("a glob", () => {
  it("that seems to stand for very many things is quick or refused", async () => {
    const { root, call } = await localTools();
    const name = `${"a".repeat(200)}.txt`;
    await writeFile(join(root, name), "");
    const patterns = [
      `${"*a".repeat(100)}*b`,
      `${"**/".repeat(60)}x`,
      `${"{a,b}".repeat(60)}`,
      "{{{{{{{{{{{{{{{{a,b},c},d},e},f},g},h},i},j},k},l},m},n},o},p},q}",
      "{".repeat(900),
      `${"[!b]".repeat(200)}*c`,
      "{1..1000000000}",
      "?".repeat(1_000),
    ];
    for (const pattern of patterns) {
      const { result, ms } = await measured(() => call("glob_files", { pattern }));
      expect(result, pattern).toMatch(/^\(no files\)$|^Error: The glob/);
      expect(ms, pattern).toBeLessThan(1_000);
    }
    expect(await call("glob_files", { pattern: `${"*a".repeat(100)}*t` })).toBe(name);
  });

  it("over 100,000 files ends, with a result that says what is missing", async () => {
    const { root, call } = await localTools({}, { inMemory: true });
    for (let directory = 0; directory < 100; directory++) {
      mkdirSync(join(root, `d${directory}`));
      for (let file = 0; file < 1_000; file++) {
        closeSync(openSync(join(root, `d${directory}`, `f${file}.txt`), "w"));
      }
    }
    const all = await measured(() => call("glob_files", { pattern: "**/*.txt" }));
    expect(all.result).toMatch(/\[files: \d+ of 10000 shown; there are more\. Narrow it down\.\]$/);
    const rare = await measured(() => call("glob_files", { pattern: "**/f77.txt" }));
    expect(rare.result.match(/f77\.txt/g)?.length ?? 0).toBeGreaterThan(rare.ms < 5_000 ? 99 : 0);
    const grep = await measured(() => call("grep_files", { pattern: "x" }));
    expect(grep.result).toMatch(/^\(no matches\)$|took too long/);
    for (const { ms, heldUpMs, grownBy } of [all, rare, grep]) {
      expect(ms).toBeLessThan(10_000);
      expect(heldUpMs).toBeLessThan(1_000);
      expect(grownBy).toBeLessThan(200 * mebibyte);
    }
    console.info(
      `100,000 files: glob ${all.ms.toFixed()} and ${rare.ms.toFixed()} ms, grep ${grep.ms.toFixed()} ms`,
    );
  });
});

describe("a file of 2 GB", () => {
  it("is refused at once, and the rest is searched", async () => {
    const { root, call } = await localTools();
    await writeFile(join(root, "huge"), "");
    await truncate(join(root, "huge"), 2 * 1024 * mebibyte);
    await writeFile(join(root, "small"), "find me\n");
    const { result, ms, grownBy } = await measured(async () => [
      await call("read_file", { path: "huge" }),
      await call("edit_file", { path: "huge", old_string: "a", new_string: "b" }),
      await call("grep_files", { pattern: "find" }),
      await call("grep_files", { pattern: "find", path: "huge" }),
      await call("list_files", {}),
      await call("write_file", { path: "huge", content: "now small" }),
    ]);
    expect(result).toEqual([
      expect.stringContaining('"huge" is larger than 10485760 bytes'),
      expect.stringContaining('"huge" is larger than 10485760 bytes'),
      "small:1: find me\n[1 file was too large to be searched]",
      "(no matches)\n[1 file was too large to be searched]",
      "huge (2147483648 bytes)\nsmall (8 bytes)",
      "Replaced huge (9 bytes).",
    ]);
    expect(ms).toBeLessThan(5_000);
    expect(grownBy).toBeLessThan(100 * mebibyte);
  });
});

describe.skipIf(process.platform === "win32")("what is no regular file", () => {
  it("is refused by every tool without waiting", async () => {
    const { root, call } = await localTools();
    await writeFile(join(root, "plain"), "find me\n");
    execFileSync("mkfifo", [join(root, "pipe")]);
    await symlink("/dev/zero", join(root, "zero"));
    await symlink("plain", join(root, "link"));
    await symlink("/", join(root, "everything"));
    const server = createServer().listen(join(root, "socket"));
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const special = ["pipe", "zero", "link", "socket"];
    const { ms } = await measured(async () => {
      for (const path of special) {
        const refused = / is (?:not a regular file|a symbolic link)/;
        expect(await call("read_file", { path })).toMatch(refused);
        expect(await call("write_file", { path, content: "x" })).toMatch(refused);
        expect(await call("edit_file", { path, old_string: "a", new_string: "b" })).toMatch(
          refused,
        );
        expect(await call("list_files", { path })).toMatch(refused);
        expect(await call("grep_files", { path, pattern: "." })).toMatch(refused);
        expect(await call("glob_files", { path, pattern: "*" })).toMatch(refused);
        expect(await call("write_file", { path: `${path}/x`, content: "x" })).toMatch(refused);
      }
      expect(await call("list_files", { path: "everything/etc" })).toContain("symbolic link");
      expect(await call("grep_files", { pattern: "find" })).toBe("plain:1: find me");
      expect(await call("glob_files", { pattern: "**" })).toBe("plain");
      expect(await call("list_files", {})).toContain("pipe (not a regular file)");
    });
    expect(ms).toBeLessThan(5_000);
  });

  it("does not share a write: the other name of a hard link keeps its content", async () => {
    const { root, call } = await localTools();
    const other = join(root, "..", "other");
    await writeFile(other, "outside\n");
    await link(other, join(root, "hard"));
    expect(await call("edit_file", { path: "hard", old_string: "out", new_string: "in" })).toBe(
      "Replaced 1 piece in hard.",
    );
    expect(await readFile(other, "utf8")).toBe("outside\n");
    expect(await readFile(join(root, "hard"), "utf8")).toBe("inside\n");
  });
});

it("a deep tree is walked as far as a path could lead", async () => {
  const { root, call } = await localTools();
  await mkdir(join(root, "d/".repeat(200)), { recursive: true });
  await writeFile(join(root, "d/".repeat(60), "in-reach"), "find me\n");
  await writeFile(join(root, "d/".repeat(100), "too-deep"), "find me\n");
  expect(await call("glob_files", { pattern: "**" })).toBe(`${"d/".repeat(60)}in-reach`);
  expect(await call("grep_files", { pattern: "find" })).toBe(
    `${"d/".repeat(60)}in-reach:1: find me`,
  );
});
