import { getEventListeners } from "node:events";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { RivuletError } from "../../base/error.ts";
import { textOf } from "../../contract/message.ts";
import { ManualClock } from "../../testing/clock.ts";
import { type Execution, isRetryable, toolExecution } from "../base/execution.ts";
import type { ToolContext } from "./context.ts";
import { executeTool, executionOf, type ToolOutcome } from "./execute.ts";
import { definitionOf, type ToolOptions, tool } from "./tool.ts";

type Execute = NonNullable<ToolOptions["execute"]>;

let clock: ManualClock;
let controller: AbortController;
const unhandled: unknown[] = [];
const onUnhandled = (reason: unknown) => unhandled.push(reason);

beforeEach(() => {
  clock = new ManualClock();
  controller = new AbortController();
  process.on("unhandledRejection", onUnhandled);
});
afterEach(async () => {
  await clock.advance(0);
  process.off("unhandledRejection", onUnhandled);
  expect(unhandled.splice(0)).toEqual([]);
  expect(clock.pending).toBe(0);
  expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
});

const definition = (execute?: Execute, options: Partial<ToolOptions> = {}) =>
  definitionOf(
    tool({ name: "work", description: "Works.", ...options, ...(execute && { execute }) }),
  );

function start(execute: Execute | undefined, execution: Execution = {}) {
  return executeTool(
    definition(execute),
    { n: 1 },
    {
      execution: { ...toolExecution, jitter: 0, ...execution },
      signal: controller.signal,
      clock,
      random: () => 0.5,
      makeContext: (attempt, signal, suspend) =>
        ({ attempt, signal, suspend }) as unknown as ToolContext,
    },
  );
}
const never = () => new Promise<never>(() => {});
const said = (outcome: ToolOutcome) =>
  outcome.state === "suspended" ? outcome.reason : textOf(outcome.content);
/** Whether the call has an outcome after all pending work has run. */
async function isSettled(outcome: Promise<ToolOutcome>): Promise<boolean> {
  let settled = false;
  outcome.then(() => {
    settled = true;
  });
  await clock.advance(0);
  return settled;
}

describe("a tool that returns", () => {
  it("yields its result, for people separately if it says so", async () => {
    const content = [{ type: "text", text: '{"n":1}' }];
    expect(await start((input) => input)).toEqual({ state: "success", content });
    expect(await start((input) => ({ content: input, display: "one" }))).toEqual({
      state: "success",
      content,
      display: [{ type: "text", text: "one" }],
    });
  });

  it("may return a promise or thenable", async () => {
    expect(said(await start(async () => "a"))).toBe("a");
    // biome-ignore lint/suspicious/noThenProperty: a thenable is what is tested
    const thenable = { then: (resolve: (text: string) => void) => resolve("b") };
    expect(said(await start(() => thenable))).toBe("b");
  });

  it("nothing yields a placeholder", async () => {
    expect(said(await start(() => undefined))).toBe("(no output)");
  });

  it("a value that is not JSON yields an error", async () => {
    const loop: { self?: object } = {};
    loop.self = loop;
    for (const value of [loop, 1n, new Map([[1, 2]])]) {
      const outcome = await start(() => value);
      expect(outcome).toMatchObject({ state: "error", error: { code: "invalid_result" } });
      expect(said(outcome)).toMatch(/^Tool execution failed: its result is not JSON/);
    }
  });

  it("a too long text yields its head and tail", async () => {
    const long = await start(() => "x".repeat(3_000_001));
    expect(long).toMatchObject({ state: "success" });
    expect(said(long)).toContain("of 3000001 characters left out");
  });
});

describe("a tool that throws", () => {
  it("yields an error result with the message", async () => {
    const outcome = await start(() => {
      throw new Error("disk full");
    });
    expect(outcome).toEqual({
      state: "error",
      content: [{ type: "text", text: "Tool execution failed: disk full" }],
      error: { code: "tool_failed", message: "disk full", retryable: false },
    });
  });

  it("keeps the code and the hint of a RivuletError", async () => {
    const outcome = await start(async () => {
      throw new RivuletError("no_access", "Not for you.", { hint: "Ask Ann." });
    });
    expect(outcome).toMatchObject({ error: { code: "no_access", hint: "Ask Ann." } });
  });

  const unreadable = {
    get message() {
      throw new Error("trap");
    },
  };
  const hostile = new Proxy(
    {},
    {
      get: () => {
        throw new Error("trap");
      },
      getPrototypeOf: () => {
        throw new Error("trap");
      },
    },
  );
  it.each<[string, unknown, string]>([
    ["undefined", undefined, "undefined was thrown"],
    ["null", null, "null was thrown"],
    ["a frozen object", Object.freeze({ message: "cold" }), "cold"],
    ["an object with a trap", unreadable, "cannot be read"],
    ["a proxy that only throws", hostile, "cannot be read"],
    ["a symbol", Symbol("s"), "Symbol(s)"],
  ])("may throw %s", async (_, thrown, words) => {
    for (const execute of [
      () => Promise.reject(thrown),
      () => {
        throw thrown;
      },
    ]) {
      const outcome = await start(execute, { maxAttempts: 2, initialBackoffMs: 0 });
      expect(outcome.state).toBe("error");
      expect(said(outcome)).toContain(words);
    }
  });

  it("may return an object whose then throws", async () => {
    const outcome = await start(() => ({
      // biome-ignore lint/suspicious/noThenProperty: a thenable is what is tested
      get then() {
        throw new Error("trap");
      },
    }));
    expect(said(outcome)).toBe("Tool execution failed: trap");
  });

  it("has a long message cut, and shortened in records", async () => {
    const outcome = await start(() => {
      throw new Error("x".repeat(4_000_000));
    });
    expect(said(outcome).length).toBeLessThanOrEqual(3_000_000);
    expect(JSON.stringify((outcome as { error?: object }).error).length).toBeLessThan(3_000);
  });
});

describe("a tool that times out", () => {
  it("yields a result at once and is abandoned", async () => {
    let reason: unknown;
    const outcome = start((_, { signal }) => {
      signal.addEventListener("abort", () => {
        reason = signal.reason;
      });
      return never();
    });
    await clock.advance(299_999);
    expect(await isSettled(outcome)).toBe(false);
    await clock.advance(1);
    expect(await outcome).toMatchObject({
      state: "error",
      content: [{ type: "text", text: "Tool execution timeout after 300s" }],
      error: { code: "tool_timeout", message: "Tool execution timeout after 300s" },
    });
    expect(reason).toMatchObject({ name: "TimeoutError" });
  });

  it.each([
    [1_500, "1.5s"],
    [50, "0.05s"],
  ])("after %d ms reports seconds", async (timeoutMs, words) => {
    const outcome = start(never, { timeoutMs });
    await clock.advance(timeoutMs);
    expect(said(await outcome)).toBe(`Tool execution timeout after ${words}`);
  });

  it.each([null, Number.POSITIVE_INFINITY, 2 ** 31])("has no limit with %d", async (timeoutMs) => {
    const outcome = start(never, { timeoutMs });
    await clock.advance(10 ** 12);
    expect(await isSettled(outcome)).toBe(false);
    controller.abort();
    await clock.advance(5_000);
    expect(await outcome).toMatchObject({ state: "interrupted" });
  });

  it("may return or throw later without effect", async () => {
    const { promise, reject } = Promise.withResolvers<never>();
    const outcome = start(() => promise, { timeoutMs: 10 });
    await clock.advance(10);
    expect(await outcome).toMatchObject({ state: "error" });
    reject(new Error("late"));
    await clock.advance(0);
  });
});

describe("a retry", () => {
  const flaky = (
    failures: number,
    error: unknown = new RivuletError("busy", "Busy.", { retryable: true }),
  ) => {
    const attempts: number[] = [];
    const execute: Execute = (_, { attempt }) => {
      attempts.push(attempt);
      if (attempt <= failures) throw error;
      return "done";
    };
    return { attempts, execute };
  };

  it("follows a growing wait, up to maxAttempts", async () => {
    const { attempts, execute } = flaky(2);
    const outcome = start(execute, { maxAttempts: 3 });
    await clock.advance(1_999);
    expect(attempts).toEqual([1]);
    await clock.advance(1);
    expect(attempts).toEqual([1, 2]);
    await clock.advance(4_000);
    expect(await outcome).toMatchObject({ state: "success" });
    expect(attempts).toEqual([1, 2, 3]);
  });

  it("does not follow the last attempt", async () => {
    const { attempts, execute } = flaky(9);
    const outcome = start(execute, { maxAttempts: 2 });
    await clock.advance(2_000);
    expect(await outcome).toMatchObject({ state: "error", error: { code: "busy" } });
    expect(attempts).toEqual([1, 2]);
  });

  it.each([1, 0, -1, Number.NaN])("is not made with %d attempts", async (maxAttempts) => {
    const { attempts, execute } = flaky(9);
    expect(await start(execute, { maxAttempts })).toMatchObject({ state: "error" });
    expect(attempts).toEqual([1]);
  });

  it("is made only for errors that retryOn accepts", async () => {
    const { attempts, execute } = flaky(9, new Error("wrong input"));
    await start(execute, { maxAttempts: 3 });
    expect(attempts).toEqual([1]);
  });

  it("is not made when retryOn throws", async () => {
    const retryOn = () => {
      throw new Error("trap");
    };
    const { attempts, execute } = flaky(9);
    expect(said(await start(execute, { maxAttempts: 3, retryOn }))).toContain("Busy.");
    expect(attempts).toEqual([1]);
  });

  it("is made after a timeout, with a signal of its own", async () => {
    const signals: AbortSignal[] = [];
    const execute: Execute = (_, { signal, attempt }) => {
      signals.push(signal);
      return attempt === 1 ? never() : "done";
    };
    const outcome = start(execute, { maxAttempts: 2, timeoutMs: 100 });
    await clock.advance(2_100);
    expect(said(await outcome)).toBe("done");
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  });

  it("is not made for a result that is not JSON", async () => {
    let attempts = 0;
    await start(
      () => {
        attempts += 1;
        return 1n;
      },
      { maxAttempts: 3, retryOn: () => true },
    );
    expect(attempts).toBe(1);
  });
});

describe("a cancel", () => {
  it("before the start runs nothing", async () => {
    let ran = false;
    controller.abort();
    const outcome = await start(() => {
      ran = true;
    });
    expect(outcome).toMatchObject({ state: "interrupted", error: { code: "interrupted" } });
    expect(said(outcome)).toBe("Tool execution was interrupted before it began.");
    expect(ran).toBe(false);
  });

  it("reaches the tool with its reason, and a tool that stops yields at once", async () => {
    const outcome = start(
      (_, { signal }) =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
      { maxAttempts: 3, retryOn: () => true },
    );
    await clock.advance(0);
    controller.abort(new Error("changed my mind"));
    expect(said(await outcome)).toBe("Tool execution was interrupted and its effect is unknown.");
  });

  it("abandons a tool that ignores it after five seconds", async () => {
    const { promise, reject } = Promise.withResolvers<never>();
    const outcome = start(() => promise);
    await clock.advance(0);
    controller.abort();
    await clock.advance(4_999);
    expect(await isSettled(outcome)).toBe(false);
    await clock.advance(1);
    expect(await outcome).toMatchObject({ state: "interrupted" });
    reject(new Error("late"));
    await clock.advance(0);
  });

  it("keeps the result of a tool that returns at the same time", async () => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const outcome = start(() => promise);
    await clock.advance(0);
    controller.abort();
    resolve("sent");
    expect(await outcome).toMatchObject({ state: "success" });
  });

  it("ends the wait for a retry", async () => {
    const outcome = start(
      () => {
        throw new Error("no");
      },
      { maxAttempts: 3, retryOn: () => true },
    );
    await clock.advance(10);
    controller.abort();
    expect(said(await outcome)).toBe("Tool execution was interrupted before it was tried again.");
  });

  it("remains a cancel when the tool times out in the grace", async () => {
    const outcome = start(never, { timeoutMs: 100 });
    await clock.advance(50);
    controller.abort();
    await clock.advance(50);
    expect(await outcome).toMatchObject({ state: "interrupted" });
  });
});

describe("a suspension", () => {
  it("is not a result, and nothing after it runs", async () => {
    let after = false;
    const outcome = await start((_, { suspend }) => {
      suspend("Which city?");
      after = true;
    });
    expect(outcome).toEqual({ state: "suspended", reason: "Which city?" });
    expect(after).toBe(false);
  });

  it.each<[string, Execute]>([
    [
      "caught and thrown again",
      async (_, { suspend }) => {
        try {
          suspend("why");
        } catch (error) {
          throw new Error("wrapped", { cause: error });
        }
      },
    ],
    [
      "swallowed",
      (_, { suspend }) => {
        try {
          suspend("why");
        } catch {
          return "done";
        }
      },
    ],
    [
      "swallowed, and then another",
      (_, { suspend }) => {
        try {
          suspend("why");
        } catch {
          suspend("why else");
        }
      },
    ],
    ["in a promise", (_, { suspend }) => Promise.resolve().then(() => suspend("why"))],
  ])("applies when it is %s", async (_, execute) => {
    const outcome = await start(execute, { maxAttempts: 3, retryOn: () => true });
    expect(outcome).toEqual({ state: "suspended", reason: "why" });
  });

  it("applies to a tool that then never ends", async () => {
    const outcome = start(
      (_, { suspend }) => {
        try {
          suspend("why");
        } catch {
          return never();
        }
      },
      { timeoutMs: 10 },
    );
    await clock.advance(10);
    expect(await outcome).toEqual({ state: "suspended", reason: "why" });
  });

  it("is an interruption once the task is cancelled", async () => {
    const outcome = start(async (_, { suspend }) => {
      controller.abort();
      suspend("why");
    });
    expect(await outcome).toMatchObject({ state: "interrupted" });
  });

  it("is the outcome of every external tool", async () => {
    expect(await start(undefined)).toEqual({
      state: "suspended",
      reason: "[Awaiting external execution]",
    });
  });
});

it("an error of makeContext is an error of the call", async () => {
  const outcome = await executeTool(
    definition(() => 1),
    {},
    {
      execution: toolExecution,
      signal: controller.signal,
      clock,
      random: Math.random,
      makeContext() {
        throw new Error("no context");
      },
    },
  );
  expect(said(outcome)).toBe("Tool execution failed: no context");
});

describe("executionOf", () => {
  it("prefers the tool, then the toolkit, then the agent, field by field", () => {
    const own = definition(undefined, { execution: { timeoutMs: null } });
    const merged = executionOf(
      own,
      { timeoutMs: 2, jitter: 0 },
      { timeoutMs: 3, jitter: 1, maxAttempts: 5 },
    );
    expect(merged).toMatchObject({
      timeoutMs: null,
      jitter: 0,
      maxAttempts: 5,
      maxBackoffMs: 30_000,
    });
  });

  it("has defaults", () => {
    expect(executionOf(definition())).toEqual({ ...toolExecution, retryOn: isRetryable });
    expect(executionOf(definition()).maxAttempts).toBe(1);
  });

  it("tries an idempotent tool three times by default", () => {
    const idempotent = definition(undefined, { idempotent: true });
    expect(executionOf(idempotent).maxAttempts).toBe(3);
    expect(executionOf(idempotent, {}, { maxAttempts: 1 }).maxAttempts).toBe(1);
    const once = definition(undefined, { idempotent: true, execution: { maxAttempts: 2 } });
    expect(executionOf(once).maxAttempts).toBe(2);
  });
});
