import { readFileSync } from "node:fs";

/** A behaviour of a seed and the test that checks it. */
export interface SeedRow {
  readonly seed: string;
  readonly line: number;
  readonly behaviour: string;
  readonly file: string;
  readonly title: string;
}

/** The directory of the repository. */
export const root = new URL("../../", import.meta.url);

/** Reads the rows of the table in README.md. */
export function readTable(): readonly SeedRow[] {
  const rows: SeedRow[] = [];
  let seed = "";
  for (const text of readFileSync(new URL("README.md", import.meta.url), "utf8").split("\n")) {
    seed = /^## .*\bseeds? (\d{3})/.exec(text)?.[1] ?? seed;
    const [, line, behaviour, file, title] =
      /^\| (\d+) \| (.+) \| `([^`]+)`: (.+) \|$/.exec(text) ?? [];
    if (line && behaviour && file && title) {
      rows.push({ seed, line: Number(line), behaviour, file, title });
    }
  }
  return rows;
}
