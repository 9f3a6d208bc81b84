import { RivuletError } from "../../base/error.ts";
import type { Field, Fields } from "../../base/options.ts";
import * as is from "../../base/options.ts";

/** Time limit, attempts and backoff for calls of a tool or a model. */
export interface Execution {
  /** The time limit of one attempt; null: no limit. */
  readonly timeoutMs?: number | null;
  readonly maxAttempts?: number;
  /** The wait after the first failed attempt; each later one is `backoffMultiplier` times as long. */
  readonly initialBackoffMs?: number;
  readonly maxBackoffMs?: number;
  readonly backoffMultiplier?: number;
  /** How much a wait varies, up and down, as a fraction of it. */
  readonly jitter?: number;
  /** Whether to retry after this error. */
  readonly retryOn?: (error: unknown) => boolean;
}

const limit: Field = {
  fits: (value) => value === null || (Number.isFinite(value) && (value as number) > 0),
  expected: "a positive number of milliseconds, or null for no limit",
};
const executionFields: Fields<Execution> = {
  timeoutMs: limit,
  maxAttempts: is.count,
  initialBackoffMs: is.amount,
  maxBackoffMs: is.amount,
  backoffMultiplier: is.amount,
  jitter: is.number("a number from 0 to 1", (value) => value >= 0 && value <= 1),
  retryOn: is.callback,
};
/** The execution settings of a tool. */
export const executionField = is.options(executionFields);
/** The execution settings of a model. */
export const modelExecutionField = is.options({ ...executionFields, stallMs: limit });

const backoff = {
  initialBackoffMs: 2_000,
  maxBackoffMs: 30_000,
  backoffMultiplier: 2,
  jitter: 0.5,
  retryOn: isRetryable,
};

/** The defaults for tools: one attempt, because repeating an effect is not safe. */
export const toolExecution: Required<Execution> = {
  timeoutMs: 300_000,
  maxAttempts: 1,
  ...backoff,
};

/** The defaults for models: no time limit, because `stallMs` ends a silent reply. */
export const modelExecution: Required<Execution> = { timeoutMs: null, maxAttempts: 3, ...backoff };

/** Merges settings field by field; a later defined value wins. */
export function mergeExecution(
  base: Required<Execution>,
  ...layers: readonly (Execution | undefined)[]
): Required<Execution> {
  const merged: Record<string, unknown> = { ...base };
  for (const layer of layers) {
    for (const field in layer) {
      const value = layer[field as keyof Execution];
      if (value !== undefined) merged[field] = value;
    }
  }
  return merged as unknown as Required<Execution>;
}

/** The wait after the failed attempt number `attempt` (from 1); `random` returns a number in [0, 1). */
export function backoffMs(execution: Execution, attempt: number, random: () => number): number {
  const merged = mergeExecution(toolExecution, execution);
  const { initialBackoffMs, maxBackoffMs, backoffMultiplier, jitter } = merged;
  const steady = Math.min(maxBackoffMs, initialBackoffMs * backoffMultiplier ** (attempt - 1));
  return Math.min(maxBackoffMs, Math.round(steady * (1 + jitter * (2 * random() - 1))));
}

// Node's error codes for connections that failed or broke.
const sockets = ["ECONNRESET", "ECONNREFUSED", "ECONNABORTED", "EPIPE", "ETIMEDOUT"];
const network = ["ENETDOWN", "ENETUNREACH", "EHOSTUNREACH", "ENOTFOUND", "EAI_AGAIN"];
const fetching = ["CONNECT_TIMEOUT", "HEADERS_TIMEOUT", "BODY_TIMEOUT", "SOCKET"];
const undici = fetching.map((name) => `UND_ERR_${name}`);
const brokenConnections = new Set([...sockets, ...network, ...undici]);
const maxCauses = 8; // causes may form a cycle

/** Whether a request that failed with this HTTP status may succeed later. */
export function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

/** Whether a retry may help: broken connections, timeouts, 408, 409, 429, 5xx and errors marked as retryable. */
export function isRetryable(error: unknown): boolean {
  for (const cause of causes(error)) {
    if (cause instanceof RivuletError) return cause.retryable;
    const { name, isRetryable: isMarked, statusCode, status = statusCode } = cause;
    if (name === "AbortError") return false;
    if (name === "TimeoutError") return true;
    if (typeof isMarked === "boolean") return isMarked;
    if (typeof status === "number") return isRetryableStatus(status);
  }
  return isBrokenConnection(error);
}

/** Whether a connection failed or broke, in the error or any of its causes. */
export function isBrokenConnection(error: unknown): boolean {
  return causes(error).some(
    ({ code, message, name }) =>
      (typeof code === "string" && brokenConnections.has(code)) ||
      (name === "TypeError" && (message === "fetch failed" || message === "terminated")),
  );
}

function causes(error: unknown): readonly Readonly<Record<string, unknown>>[] {
  const chain: Record<string, unknown>[] = [];
  let current = error;
  while (typeof current === "object" && current !== null && chain.length < maxCauses) {
    chain.push(current as Record<string, unknown>);
    current = (current as { cause?: unknown }).cause;
  }
  return chain;
}
