import { fileError } from "./file-error.ts";
import type { GrepMatch } from "./filesystem.ts";

/** A search over lines that goes on in another process or thread, where it can be stopped at any moment. */
export interface LineSearch {
  /** What was found so far. */
  readonly matches: readonly GrepMatch[];
  /** Takes a file; resolves when the next one may come. False: no more are wanted. */
  add(path: string, data: Uint8Array): Promise<boolean>;
  /** Resolves when everything is searched; rejects when the pattern is wrong. */
  end(): Promise<void>;
  stop(): void;
}

/** The longest line that a match shows. */
export const maxLineShown = 500;

/** The error for a pattern that is not one. */
export function invalidPattern(pattern: string, problem: string): Error {
  return fileError(
    "invalid_pattern",
    `The pattern ${JSON.stringify(pattern)} cannot be used: ${problem}.`,
    "Mend the regular expression, or search for it as a literal text.",
  );
}
