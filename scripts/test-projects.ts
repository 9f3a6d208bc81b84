import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path/posix";

/** The projects of Vitest, in the order in which `npm test` runs them: the cheapest first. */
export const projectNames = ["unit", "story", "system"] as const;

/** A project of Vitest. */
export type ProjectName = (typeof projectNames)[number];

const processModules = ["node:child_process", "playwright-core"];
const systemFolders = /^test\/(browser|cli|client|harness\/sandbox|remote|server)\//;

/** The test files of each project. The test in `sample/project` runs in the projects that `rivulet init` creates. */
export function testFiles(): Readonly<Record<ProjectName, readonly string[]>> {
  const files: Record<ProjectName, string[]> = { unit: [], story: [], system: [] };
  const paths = globSync("{src,playground,sample/demo,test}/**/*.test.ts")
    .map((path) => path.replaceAll("\\", "/"))
    .sort();
  for (const path of paths) files[projectOf(path)].push(path);
  return files;
}

/** A test that starts processes, browsers or servers belongs to `system`; the others beside their sources are `unit`. */
function projectOf(path: string): ProjectName {
  if (systemFolders.test(path) || startsProcesses(path)) return "system";
  return path.startsWith("test/") ? "story" : "unit";
}

/** Whether a test starts processes itself or with the support code in `test`. */
function startsProcesses(path: string, visited = new Set<string>()): boolean {
  if (visited.has(path)) return false;
  visited.add(path);
  const imports = Array.from(
    readFileSync(path, "utf8").matchAll(/^(?:import|export|\}).*?"([^"]+)";$/gm),
    ([, name = ""]) => name,
  );
  if (imports.some((name) => processModules.includes(name))) return true;
  return imports
    .filter((name) => name.startsWith("."))
    .map((name) => join(dirname(path), name))
    .some((file) => file.startsWith("test/") && existsSync(file) && startsProcesses(file, visited));
}
