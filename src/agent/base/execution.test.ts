import { describe, expect, it } from "vitest";
import { RivuletError } from "../../base/error.ts";
import { backoffMs, isRetryable, mergeExecution, toolExecution } from "./execution.ts";

describe("backoffMs", () => {
  const middle = () => 0.5; // no jitter either way

  it("grows by the multiplier and stops at the maximum", () => {
    const waits = [1, 2, 3, 4, 5, 6].map((attempt) => backoffMs({}, attempt, middle));
    expect(waits).toEqual([2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    expect(backoffMs({ initialBackoffMs: 10, backoffMultiplier: 3 }, 3, middle)).toBe(90);
  });

  it("varies by the jitter, but not beyond the maximum", () => {
    expect(backoffMs({}, 1, () => 0)).toBe(1_000);
    expect(backoffMs({}, 1, () => 0.999999)).toBe(3_000);
    expect(backoffMs({ jitter: 0 }, 1, () => 0)).toBe(2_000);
    expect(backoffMs({}, 9, () => 0.999999)).toBe(30_000);
  });
});

describe("mergeExecution", () => {
  it("merges settings field by field", () => {
    const merged = mergeExecution(toolExecution, { maxAttempts: 3, jitter: 0 }, undefined, {
      maxAttempts: undefined,
      timeoutMs: null,
      jitter: 1,
    });
    expect(merged).toEqual({ ...toolExecution, maxAttempts: 3, timeoutMs: null, jitter: 1 });
  });
});

describe("isRetryable", () => {
  const withCode = (code: string) => Object.assign(new Error("x"), { code });
  const yes = [
    withCode("ECONNRESET"),
    new Error("outer", { cause: new Error("middle", { cause: withCode("ETIMEDOUT") }) }),
    new TypeError("fetch failed"),
    Object.assign(new Error("x"), { statusCode: 503 }),
    Object.assign(new Error("x"), { status: 429 }),
    new DOMException("late", "TimeoutError"),
    new RivuletError("stalled", "x", { retryable: true }),
    { isRetryable: true },
  ];
  const no = [
    new Error("boom"),
    new TypeError("x is not a function"),
    withCode("ENOENT"),
    Object.assign(new Error("x"), { statusCode: 400 }),
    new DOMException("stop", "AbortError"),
    new RivuletError("invalid_request", "x", { cause: withCode("ECONNRESET") }),
    { isRetryable: false, statusCode: 503 },
    "ECONNRESET",
    undefined,
  ];
  it("is true for transient errors", () => {
    for (const error of yes) expect(isRetryable(error), String(error)).toBe(true);
  });
  it("is false for permanent and unknown errors", () => {
    for (const error of no) expect(isRetryable(error), String(error)).toBe(false);
  });
});
