import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync } from "node:fs";
import { link, mkdir, readFile, symlink, truncate, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import type { FilesystemOptions } from "../../../src/harness/filesystem/filesystem.ts";
import { localFilesystem } from "../../../src/harness/filesystem/local.ts";
import { storeFilesystem } from "../../../src/harness/filesystem/store.ts";
import { memoryStore } from "../../../src/store/index.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { patient } from "../../../src/testing/filesystem-contract/fixture.ts";
import { temporaryDirectory } from "./support/temporary.ts";
import { toolBox } from "./support/tool-box.ts";

const mebibyte = 1024 * 1024;

/**
 * Runs a function and measures the CPU time, the longest block of the event loop and the memory of this thread. CPU
 * time does not depend on how busy the machine is.
 */
async function measured<T>(work: () => Promise<T>) {
  const memory = process.memoryUsage().rss;
  const start = workedMs();
  let last = start;
  let longestTurnMs = 0;
  const endTurn = () => {
    const now = workedMs();
    longestTurnMs = Math.max(longestTurnMs, now - last);
    last = now;
  };
  const timer = setInterval(endTurn, 1);
  const result = await work();
  clearInterval(timer);
  endTurn();
  return { result, ms: last - start, longestTurnMs, grownBy: process.memoryUsage().rss - memory };
}

function workedMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

async function localTools(
  { limits, ...options }: FilesystemOptions = {},
  { inMemory = false } = {},
) {
  const root = join(await temporaryDirectory({ inMemory }), "root");
  await mkdir(root);
  const filesystem = localFilesystem(root, { limits: { ...patient, ...limits }, ...options });
  return { root, call: toolBox(filesystem) };
}

/** The running child processes of this process. */
function childCount(): number {
  return process.getActiveResourcesInfo().filter((name) => name === "ProcessWrap").length;
}

describe("a pattern with exponential cost", () => {
  const text = `${"a".repeat(60)}!\n`.repeat(2_000);
  const patterns = ["^(a+)+$", "(a|aa)+$", "^(a|a)*$", "([a-z]+)*\\d", "(?=(a+))\\1+b|^(a+)+$"];

  async function tryPatterns(options: FilesystemOptions): Promise<void> {
    const { root, call } = await localTools(options);
    await writeFile(join(root, "text"), text);
    const inStore = toolBox(storeFilesystem(memoryStore(), options));
    await inStore("write_file", { path: "text", content: text });
    for (const pattern of patterns) {
      for (const grep of [call, inStore]) {
        const { result, longestTurnMs } = await measured(() => grep("grep_files", { pattern }));
        expect(result, pattern).toMatch(/^\(no matches\)|search timed out|match limit exceeded/);
        expect(longestTurnMs, pattern).toBeLessThan(500);
      }
    }
    await expect.poll(childCount, { timeout: 60_000 }).toBe(0);
  }

  it("is stopped with ripgrep", () => tryPatterns({}));

  // Each pattern would run practically for ever, so only the limit can end it.
  it("is stopped without ripgrep", () =>
    tryPatterns({ ripgrep: false, limits: { grepMs: isDeep ? 2_000 : 200 } }));
});

describe("a glob", () => {
  it("with many alternatives is fast or refused", async () => {
    const { root, call } = await localTools();
    const name = `${"a".repeat(200)}.txt`;
    await writeFile(join(root, name), "");
    await call("write_file", { path: `${"a".repeat(250)}/`.repeat(15) + name, content: "" });
    const patterns = [
      `${"*a".repeat(100)}*b`,
      `${"**/".repeat(60)}x`,
      `${"{a,b}".repeat(60)}`,
      "{{{{{{{{{{{{{{{{a,b},c},d},e},f},g},h},i},j},k},l},m},n},o},p},q}",
      "{".repeat(900),
      `${"[!b]".repeat(200)}*c`,
      "{1..1000000000}",
      "?".repeat(1_000),
      `${"{,**/}".repeat(8)}**/*${"a".repeat(120)}b/*${"a".repeat(120)}b`,
      `${"{,**/}".repeat(5)}**/*${"a".repeat(50)}b/*${"a".repeat(50)}b`,
    ];
    for (const pattern of patterns) {
      const { result, ms } = await measured(async () => [
        await call("glob_files", { pattern }),
        await call("grep_files", { glob: pattern, pattern: "x" }),
      ]);
      for (const said of result) {
        expect(said, pattern).toMatch(/^\(no (?:files|matches)\)$|^Error: The glob/);
      }
      expect(ms, pattern).toBeLessThan(2_000);
    }
    expect(await call("glob_files", { pattern: `${"*a".repeat(100)}*t` })).toBe(name);
  });

  it("over 100,000 files ends with a result that says what is missing", async () => {
    const { root, call } = await localTools({ limits: { grepMs: 500 } }, { inMemory: true });
    for (let directory = 0; directory < 100; directory++) {
      mkdirSync(join(root, `d${directory}`));
      for (let file = 0; file < 1_000; file++) {
        closeSync(openSync(join(root, `d${directory}`, `f${file}.txt`), "w"));
      }
    }
    const all = await measured(() => call("glob_files", { pattern: "**/*.txt" }));
    expect(all.result).toMatch(
      /\[files: \d+ of 10000 shown; there are more\. Narrow the search\.\]$/,
    );
    const rare = await measured(() => call("glob_files", { pattern: "**/f77.txt" }));
    expect(rare.result.split("\n")).toHaveLength(100);
    const grep = await measured(() => call("grep_files", { pattern: "x" }));
    expect(grep.result).toMatch(/^\(no matches\)$|search timed out/);
    for (const { ms, longestTurnMs, grownBy } of [all, rare, grep]) {
      expect(ms).toBeLessThan(10_000);
      expect(longestTurnMs).toBeLessThan(500);
      expect(grownBy).toBeLessThan(200 * mebibyte);
    }
    const [first, second] = [all, rare].map(({ ms }) => ms.toFixed());
    console.info(`100,000 files: a glob was ${first} ms of work, one that finds few ${second} ms`);
  });
});

describe("a file of 2 GB", () => {
  it("is refused at once, and other files are searched", async () => {
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
      "small:1: find me\n[1 file was too large to search]",
      "(no matches)\n[1 file was too large to search]",
      "huge (2147483648 bytes)\nsmall (8 bytes)",
      "Replaced huge (9 bytes).",
    ]);
    expect(ms).toBeLessThan(1_000);
    expect(grownBy).toBeLessThan(100 * mebibyte);
  });
});

describe("a file of ten million lines", () => {
  it("is read and edited within bounds", async () => {
    const { root, call } = await localTools();
    await writeFile(join(root, "lines"), Buffer.alloc(10 * mebibyte, "\n"));
    const read = await measured(() => call("read_file", { path: "lines", limit: 1e9 }));
    expect(read.result).toMatch(/\[lines 1 to \d+ of 10485760; continue with offset \d+\]$/);
    expect(read.ms).toBeLessThan(1_000);
    expect(read.grownBy).toBeLessThan(100 * mebibyte);
    const edit = { path: "lines", old_string: "\n", replace_all: true };
    const grown = await measured(() =>
      call("edit_file", { ...edit, new_string: "x".repeat(1_000_000) }),
    );
    expect(grown.result).toBe('Error: "lines" would become too large. Work with smaller files.');
    expect(grown.ms).toBeLessThan(5_000);
    expect(grown.grownBy).toBeLessThan(400 * mebibyte);
  });
});

describe.skipIf(process.platform === "win32")("an irregular file", () => {
  it("is refused by every tool without blocking", async () => {
    const { root, call } = await localTools();
    await writeFile(join(root, "plain"), "find me\n");
    execFileSync("mkfifo", [join(root, "pipe")]);
    const hasDevice = spawnSync("mknod", [join(root, "device"), "c", "1", "5"]).status === 0;
    if (!hasDevice) console.info("not tried: a device in the root, which only root can make");
    await symlink("/dev/zero", join(root, "zero"));
    await symlink("plain", join(root, "link"));
    await symlink("/", join(root, "everything"));
    const server = createServer().listen(join(root, "socket"));
    onTestFinished(() => void server.close());
    await once(server, "listening");
    // Some machines do not allow opening a device.
    const refused = / is (?:not a regular file|a symbolic link)|permission denied/;
    for (const path of ["pipe", "zero", "link", "socket", ...(hasDevice ? ["device"] : [])]) {
      expect(await call("read_file", { path })).toMatch(refused);
      expect(await call("write_file", { path, content: "x" })).toMatch(refused);
      const edit = { path, old_string: "a", new_string: "b" };
      expect(await call("edit_file", edit)).toMatch(refused);
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

  it("keeps the content of a hard link's other name on a write", async () => {
    const { root, call } = await localTools();
    const other = join(root, "..", "other");
    await writeFile(other, "outside\n");
    await link(other, join(root, "hard"));
    expect(await call("edit_file", { path: "hard", old_string: "out", new_string: "in" })).toBe(
      "Replaced 1 occurrence in hard.",
    );
    expect(await readFile(other, "utf8")).toBe("outside\n");
    expect(await readFile(join(root, "hard"), "utf8")).toBe("inside\n");
  });
});

it("walks a deep tree up to the maximum depth of a path", async () => {
  const { root, call } = await localTools();
  await mkdir(join(root, "d/".repeat(200)), { recursive: true });
  await writeFile(join(root, "d/".repeat(60), "in-reach"), "find me\n");
  await writeFile(join(root, "d/".repeat(100), "too-deep"), "find me\n");
  expect(await call("glob_files", { pattern: "**" })).toBe(`${"d/".repeat(60)}in-reach`);
  expect(await call("grep_files", { pattern: "find" })).toBe(
    `${"d/".repeat(60)}in-reach:1: find me`,
  );
});
