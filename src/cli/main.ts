#!/usr/bin/env node
import { readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** The program that the project in this folder has installed, if that is another copy of the package. */
function projectCopy(): string | undefined {
  try {
    const path = createRequire(join(process.cwd(), "package.json")).resolve("rivulet/package.json");
    const folder = dirname(realpathSync(path));
    if (realpathSync(fileURLToPath(import.meta.url)).startsWith(join(folder, "/")))
      return undefined;
    const { bin } = JSON.parse(readFileSync(path, "utf8")) as { bin?: { rivulet?: string } };
    return bin?.rivulet && join(folder, bin.rivulet);
  } catch {
    return undefined; // the project has none
  }
}

const copy = projectCopy();
// A config imports the package of its project, and both must be the same copy.
if (copy !== undefined) await import(pathToFileURL(copy).href);
// In one piece: every other entry would split the files that programs load when they import the package.
else await (await import("./program.ts")).runProgram();
