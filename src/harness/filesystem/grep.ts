import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { Worker } from "node:worker_threads";
import { onAbort } from "../../base/clock.ts";
import { fileError } from "./file-error.ts";
import type { FileLimits, FoundFile, GrepMatch, GrepQuery, GrepResult } from "./filesystem.ts";
import { byPath } from "./path.ts";
import { hasByteOrderMark, isBinary } from "./text.ts";

/** The options of a search. */
export interface GrepFilesOptions {
  readonly limits: Pick<FileLimits, "grepMatches" | "grepMs">;
  /** Whether to use ripgrep, or its path. */
  readonly ripgrep: boolean | string;
  readonly signal?: AbortSignal | undefined;
  /** Passes all files to `visit`, until `isOver`. */
  walk(visit: (files: readonly FoundFile[]) => Promise<void>, isOver: () => boolean): Promise<void>;
}

const maxPattern = 1_000;
const parallelReads = 8;
const fewFiles = 200; // so few are searched in an instant without ripgrep
const maxLine = 500;
const newline = 0x0a;
const maxStderr = 2_000;
const ripgrepFlags =
  "--no-config --line-number --no-filename --color=never --text --encoding=none --crlf --engine=auto --max-columns-preview";

/** A search that runs in another process or thread, where it can be stopped at any time. */
interface LineSearch {
  readonly matches: readonly GrepMatch[];
  /** Adds a file; resolves when the next file may be added. False: the search needs no more files. */
  add(path: string, data: Uint8Array): Promise<boolean>;
  /** Resolves when all files are searched; rejects if the pattern is invalid. */
  end(): Promise<void>;
  stop(): void;
}

/** Searches files by line. The walk opens them; the matching runs outside this thread, so that no pattern can block it. */
export async function grepFiles(query: GrepQuery, options: GrepFilesOptions): Promise<GrepResult> {
  checkPattern(query.pattern);
  const { limits, ripgrep, signal, walk } = options;
  signal?.throwIfAborted();
  let search: LineSearch | undefined;
  let tooLarge = 0;
  let visited = 0;
  let isOver = false;

  async function startSearch(): Promise<LineSearch> {
    const limit = limits.grepMatches + 1;
    const found = ripgrep === false ? undefined : await ripgrepSearch(query, limit, ripgrep);
    return found ?? workerSearch(query, limit);
  }
  async function visit(files: readonly FoundFile[]): Promise<void> {
    for (let first = 0; first < files.length && !isOver; first += parallelReads) {
      const batch = files.slice(first, first + parallelReads);
      const contents = await Promise.all(batch.map((file) => file.read()));
      visited += batch.length;
      for (const [index, { path }] of batch.entries()) {
        const data = contents[index];
        if (data === "too large") tooLarge += 1;
        if (typeof data !== "object" || isBinary(data)) continue;
        search ??= await startSearch();
        if (isOver) return search.stop(); // started after the final stop
        const text = hasByteOrderMark(data) ? data.subarray(3) : data;
        isOver = !(await search.add(path, text)) || isOver;
      }
    }
  }
  async function searchAll(): Promise<undefined> {
    await walk(visit, () => isOver);
    await search?.end();
  }

  const early = Promise.withResolvers<"time">();
  const timer = setTimeout(() => early.resolve("time"), limits.grepMs);
  const ignoreAbort = signal && onAbort(signal, () => early.reject(signal.reason));
  try {
    const stoppedBy = await Promise.race([searchAll(), early.promise]);
    if (visited > fewFiles && (await packaged) === null) hintAtRipgrep();
    const found = search?.matches ?? [];
    const cutBy = found.length > limits.grepMatches ? "limit" : stoppedBy;
    const matches = found.slice(0, limits.grepMatches).sort(byPathAndLine);
    return { matches, tooLarge, ...(cutBy && { cutBy }) };
  } finally {
    isOver = true;
    clearTimeout(timer);
    ignoreAbort?.();
    search?.stop();
  }
}

function checkPattern(pattern: string): void {
  if (pattern === "" || pattern.length > maxPattern) {
    throw fileError("invalid_pattern", `A pattern must have 1 to ${maxPattern} characters.`);
  }
  if (/[\0\r\n]/.test(pattern) || !pattern.isWellFormed()) {
    throw fileError("invalid_pattern", "A pattern must be one line: it is matched line by line.");
  }
}

function byPathAndLine(a: GrepMatch, b: GrepMatch): number {
  return byPath(a, b) || a.line - b.line;
}

type Ripgrep = ChildProcessByStdio<Writable, Readable, Readable>;

/** Pipes files into ripgrep, which gets no paths because it could follow links; undefined when it is not available. */
async function ripgrepSearch(
  query: GrepQuery,
  limit: number,
  program: true | string,
): Promise<LineSearch | undefined> {
  const child = await spawnRipgrep(
    program === true ? ((await packagedRipgrep()) ?? undefined) : program,
    query,
    limit,
  );
  if (!child) return undefined;
  const matches: GrepMatch[] = [];
  const starts: { readonly path: string; readonly line: number }[] = [];
  let lines = 0; // of all files that were added
  let isClosed = false;
  const closed = new Promise<number | null>((resolve) => {
    child.once("close", (code) => {
      isClosed = true;
      resolve(code);
    });
  });

  let current = 0; // index of the file of the last match; matches arrive in the order of the files
  readLines(child.stdout, (text) => {
    const colon = text.indexOf(":");
    const line = Number(text.slice(0, colon));
    while ((starts[current + 1]?.line ?? Number.POSITIVE_INFINITY) <= line) current++;
    const { path, line: first } = starts[current] as (typeof starts)[number];
    matches.push({ path, line: line - first + 1, text: text.slice(colon + 1) });
  });
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors = (errors + text).slice(0, maxStderr);
  });
  child.stdin.on("error", () => {}); // ripgrep exits early at the limit

  return {
    matches,
    async add(path, data) {
      starts.push({ path, line: lines + 1 });
      lines += countLines(data);
      const isEnded = data.length === 0 || data.at(-1) === newline;
      if (!isEnded) child.stdin.cork();
      child.stdin.write(data);
      if (!isEnded) child.stdin.write("\n");
      child.stdin.uncork();
      if (child.stdin.writableNeedDrain) {
        await Promise.race([closed, once(child.stdin, "drain").catch(() => {})]);
      }
      return !isClosed;
    },
    async end() {
      child.stdin.end();
      if ((await closed) !== 2) return;
      const reason = /^(?:error|rg: <stdin>): (.*)$/m.exec(errors)?.[1] ?? "ripgrep rejected it";
      throw invalidPattern(query.pattern, reason.replace(/\.$/, ""));
    },
    stop() {
      child.kill("SIGKILL");
    },
  };
}

let packaged: Promise<string | null> | undefined;
let isHinted = false;

/** Looks for the optional package once; null without it. */
function packagedRipgrep(): Promise<string | null> {
  packaged ??= import("@vscode/ripgrep").then(
    ({ rgPath }) => rgPath,
    () => null,
  );
  return packaged;
}

function hintAtRipgrep(): void {
  if (isHinted) return;
  isHinted = true;
  const message = "Searches in files are faster with ripgrep. Run `npm i @vscode/ripgrep`.";
  process.emitWarning(message, "RivuletWarning");
}

async function spawnRipgrep(
  program: string | undefined,
  { pattern, literal = false, ignoreCase = false }: GrepQuery,
  limit: number,
): Promise<Ripgrep | undefined> {
  if (program === undefined) return undefined;
  const args = [
    ...ripgrepFlags.split(" "),
    `--max-count=${limit}`,
    `--max-columns=${maxLine}`,
    ...(literal ? ["--fixed-strings"] : []),
    ...(ignoreCase ? ["--ignore-case"] : []),
    `--regexp=${pattern}`,
    "-",
  ];
  const child = spawn(program, args, { env: {}, stdio: ["pipe", "pipe", "pipe"] });
  return new Promise((resolve) => {
    child.once("spawn", () => resolve(child));
    child.on("error", () => resolve(undefined));
  });
}

function readLines(stream: Readable, onLine: (text: string) => void): void {
  let rest = "";
  stream.setEncoding("utf8").on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) onLine(line.endsWith("\r") ? line.slice(0, -1) : line);
  });
}

function countLines(data: Uint8Array): number {
  let count = data.length > 0 && data.at(-1) !== newline ? 1 : 0;
  for (let at = data.indexOf(newline); at >= 0; at = data.indexOf(newline, at + 1)) count += 1;
  return count;
}

function invalidPattern(pattern: string, problem: string): Error {
  return fileError(
    "invalid_pattern",
    `The pattern ${JSON.stringify(pattern)} cannot be used: ${problem}.`,
    "Fix the regular expression, or set literal.",
  );
}

type Job = { readonly path: string; readonly data: Uint8Array };
type Answer =
  | { readonly path: string; readonly found: readonly (readonly [line: number, text: string])[] }
  | { readonly problem: string };

type WorkerSettings = Required<GrepQuery> & { readonly limit: number; readonly maxLine: number };

const maxPendingFiles = 4;
const maxOldGenerationSizeMb = 256;

/** Starts a search without ripgrep: JavaScript regular expressions in a thread that can be terminated. */
function workerSearch(query: GrepQuery, limit: number): LineSearch {
  const { pattern, literal = false, ignoreCase = false } = query;
  const settings: WorkerSettings = { pattern, literal, ignoreCase, limit, maxLine };
  // The program is passed as text, because a bundler would not include a second file.
  const program = `(${searchLines})(require("node:worker_threads"), ${JSON.stringify(settings)})`;
  const worker = new Worker(program, {
    eval: true,
    env: {},
    resourceLimits: { maxOldGenerationSizeMb },
  });
  const matches: GrepMatch[] = [];
  let pending = 0;
  let failure: Error | undefined;
  let isOver = false;
  let changed = Promise.withResolvers<void>();
  const notify = () => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  const finish = (error?: Error) => {
    failure ??= error;
    isOver = true;
    notify();
  };
  worker.on("message", (answer: Answer) => {
    pending -= 1;
    if ("problem" in answer) return finish(invalidPattern(pattern, answer.problem));
    for (const [line, text] of answer.found) {
      if (matches.length < limit) matches.push({ path: answer.path, line, text });
    }
    if (matches.length >= limit) finish();
    else notify();
  });
  worker.on("error", (error) => finish(invalidPattern(pattern, error.message)));
  worker.on("exit", () => finish());

  const until = async (isReached: () => boolean) => {
    while (!isOver && !isReached()) await changed.promise;
  };
  return {
    matches,
    async add(path, data) {
      pending += 1;
      worker.postMessage({ path, data } satisfies Job);
      await until(() => pending < maxPendingFiles);
      return !isOver;
    },
    async end() {
      await until(() => pending === 0);
      if (failure) throw failure;
    },
    stop() {
      worker.terminate();
    },
  };
}

/** Runs in the thread as text, so it must not use anything outside itself. */
function searchLines(
  { parentPort }: typeof import("node:worker_threads"),
  { pattern, literal, ignoreCase, limit, maxLine }: WorkerSettings,
): void {
  const flags = ignoreCase ? "i" : "";
  const source = literal ? pattern.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&") : pattern;
  const answer = (message: Answer) => parentPort?.postMessage(message);
  const compile = (): RegExp | string => {
    try {
      return new RegExp(source, `${flags}u`);
    } catch {
      // Models often write escapes that only the older syntax accepts.
    }
    try {
      return new RegExp(source, flags);
    } catch (error) {
      return (error as Error).message;
    }
  };
  const expression = compile();
  parentPort?.on("message", ({ path, data }: Job) => {
    if (typeof expression === "string") return answer({ problem: expression });
    const found: [number, string][] = [];
    const lines = new TextDecoder().decode(data).split(/\r?\n/);
    for (const [index, line] of lines.entries()) {
      const isAfterLastNewline = index === lines.length - 1 && line === "";
      if (isAfterLastNewline || !expression.test(line)) continue;
      const text = line.length > maxLine ? `${line.slice(0, maxLine)} [...]` : line;
      found.push([index + 1, text.toWellFormed()]);
      if (found.length === limit) break;
    }
    answer({ path, found });
  });
}
