import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import type { GrepMatch, GrepQuery } from "./filesystem.ts";
import { invalidPattern, type LineSearch, maxLineShown } from "./line-search.ts";

type Ripgrep = ChildProcessByStdio<Writable, Readable, Readable>;

const newline = 0x0a;
const maxComplaint = 2_000;

/**
 * A search by ripgrep, which reads the files one after the other as its input and is never given a path: it could not
 * be kept from following a link that somebody puts there while it runs. Undefined when there is no ripgrep.
 */
export async function ripgrepSearch(
  query: GrepQuery,
  limit: number,
  program: true | string,
): Promise<LineSearch | undefined> {
  const child = await start(program === true ? await packagedRipgrep() : program, query, limit);
  if (!child) return undefined;
  const matches: GrepMatch[] = [];
  const starts: { readonly path: string; readonly line: number }[] = [];
  let lines = 0; // that were handed over
  let isClosed = false;
  const closed = new Promise<number | null>((resolve) => {
    child.once("close", (code) => {
      isClosed = true;
      resolve(code);
    });
  });

  let current = 0; // the file of the last match: matches come in the order of the files
  readLines(child.stdout, (text) => {
    const colon = text.indexOf(":");
    const line = Number(text.slice(0, colon));
    while ((starts[current + 1]?.line ?? Number.POSITIVE_INFINITY) <= line) current++;
    const { path, line: first } = starts[current] as (typeof starts)[number];
    matches.push({ path, line: line - first + 1, text: text.slice(colon + 1) });
  });
  let complaint = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    complaint = (complaint + text).slice(0, maxComplaint);
  });
  child.stdin.on("error", () => {}); // it ends early when it has found enough

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
      if (child.stdin.writableNeedDrain) await Promise.race([closed, drained(child.stdin)]);
      return !isClosed;
    },
    async end() {
      child.stdin.end();
      if ((await closed) === 2) throw invalidPattern(query.pattern, reasonIn(complaint));
    },
    stop() {
      child.kill("SIGKILL");
    },
  };
}

/** What the package brings for this machine. */
async function packagedRipgrep(): Promise<string | undefined> {
  return import("@vscode/ripgrep").then(
    ({ rgPath }) => rgPath,
    () => undefined, // it has none for this machine
  );
}

async function start(
  program: string | undefined,
  { pattern, literal = false, ignoreCase = false }: GrepQuery,
  limit: number,
): Promise<Ripgrep | undefined> {
  if (program === undefined) return undefined;
  const args = [
    "--no-config",
    "--line-number",
    "--no-filename",
    "--color=never",
    "--text",
    "--encoding=none",
    "--crlf",
    "--engine=auto",
    `--max-count=${limit}`,
    `--max-columns=${maxLineShown}`,
    "--max-columns-preview",
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

/** Resolves when more can be written, or never will be. */
async function drained(stream: Writable): Promise<void> {
  await once(stream, "drain").catch(() => {});
}

function readLines(stream: Readable, onLine: (text: string) => void): void {
  let rest = "";
  stream.setEncoding("utf8").on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) onLine(line.endsWith("\r") ? line.slice(0, -1) : line);
  });
}

/** How many lines it takes up when a newline ends the last one. */
function countLines(data: Uint8Array): number {
  let count = 0;
  let last = -1;
  for (let at = data.indexOf(newline); at >= 0; at = data.indexOf(newline, at + 1)) {
    count += 1;
    last = at;
  }
  return last === data.length - 1 ? count : count + 1;
}

/** The sentence in what ripgrep writes about a pattern that is wrong, or that leads nowhere. */
function reasonIn(complaint: string): string {
  const sentence = /^(?:error|rg: <stdin>): (.*)$/m.exec(complaint)?.[1] ?? "ripgrep refused it";
  return sentence.replace(/\.$/, "");
}
