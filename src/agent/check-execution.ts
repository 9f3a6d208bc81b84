import { callback, checkFields, count, type Field, type Fields, number } from "./check-fields.ts";
import type { Execution } from "./execution.ts";

const limit: Field = {
  fits: (value) => value === null || (Number.isFinite(value) && (value as number) > 0),
  is: "a number of milliseconds, more than 0; null: no limit",
};
const pause = number("a number of milliseconds, at least 0", (value) => value >= 0);

const fields: Fields<Execution> = {
  timeoutMs: limit,
  maxAttempts: count,
  initialBackoffMs: pause,
  maxBackoffMs: pause,
  backoffMultiplier: number("a number, at least 0", (value) => value >= 0),
  jitter: number("a number from 0 to 1", (value) => value >= 0 && value <= 1),
  retryOn: callback,
};

/** Refuses what is no way to call a tool; `where` says whose it is. */
export function checkExecution(where: string, execution: unknown): void {
  if (execution !== undefined) checkFields(where, execution, fields);
}

/** Refuses what is no way to call a model. */
export function checkModelExecution(where: string, execution: unknown): void {
  if (execution !== undefined) checkFields(where, execution, { ...fields, stallMs: limit });
}
