import { fileError } from "./file-error.ts";
import type { FileLimits, GrepMatch, GrepQuery, GrepResult } from "./filesystem.ts";
import type { LineSearch } from "./line-search.ts";
import { ripgrepSearch } from "./ripgrep.ts";
import { hasMark, isBinary } from "./text.ts";
import { byPath, type FoundFile } from "./volume.ts";
import { workerSearch } from "./worker-search.ts";

/** What a search needs besides the query. */
export interface GrepOver {
  readonly limits: Pick<FileLimits, "grepMatches" | "grepMs">;
  /** Whether ripgrep may be used, or where it is. */
  readonly ripgrep: boolean | string;
  readonly signal?: AbortSignal | undefined;
  /** Hands files to `visit` until there are no more, or until `isOver`. */
  walk(visit: (files: readonly FoundFile[]) => Promise<void>, isOver: () => boolean): Promise<void>;
}

const maxPattern = 1_000;
const readAtOnce = 8;

/**
 * Searches files line by line. They are opened by the walk, so that no other program finds its own way to them; the
 * matching happens elsewhere, so that no pattern holds this process up.
 */
export async function grepFiles(query: GrepQuery, over: GrepOver): Promise<GrepResult> {
  checkQuery(query);
  over.signal?.throwIfAborted();
  const { grepMatches, grepMs } = over.limits;
  let search: LineSearch | undefined;
  let tooLarge = 0;
  let isOver = false;

  async function visit(files: readonly FoundFile[]): Promise<void> {
    for (let first = 0; first < files.length && !isOver; first += readAtOnce) {
      const batch = files.slice(first, first + readAtOnce);
      const contents = await Promise.all(batch.map((file) => file.read()));
      for (const [index, { path }] of batch.entries()) {
        const data = contents[index];
        if (data === "too large") tooLarge += 1;
        if (typeof data !== "object" || isBinary(data)) continue;
        search ??= await startSearch(query, grepMatches + 1, over.ripgrep);
        if (isOver) return search.stop(); // it came too late to be stopped with the rest
        isOver = !(await search.add(path, hasMark(data) ? data.subarray(3) : data)) || isOver;
      }
    }
  }
  async function searchAll(): Promise<undefined> {
    await over.walk(visit, () => isOver);
    await search?.end();
  }

  const early = Promise.withResolvers<"time">();
  const timer = setTimeout(() => early.resolve("time"), grepMs);
  const onAbort = () => early.reject(over.signal?.reason);
  over.signal?.addEventListener("abort", onAbort, { once: true });
  try {
    const cutBy = await Promise.race([searchAll(), early.promise]);
    const matches = [...(search?.matches ?? [])];
    if (matches.length > grepMatches) {
      return { matches: inOrder(matches.slice(0, grepMatches)), tooLarge, cutBy: "limit" };
    }
    return { matches: inOrder(matches), tooLarge, ...(cutBy && { cutBy }) };
  } finally {
    isOver = true;
    clearTimeout(timer);
    over.signal?.removeEventListener("abort", onAbort);
    search?.stop();
  }
}

async function startSearch(
  query: GrepQuery,
  limit: number,
  ripgrep: boolean | string,
): Promise<LineSearch> {
  const search = ripgrep === false ? undefined : await ripgrepSearch(query, limit, ripgrep);
  return search ?? workerSearch(query, limit);
}

function checkQuery({ pattern }: GrepQuery): void {
  if (pattern === "" || pattern.length > maxPattern) {
    throw fileError("invalid_pattern", `A pattern has 1 to ${maxPattern} characters.`);
  }
  if (/[\0\r\n]/.test(pattern) || !pattern.isWellFormed()) {
    throw fileError("invalid_pattern", "A pattern is matched line by line: it has one line.");
  }
}

function inOrder(matches: readonly GrepMatch[]): readonly GrepMatch[] {
  return matches.toSorted((a, b) => byPath(a, b) || a.line - b.line);
}
