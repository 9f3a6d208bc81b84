import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** One execution of a tool, as the tool itself has noted it: the test's own memory, beside everything that is tested. */
export interface Execution {
  readonly name: string;
  readonly callId: string;
  /** Whether the transcript had a result of this call already. */
  readonly isRecorded: boolean;
}

/** What the tools have done so far, in all processes. */
export function executionsIn(folder: string): readonly Execution[] {
  const path = join(folder, "executions.jsonl");
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, "utf8").split("\n").slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Execution);
}

/** Notes one more; a process that is killed right after it has noted it all the same. */
export function noteExecution(folder: string, execution: Execution): void {
  appendFileSync(join(folder, "executions.jsonl"), `${JSON.stringify(execution)}\n`);
}
