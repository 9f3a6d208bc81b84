import { getEventListeners } from "node:events";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { RivuletError } from "../../protocol/error.ts";
import { textOf } from "../../protocol/message.ts";
import { ManualClock } from "../../testing/clock.ts";
import type { Execution } from "../execution.ts";
import { isRetryable, toolExecution } from "../execution.ts";
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

function start(execute: Execute | undefined, execution: Execution = {}, maxCharacters?: number) {
  return executeTool(
    definition(execute),
    { n: 1 },
    {
      execution: { ...toolExecution, jitter: 0, ...execution },
      signal: controller.signal,
      clock,
      random: () => 0.5,
      ...(maxCharacters !== undefined && { maxCharacters }),
      makeContext: (attempt, signal, suspend) =>
        ({ attempt, signal, suspend }) as unknown as ToolContext,
    },
  );
}
const never = () => new Promise<never>(() => {});
const said = (outcome: ToolOutcome) =>
  outcome.state === "suspended" ? outcome.reason : textOf(outcome.content);
/** Whether it has an outcome once everything that can move has moved. */
async function isSettled(outcome: Promise<ToolOutcome>): Promise<boolean> {
  let settled = false;
  outcome.then(() => {
    settled = true;
  });
  await clock.advance(0);
  return settled;
}

describe("a tool that ends", () => {
  it("gives its result, for both audiences if it says so", async () => {
    const content = [{ type: "text", text: '{"n":1}' }];
    expect(await start((input) => input)).toEqual({ state: "success", content });
    expect(await start((input) => ({ content: input, display: "one" }))).toEqual({
      state: "success",
      content,
      display: [{ type: "text", text: "one" }],
    });
  });

  it("may return anything that can be awaited", async () => {
    expect(said(await start(async () => "a"))).toBe("a");
    // biome-ignore lint/suspicious/noThenProperty: a thenable is what is tested
    const thenable = { then: (resolve: (text: string) => void) => resolve("b") };
    expect(said(await start(() => thenable))).toBe("b");
  });

  it("with nothing gives a word", async () => {
    expect(said(await start(() => undefined))).toBe("(no output)");
  });

  it("with something that is not JSON gives an error", async () => {
    const loop: { self?: object } = {};
    loop.self = loop;
    for (const value of [loop, 1n, new Map([[1, 2]])]) {
      const outcome = await start(() => value);
      expect(outcome).toMatchObject({ state: "error", error: { code: "invalid_result" } });
      expect(said(outcome)).toMatch(/^Tool execution failed: its result is not JSON/);
    }
  });

  it("with too much gives the head and the tail", async () => {
    expect(await start(() => "x".repeat(3_000_001))).toMatchObject({
      state: "success",
      metadata: { cutFrom: 3_000_001 },
    });
    expect(said(await start(() => "x".repeat(300), {}, 100))).toHaveLength(100);
  });
});

describe("a tool that fails", () => {
  it("is told in words", async () => {
    const outcome = await start(() => {
      throw new Error("disk full");
    });
    expect(outcome).toEqual({
      state: "error",
      content: [{ type: "text", text: "Tool execution failed: disk full" }],
      error: { code: "tool_failed", message: "disk full", retryable: false },
    });
  });

  it("keeps the code and the hint of our own errors", async () => {
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

  it("may return something whose then throws", async () => {
    const outcome = await start(() => ({
      // biome-ignore lint/suspicious/noThenProperty: a thenable is what is tested
      get then() {
        throw new Error("trap");
      },
    }));
    expect(said(outcome)).toBe("Tool execution failed: trap");
  });

  it("in very many words is cut, and short in records", async () => {
    const outcome = await start(() => {
      throw new Error("x".repeat(4_000_000));
    });
    expect(said(outcome).length).toBeLessThanOrEqual(3_000_000);
    expect(JSON.stringify((outcome as { error?: object }).error).length).toBeLessThan(3_000);
  });
});

describe("a tool that takes too long", () => {
  it("is answered at once and left to itself", async () => {
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
  ])("of %d ms is named in seconds", async (timeoutMs, words) => {
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

  it("may return or throw later; nobody hears it", async () => {
    const { promise, reject } = Promise.withResolvers<never>();
    const outcome = start(() => promise, { timeoutMs: 10 });
    await clock.advance(10);
    expect(await outcome).toMatchObject({ state: "error" });
    reject(new Error("late"));
    await clock.advance(0);
  });
});

describe("another attempt", () => {
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

  it("is made after a growing wait, up to the number that is set", async () => {
    const { attempts, execute } = flaky(2);
    const outcome = start(execute, { maxAttempts: 3 });
    await clock.advance(1_999);
    expect(attempts).toEqual([1]);
    await clock.advance(1);
    expect(attempts).toEqual([1, 2]);
    await clock.advance(4_000);
    expect(await outcome).toMatchObject({ state: "success", metadata: { attempts: 3 } });
  });

  it("is not made after the last", async () => {
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

  it("is made only for errors that retryOn takes", async () => {
    const { attempts, execute } = flaky(9, new Error("wrong input"));
    await start(execute, { maxAttempts: 3 });
    expect(attempts).toEqual([1]);
  });

  it("is not made when retryOn itself fails", async () => {
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
  it("before the start starts nothing", async () => {
    let ran = false;
    controller.abort();
    const outcome = await start(() => {
      ran = true;
    });
    expect(outcome).toMatchObject({ state: "interrupted", error: { code: "interrupted" } });
    expect(said(outcome)).toBe("Tool execution was interrupted before it began.");
    expect(ran).toBe(false);
  });

  it("reaches the tool with its reason, and one that stops is answered at once", async () => {
    const outcome = start(
      (_, { signal }) =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
      { maxAttempts: 3, retryOn: () => true },
    );
    await clock.advance(0);
    controller.abort(new Error("changed my mind"));
    expect(said(await outcome)).toBe("Tool execution was interrupted and its effect is unknown.");
  });

  it("leaves a tool that ignores it after five seconds", async () => {
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

  it("keeps the result of a tool that was just done", async () => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const outcome = start(() => promise);
    await clock.advance(0);
    controller.abort();
    resolve("sent");
    expect(await outcome).toMatchObject({ state: "success" });
  });

  it("ends the wait for another attempt", async () => {
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

  it("in the grace of which the time runs out is still a cancel", async () => {
    const outcome = start(never, { timeoutMs: 100 });
    await clock.advance(50);
    controller.abort();
    await clock.advance(50);
    expect(await outcome).toMatchObject({ state: "interrupted" });
  });
});

describe("a suspension", () => {
  it("is no end, and nothing after it runs", async () => {
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
  ])("counts when it is %s", async (_, execute) => {
    const outcome = await start(execute, { maxAttempts: 3, retryOn: () => true });
    expect(outcome).toEqual({ state: "suspended", reason: "why" });
  });

  it("counts for a tool that then never ends", async () => {
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

  it("is what an external tool always does", async () => {
    expect(await start(undefined)).toEqual({
      state: "suspended",
      reason: "[Awaiting external execution]",
    });
  });
});

it("a context that cannot be made is an error of the call", async () => {
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

describe("settings", () => {
  it("the tool's over the toolkit's over the agent's, field by field", () => {
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

  it("stand for themselves when nothing is said", () => {
    expect(executionOf(definition())).toEqual({ ...toolExecution, retryOn: isRetryable });
    expect(executionOf(definition()).maxAttempts).toBe(1);
  });

  it("let an idempotent tool be tried three times, unless it is set", () => {
    const idempotent = definition(undefined, { idempotent: true });
    expect(executionOf(idempotent).maxAttempts).toBe(3);
    expect(executionOf(idempotent, {}, { maxAttempts: 1 }).maxAttempts).toBe(1);
    const once = definition(undefined, { idempotent: true, execution: { maxAttempts: 2 } });
    expect(executionOf(once).maxAttempts).toBe(2);
  });
});
