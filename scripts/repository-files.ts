import { globSync, readFileSync } from "node:fs";

/** A text of the repository. */
export interface RepositoryFile {
  /** From the repository's root, with forward slashes: `src/protocol/reduce.ts`. */
  readonly path: string;
  readonly text: string;
}

/** The product's own files: what is in src and is not a test. */
export function sourceFiles(): readonly RepositoryFile[] {
  return filesMatching(["src/**/*.{ts,tsx}"]).filter(({ path }) => !/\.test\.tsx?$/.test(path));
}

/** What is written for people: README and its neighbours, and everything in docs. */
export function documents(): readonly RepositoryFile[] {
  return filesMatching(["*.md", "docs/**/*.md"]);
}

function filesMatching(patterns: readonly string[]): readonly RepositoryFile[] {
  return globSync(patterns)
    .map((path) => path.replaceAll("\\", "/"))
    .sort()
    .map((path) => ({ path, text: readFileSync(path, "utf8") }));
}
