import type { RepositoryFile } from "./repository-files.ts";

/** A file that is longer than this does more than one thing. */
const mostLines = 350;

/** Files with a limit of their own, each with its reason. */
const limits: Readonly<Record<string, { readonly lines: number; readonly why: string }>> = {
  "src/agent/loop.ts": { lines: 150, why: "the loop is read in one sitting" },
  "src/protocol/event.ts": { lines: 450, why: "the catalogue: one declaration per event type" },
};

/** What is too long, in words. */
export function sizeProblems(files: readonly RepositoryFile[]): readonly string[] {
  return files.flatMap(({ path, text }) => {
    const limit = limits[path]?.lines ?? mostLines;
    const lines = text.trimEnd().split("\n").length;
    return lines > limit ? [`${path}: ${lines} lines, at most ${limit}`] : [];
  });
}
