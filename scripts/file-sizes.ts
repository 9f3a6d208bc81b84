import type { RepositoryFile } from "./repository-files.ts";

/** The limit for files without one of their own. */
const maxLines = 500;

/** Files with their own limit, each with its reason. */
const limits: Readonly<Record<string, { readonly lines: number; readonly why: string }>> = {
  "src/agent/loop/loop.ts": { lines: 150, why: "a reader should follow the whole loop at once" },
};

/** Lists the files that are too long. */
export function sizeProblems(files: readonly RepositoryFile[]): readonly string[] {
  return files.flatMap(({ path, text }) => {
    const limit = limits[path]?.lines ?? maxLines;
    const lines = text.trimEnd().split("\n").length;
    return lines > limit ? [`${path}: ${lines} lines, at most ${limit}`] : [];
  });
}
