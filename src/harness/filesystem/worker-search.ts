import { Worker } from "node:worker_threads";
import type { GrepMatch, GrepQuery } from "./filesystem.ts";
import { invalidPattern, type LineSearch, maxLineShown } from "./line-search.ts";

/** What the thread is told, and what it answers about each file. */
interface Job {
  readonly path: string;
  readonly data: Uint8Array;
}
type Answer =
  | { readonly path: string; readonly found: readonly (readonly [line: number, text: string])[] }
  | { readonly problem: string };

interface Settings {
  readonly pattern: string;
  readonly literal: boolean;
  readonly ignoreCase: boolean;
  readonly limit: number;
  readonly maxLineShown: number;
}

const maxWaiting = 4; // files on their way to the thread
const memoryMb = 256;

/** The same search where there is no ripgrep: JavaScript's own regular expressions, in a thread that can be ended. */
export function workerSearch(query: GrepQuery, limit: number): LineSearch {
  const { pattern, literal = false, ignoreCase = false } = query;
  const settings: Settings = { pattern, literal, ignoreCase, limit, maxLineShown };
  // The thread's program travels as text, since a bundler would not see that a second file is needed.
  const program = `(${searchLines})(require("node:worker_threads"), ${JSON.stringify(settings)})`;
  const worker = new Worker(program, {
    eval: true,
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: memoryMb },
  });
  const matches: GrepMatch[] = [];
  let waiting = 0;
  let failure: Error | undefined;
  let isOver = false;
  let moved = Promise.withResolvers<void>();
  const move = () => {
    moved.resolve();
    moved = Promise.withResolvers();
  };
  const end = (error?: Error) => {
    failure ??= error;
    isOver = true;
    move();
  };
  worker.on("message", (answer: Answer) => {
    waiting -= 1;
    if ("problem" in answer) return end(invalidPattern(pattern, answer.problem));
    for (const [line, text] of answer.found) {
      if (matches.length < limit) matches.push({ path: answer.path, line, text });
    }
    if (matches.length >= limit) end();
    else move();
  });
  worker.on("error", (error) => end(invalidPattern(pattern, error.message)));
  worker.on("exit", () => end());

  const until = async (isReached: () => boolean) => {
    while (!isOver && !isReached()) await moved.promise;
  };
  return {
    matches,
    async add(path, data) {
      waiting += 1;
      worker.postMessage({ path, data } satisfies Job);
      await until(() => waiting < maxWaiting);
      return !isOver;
    },
    async end() {
      await until(() => waiting === 0);
      if (failure) throw failure;
    },
    stop() {
      worker.terminate();
    },
  };
}

/** Runs in the thread, as text: it uses nothing from outside itself. */
function searchLines(
  { parentPort }: typeof import("node:worker_threads"),
  { pattern, literal, ignoreCase, limit, maxLineShown }: Settings,
): void {
  const flags = ignoreCase ? "i" : "";
  const source = literal ? pattern.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&") : pattern;
  const answer = (message: Answer) => parentPort?.postMessage(message);
  const compile = (): RegExp | string => {
    try {
      return new RegExp(source, `${flags}u`);
    } catch {
      // Many write escapes that only the older syntax takes.
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
      const text = line.length > maxLineShown ? `${line.slice(0, maxLineShown)} [...]` : line;
      found.push([index + 1, text.toWellFormed()]);
      if (found.length === limit) break;
    }
    answer({ path, found });
  });
}
