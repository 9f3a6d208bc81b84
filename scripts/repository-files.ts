import { globSync, readFileSync } from "node:fs";

/** A text file of the repository. */
export interface RepositoryFile {
  /** Relative to the repository root, with forward slashes: `src/protocol/reduce.ts`. */
  readonly path: string;
  readonly text: string;
}

/** Reads the source files of src, without tests. */
export function sourceFiles(): readonly RepositoryFile[] {
  return filesMatching(["src/**/*.{ts,tsx}"]).filter(({ path }) => !/\.test\.tsx?$/.test(path));
}

/** Reads the scripts of the page, without tests. */
export function pageFiles(): readonly RepositoryFile[] {
  return filesMatching(["playground/src/**/*.{ts,tsx}"]).filter(
    ({ path }) => !/\.test\.tsx?$/.test(path),
  );
}

/** Reads the Markdown files in the repository root and in docs. */
export function documents(): readonly RepositoryFile[] {
  return filesMatching(["*.md", "docs/**/*.md"]);
}

function filesMatching(patterns: readonly string[]): readonly RepositoryFile[] {
  return globSync(patterns)
    .map((path) => path.replaceAll("\\", "/"))
    .sort()
    .map((path) => ({ path, text: readFileSync(path, "utf8") }));
}
