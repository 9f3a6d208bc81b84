import { RivuletError } from "../../base/error.ts";

/** Whether PostgreSQL can store a text as it is. */
export function isStorable(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}

/** Throws when an id, a path or a user has characters that PostgreSQL cannot store. */
export function assertStorable(...texts: readonly (string | undefined)[]): void {
  for (const text of texts) {
    if (text === undefined || isStorable(text)) continue;
    const shown = JSON.stringify(text.slice(0, 80));
    throw new RivuletError("invalid_argument", `PostgreSQL cannot store the id ${shown}.`, {
      hint: "Pass ids and paths without NUL and without lone surrogates.",
    });
  }
}
