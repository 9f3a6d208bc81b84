import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of this package, whether this file runs from `src` or from a chunk in `dist`. */
export const packageRoot: string = findRoot(dirname(fileURLToPath(import.meta.url)));

function findRoot(folder: string): string {
  const isRoot = existsSync(join(folder, "package.json")) || folder === dirname(folder);
  return isRoot ? folder : findRoot(dirname(folder));
}

/** The version of this package. */
export function packageVersion(): string {
  const text = readFileSync(join(packageRoot, "package.json"), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}
