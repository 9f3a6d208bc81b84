import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** An execution of a tool, recorded by the tool itself, independently of the tested code. */
export interface Execution {
  readonly name: string;
  readonly callId: string;
  /** Whether the transcript already had a result of this call. */
  readonly isRecorded: boolean;
}

/** Returns the executions of all processes. */
export function executionsIn(folder: string): readonly Execution[] {
  const path = join(folder, "executions.jsonl");
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, "utf8").split("\n").slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Execution);
}

/** Records an execution synchronously, so that a kill right after it does not lose it. */
export function noteExecution(folder: string, execution: Execution): void {
  appendFileSync(join(folder, "executions.jsonl"), `${JSON.stringify(execution)}\n`);
}
