import { RivuletError } from "../protocol/error.ts";

/** How a tool or a model is called: how long it may take, how often it is tried and how long is waited between tries. */
export interface Execution {
  /** One attempt's time; null: no limit. */
  readonly timeoutMs?: number | null;
  readonly maxAttempts?: number;
  /** The wait after the first failed attempt; each later one is `backoffMultiplier` times as long. */
  readonly initialBackoffMs?: number;
  readonly maxBackoffMs?: number;
  readonly backoffMultiplier?: number;
  /** How far a wait may stray from its value, up and down: 0.5 is half of it. */
  readonly jitter?: number;
  /** Whether a failed attempt is worth another. */
  readonly retryOn?: (error: unknown) => boolean;
}

/** 24 days: a longer timer of the platform fires at once. */
export const longestTimer = 2 ** 31 - 1;

const backoff = {
  initialBackoffMs: 2_000,
  maxBackoffMs: 30_000,
  backoffMultiplier: 2,
  jitter: 0.5,
  retryOn: isRetryable,
};

/** What holds for a tool that says nothing: once, since to repeat an effect is not safe. */
export const toolExecution: Required<Execution> = {
  timeoutMs: 300_000,
  maxAttempts: 1,
  ...backoff,
};

/** What holds for a model that nothing is said about. It may talk for as long as it talks: silence is what ends it. */
export const modelExecution: Required<Execution> = { timeoutMs: null, maxAttempts: 3, ...backoff };

/** Lays settings over each other field by field; a later one wins where it says something. */
export function mergeExecution(
  base: Required<Execution>,
  ...layers: readonly (Execution | undefined)[]
): Required<Execution> {
  const merged: Record<string, unknown> = { ...base };
  for (const layer of layers) {
    for (const [field, value] of Object.entries(layer ?? {})) {
      if (value !== undefined) merged[field] = value;
    }
  }
  return merged as unknown as Required<Execution>;
}

/** How long to wait after attempt number `attempt` (from 1) has failed; `random` gives a number in [0, 1). */
export function backoffMs(execution: Execution, attempt: number, random: () => number): number {
  const {
    initialBackoffMs = backoff.initialBackoffMs,
    maxBackoffMs = backoff.maxBackoffMs,
    backoffMultiplier = backoff.backoffMultiplier,
    jitter = backoff.jitter,
  } = execution;
  const steady = Math.min(maxBackoffMs, initialBackoffMs * backoffMultiplier ** (attempt - 1));
  return Math.min(maxBackoffMs, Math.round(steady * (1 + jitter * (2 * random() - 1))));
}

// The codes of Node's sockets, of its resolver and of its fetch for a connection that failed or broke.
const brokenConnections = new Set([
  "ECONNRESET",
  "ECONNREFUSED",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "EAI_AGAIN",
  "ENETDOWN",
  "ENETUNREACH",
  "EHOSTUNREACH",
  "ENOTFOUND",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_BODY_TIMEOUT",
  "UND_ERR_SOCKET",
]);
const maxCauses = 8; // a cycle of causes must not hold us

/** Whether an HTTP status says "not now" rather than "not like this". */
export function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

/** Whether trying again may help: broken connections, timeouts, 408, 409, 429 and 5xx, and errors that say so themselves. */
export function isRetryable(error: unknown): boolean {
  for (const cause of causes(error)) {
    if (cause instanceof RivuletError) return cause.retryable;
    const { name, isRetryable: says, statusCode, status = statusCode } = cause;
    if (name === "AbortError") return false;
    if (name === "TimeoutError") return true;
    if (typeof says === "boolean") return says;
    if (typeof status === "number") return isRetryableStatus(status);
  }
  return isBrokenConnection(error);
}

/** Whether a connection failed or broke, be it as the cause of a cause. */
export function isBrokenConnection(error: unknown): boolean {
  return causes(error).some(
    ({ code, message, name }) =>
      (typeof code === "string" && brokenConnections.has(code)) ||
      (name === "TypeError" && (message === "fetch failed" || message === "terminated")),
  );
}

/** An error, its cause, the cause's cause: each that is an object. */
function causes(error: unknown): readonly Readonly<Record<string, unknown>>[] {
  const chain: Record<string, unknown>[] = [];
  let current = error;
  while (typeof current === "object" && current !== null && chain.length < maxCauses) {
    chain.push(current as Record<string, unknown>);
    current = (current as { cause?: unknown }).cause;
  }
  return chain;
}
