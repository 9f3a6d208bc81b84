import { APICallError, UnsupportedFunctionalityError } from "@ai-sdk/provider";
import { describe, expect, it } from "vitest";
import {
  emptyRequest,
  type FakeReply,
  fakeModel,
  finishV4,
  recordingSink,
  stillDependencies,
} from "../../../test/support/fake-model.ts";
import type { StreamPart } from "./collect.ts";
import { type ModelExecution, runTurn } from "./model.ts";
import { flattenModels, type Model } from "./resolve.ts";
import { TurnInterrupted } from "./turn.ts";

const said: StreamPart[] = [{ type: "text-delta", id: "t", delta: "Half" }];
const good: FakeReply = [{ type: "text-delta", id: "t", delta: "Whole" }, finishV4];

function status(statusCode: number, headers: Record<string, string> = {}): Error {
  return new APICallError({
    message: `status ${statusCode}`,
    url: "https://provider.example",
    requestBodyValues: {},
    statusCode,
    responseHeaders: headers,
  });
}

async function run(models: readonly Model[], execution: ModelExecution = {}) {
  const sink = recordingSink();
  const turn = await runTurn(
    flattenModels(models),
    emptyRequest(),
    sink,
    stillDependencies(execution),
  ).then(
    (value) => ({ value, error: undefined }),
    (error: unknown) => ({ value: undefined, error }),
  );
  return { ...turn, lines: sink.lines };
}

describe("retries a stream that ends too early", () => {
  const endings: Record<string, FakeReply> = {
    "without a finish": said,
    "as interrupted": [
      ...said,
      { ...finishV4, finishReason: { unified: "interrupted", raw: undefined } },
    ],
    "with a finish that has no reason": [
      ...said,
      { ...finishV4, finishReason: { unified: "other", raw: undefined } },
    ],
    "with a finish of V2 that has no reason": [
      ...said,
      {
        type: "finish",
        finishReason: "unknown",
        usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
      },
    ],
    "by a connection that broke": [
      ...said,
      Object.assign(new TypeError("terminated"), { cause: { code: "UND_ERR_SOCKET" } }),
    ],
    "by an error of the provider": [
      ...said,
      { type: "error", error: { type: "overloaded_error" } },
    ],
    "with the model's own failure": [
      ...said,
      { ...finishV4, finishReason: { unified: "error", raw: "MALFORMED" } },
    ],
  };
  for (const [name, reply] of Object.entries(endings)) {
    it(`${name}, and discards its output`, async () => {
      const model = fakeModel("v4", [reply, good]);
      const { value, lines } = await run([model]);
      expect(value?.content).toEqual([{ type: "text", text: "Whole" }]);
      expect(lines).toEqual([
        "open 1 text",
        "delta 1 Half",
        "discard provider_retry",
        "open 2 text",
        "delta 2 Whole",
        "close 2",
      ]);
    });
  }

  it("but not when it breaks after its finish part", async () => {
    const model = fakeModel("v4", [[...good, new TypeError("terminated")]]);
    const { value } = await run([model]);
    expect(value?.content).toEqual([{ type: "text", text: "Whole" }]);
  });

  it("also when it breaks in a second message of the stream", async () => {
    const second: FakeReply = [
      ...good,
      { type: "text-delta", id: "t2", delta: "and more" },
      new TypeError("terminated"),
    ];
    const { value, lines } = await run([fakeModel("v4", [second, good])]);
    expect(value?.content).toEqual([{ type: "text", text: "Whole" }]);
    expect(lines).toContain("discard provider_retry");
  });
});

describe("attempts", () => {
  it("default to three, and discard nothing when nothing was shown", async () => {
    const model = fakeModel("v4", [status(503), status(500), good]);
    const { value, lines } = await run([model]);
    expect(value?.finishReason).toBe("stop");
    expect(lines).toEqual(["open 1 text", "delta 1 Whole", "close 1"]);
    const failing = fakeModel("v4", [status(503), status(503), status(503), good]);
    expect((await run([failing])).error).toMatchObject({ code: "provider_error" });
    expect(failing.requests).toHaveLength(3);
  });

  it("are not repeated for permanent errors", async () => {
    for (const code of [400, 401, 404]) {
      const model = fakeModel("v4", [status(code), good]);
      expect((await run([model])).error).toMatchObject({ retryable: false });
      expect(model.requests).toHaveLength(1);
    }
  });

  it("follow maxAttempts and retryOn", async () => {
    const model = fakeModel("v4", [status(400), good]);
    const { value } = await run([model], { maxAttempts: 2, retryOn: () => true });
    expect(value?.finishReason).toBe("stop");
    const once = fakeModel("v4", [status(503), good]);
    expect((await run([once], { retryOn: () => false })).error).toBeDefined();
    expect(once.requests).toHaveLength(1);
  });
});

describe("between attempts", () => {
  async function waits(replies: (FakeReply | Error)[]): Promise<number> {
    const dependencies = stillDependencies({ initialBackoffMs: 2_000 });
    let done = false;
    runTurn([fakeModel("v4", replies)], emptyRequest(), recordingSink(), dependencies).then(() => {
      done = true;
    });
    await dependencies.clock.advance(0);
    const began = dependencies.clock.now();
    while (!done) await dependencies.clock.advance(100);
    return dependencies.clock.now() - began;
  }

  it("waits longer each time", async () => {
    expect(await waits([status(503), good])).toBe(2_000);
    expect(await waits([status(503), status(503), good])).toBe(6_000);
  });

  it("waits as long as the provider asks", async () => {
    expect(await waits([status(429, { "retry-after": "7" }), good])).toBe(7_000);
    expect(await waits([status(429, { "retry-after-ms": "3500" }), good])).toBe(3_500);
    const date = new Date(1_000 + 9_000).toUTCString();
    expect(await waits([status(429, { "retry-after": date }), good])).toBe(9_000);
    expect(await waits([status(429, { "retry-after": "nonsense" }), good])).toBe(2_000);
  });

  it("does not wait for a provider that asks for minutes", async () => {
    const model = fakeModel("v4", [status(429, { "retry-after": "600" }), good]);
    expect((await run([model])).error).toMatchObject({ code: "rate_limited", retryable: true });
    expect(model.requests).toHaveLength(1);
  });
});

describe("a fallback model", () => {
  it("is used when the attempts are used up, and discards the earlier output", async () => {
    const first = fakeModel("v4", [said, said]);
    const second = fakeModel("v3", [good]);
    const { value, lines } = await run([first, second], { maxAttempts: 2 });
    expect(value?.content).toEqual([{ type: "text", text: "Whole" }]);
    expect(lines.filter((line) => line.startsWith("discard"))).toEqual([
      "discard provider_retry",
      "discard fallback",
    ]);
  });

  it("is used at once after a permanent error", async () => {
    const second = fakeModel("v4", [good, good, good]);
    for (const first of [fakeModel("v4", [status(401)]), fakeModel("v4", [status(404)])]) {
      expect((await run([first, second])).value?.finishReason).toBe("stop");
    }
    // Also when its package is not installed.
    expect((await run(["cohere:command", [[second]]])).value?.finishReason).toBe("stop");
  });

  describe("is used when the first model rejects the request", () => {
    const refusals = {
      "with 400": [status(400), "invalid_request"],
      "for what it cannot do": [
        new UnsupportedFunctionalityError({ functionality: "audio" }),
        "invalid_request",
      ],
      "for its length": [
        new Error("prompt is too long: 300000 tokens > 200000 maximum"),
        "context_overflow",
      ],
    } as const;
    it.each(Object.entries(refusals))("%s", async (_, [error, code]) => {
      const first = fakeModel("v4", [error]);
      const second = fakeModel("v4", [good]);
      expect((await run([first, second])).value?.content).toEqual([
        { type: "text", text: "Whole" },
      ]);
      expect(first.requests).toHaveLength(1);
      // The rejection is the error when every other model fails.
      const others = [status(404), status(401)].map((failure) => fakeModel("v4", [failure]));
      const { error: thrown } = await run([fakeModel("v4", [error]), ...others]);
      expect(thrown).toMatchObject({ code, retryable: false });
      expect(others.map(({ requests }) => requests.length)).toEqual([1, 1]);
    });
  });

  it("is not used after a cancel", async () => {
    const controller = new AbortController();
    const first = fakeModel("v4", [[...said, () => controller.abort(), status(400)]]);
    const second = fakeModel("v4", [good]);
    const request = emptyRequest({ signal: controller.signal });
    const turn = runTurn([first, second], request, recordingSink(), stillDependencies({}));
    await expect(turn).rejects.toBeInstanceOf(TurnInterrupted);
    expect(second.requests).toHaveLength(0);
  });

  it("provides the error when all models fail", async () => {
    const models = [fakeModel("v4", [status(401)]), fakeModel("v4", [status(404)])];
    expect((await run(models)).error).toMatchObject({ code: "model_not_found" });
  });
});
