// `npm run walk`: prints the files of src/agent that a hello runs, in order, and the size of the source.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Visit } from "./hello-visits.ts";
import { sourceFiles } from "./repository-files.ts";

/** Runs a hello in a fresh process and returns the files of src/agent that its call enters, in order. */
export function walkHello(): readonly Visit[] {
  const program = fileURLToPath(new URL("hello-visits.ts", import.meta.url));
  return JSON.parse(execFileSync(process.execPath, [program], { encoding: "utf8" }));
}

/** The size of the source, without tests. */
export interface SourceSize {
  readonly agentFiles: number;
  readonly agentLines: number;
  /** All of src except contract suites. */
  readonly lines: number;
}

/** Counts the files and lines of src. */
export function sourceSize(): SourceSize {
  const files = sourceFiles();
  const agent = files.filter(({ path }) => path.startsWith("src/agent/"));
  const counted = files.filter(({ path }) => !/-contract\b/.test(path));
  const linesOf = (group: typeof files) =>
    group.reduce((sum, { text }) => sum + text.split("\n").length - 1, 0);
  return { agentFiles: agent.length, agentLines: linesOf(agent), lines: linesOf(counted) };
}

function printWalk(): void {
  const visits = walkHello();
  console.log(`A hello runs ${visits.length} files of src/agent:`);
  for (const [index, { file, firstFunction }] of visits.entries())
    console.log(`${String(index + 1).padStart(4)}  ${file.padEnd(30)}  ${firstFunction}`);
  const size = sourceSize();
  const agentLines = size.agentLines.toLocaleString("en");
  console.log(`src/agent without tests: ${size.agentFiles} files, ${agentLines} lines`);
  console.log(`src without tests and contract suites: ${size.lines.toLocaleString("en")} lines`);
}

if (import.meta.main) printWalk();
