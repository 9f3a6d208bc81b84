import { describe, expect, it } from "vitest";
import {
  emptyRequest,
  type FakeReply,
  fakeModel,
  finishV4,
  recordingSink,
  stillDependencies,
} from "../../../test/support/fake-model.ts";
import { RivuletError } from "../../base/error.ts";
import type { StreamPart } from "./collect.ts";
import { runTurn } from "./model.ts";
import { TurnInterrupted } from "./turn.ts";

const begun: StreamPart[] = [
  { type: "reasoning-delta", id: "r", delta: "Hm", providerMetadata: { a: { signature: "s" } } },
  { type: "text-start", id: "t" },
  { type: "text-delta", id: "t", delta: "Half a" },
  { type: "tool-call", toolCallId: "p1", toolName: "whole", input: "{}" },
  { type: "tool-input-start", id: "p2", toolName: "half" },
  { type: "tool-input-delta", id: "p2", delta: "{" },
];
const partial = [
  { type: "thinking", text: "Hm" },
  { type: "text", text: "Half a" },
];

/** A signal that counts its listeners. */
function countedSignal() {
  const controller = new AbortController();
  const { signal } = controller;
  let listeners = 0;
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = (...args: Parameters<typeof add>) => {
    listeners += 1;
    add(...args);
  };
  signal.removeEventListener = (...args: Parameters<typeof remove>) => {
    listeners -= 1;
    remove(...args);
  };
  return {
    signal,
    abort: (reason: unknown) => controller.abort(reason),
    listeners: () => listeners,
  };
}

async function interrupted(reply: FakeReply | "stuck request", reason: unknown = "enough") {
  const counted = countedSignal();
  const dependencies = stillDependencies();
  const sink = recordingSink();
  const model = fakeModel("v4", [reply === "stuck request" ? [] : reply]);
  if (reply === "stuck request") model.doStream = () => new Promise<never>(() => {});
  const spare = fakeModel("v4", [[finishV4]]);
  const request = emptyRequest({ signal: counted.signal });
  const turn = runTurn([model, spare], request, sink, dependencies).then(
    () => undefined,
    (error: unknown) => error,
  );
  await dependencies.clock.advance(10);
  expect(counted.listeners()).toBeGreaterThan(0);
  counted.abort(reason);
  const error = await turn;
  expect(counted.listeners()).toBe(0);
  expect(dependencies.clock.pending).toBe(0);
  expect(spare.requests).toHaveLength(0);
  return { error, sink, model };
}

describe("an abort", () => {
  it("ends a hanging read and keeps the shown text without calls", async () => {
    const { error, model, sink } = await interrupted([...begun, "hang"]);
    expect(error).toBeInstanceOf(TurnInterrupted);
    expect(error).toMatchObject({ cause: "enough", partial, usage: undefined });
    expect(model.requests[0]?.abortSignal?.reason).toBe("enough");
    expect(model.cancelled).toBe(1);
    expect(sink.lines.some((line) => line.startsWith("discard"))).toBe(false);
  });

  it("reports the usage after the model has finished", async () => {
    const { error } = await interrupted([...begun, finishV4, "hang"]);
    expect(error).toMatchObject({ partial, usage: { total_tokens: 17 } });
  });

  it("ends a request that hangs", async () => {
    const { error } = await interrupted("stuck request");
    expect(error).toMatchObject({ cause: "enough", partial: [] });
  });

  it("is not a model failure when its reason is a RivuletError", async () => {
    const { error, sink } = await interrupted(
      [...begun, "hang"],
      new RivuletError("cancelled", "Cancelled."),
    );
    expect(error).toBeInstanceOf(TurnInterrupted);
    expect(sink.lines.some((line) => line.startsWith("discard"))).toBe(false);
  });

  it("takes effect between two chunks of a model that never pauses", async () => {
    const controller = new AbortController();
    const sink = recordingSink();
    const endless: FakeReply = [
      ...begun,
      () => controller.abort("now"),
      { type: "text-delta", id: "t", delta: " never shown" },
      finishV4,
    ];
    const turn = runTurn(
      [fakeModel("v4", [endless])],
      emptyRequest({ signal: controller.signal }),
      sink,
      stillDependencies(),
    );
    await expect(turn).rejects.toMatchObject({ cause: "now", partial });
    expect(sink.lines.join()).not.toContain("never shown");
  });

  it("ends a stream that cannot be cancelled", async () => {
    const controller = new AbortController();
    const dependencies = stillDependencies();
    const sink = recordingSink();
    const next = Promise.withResolvers<{ done: false; value: StreamPart }>();
    const reader = { read: () => next.promise, cancel: async () => {}, releaseLock() {} };
    const model = fakeModel("v4", []);
    model.doStream = async () => ({ stream: { getReader: () => reader } }) as never;
    const request = emptyRequest({ signal: controller.signal });
    const turn = runTurn([model], request, sink, dependencies);
    await dependencies.clock.advance(10);
    controller.abort("enough");
    await expect(turn).rejects.toMatchObject({ cause: "enough", partial: [] });
    next.resolve({ done: false, value: { type: "text-delta", id: "t", delta: "late" } });
    await dependencies.clock.advance(10);
    expect(sink.lines).toEqual([]);
  });

  it("before the turn calls no model", async () => {
    const model = fakeModel("v4", [[finishV4]]);
    const turn = runTurn(
      [model],
      emptyRequest({ signal: AbortSignal.abort("before") }),
      recordingSink(),
      stillDependencies(),
    );
    await expect(turn).rejects.toMatchObject({ name: "TurnInterrupted", cause: "before" });
    expect(model.requests).toHaveLength(0);
  });

  it("during a retry wait keeps the shown text", async () => {
    const controller = new AbortController();
    const dependencies = stillDependencies({ initialBackoffMs: 1_000 });
    const sink = recordingSink();
    const model = fakeModel("v4", [begun, [finishV4]]);
    const turn = runTurn(
      [model],
      emptyRequest({ signal: controller.signal }),
      sink,
      dependencies,
    ).catch((error: unknown) => error);
    await dependencies.clock.advance(10);
    controller.abort("enough");
    expect(await turn).toMatchObject({ cause: "enough", partial });
    expect(model.requests).toHaveLength(1);
    expect(sink.lines.some((line) => line.startsWith("discard"))).toBe(false);
    expect(dependencies.clock.pending).toBe(0);
  });

  it("cancels the stream of a request that is answered too late", async () => {
    const answered = Promise.withResolvers<{ stream: ReadableStream<never> }>();
    let cancelled = false;
    const model = fakeModel("v4", []);
    model.doStream = () => answered.promise as never;
    const controller = new AbortController();
    const dependencies = stillDependencies();
    const turn = runTurn(
      [model],
      emptyRequest({ signal: controller.signal }),
      recordingSink(),
      dependencies,
    );
    await dependencies.clock.advance(10);
    controller.abort();
    await expect(turn).rejects.toBeInstanceOf(TurnInterrupted);
    answered.resolve({
      stream: new ReadableStream<never>({
        cancel() {
          cancelled = true;
        },
      }),
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(cancelled).toBe(true);
  });
});

describe("stallMs", () => {
  it("fails a reply that is silent for longer, also before the first chunk", async () => {
    for (const reply of [["hang"], [...begun, "hang"]] as FakeReply[]) {
      const dependencies = stillDependencies({ maxAttempts: 1 });
      const model = fakeModel("v4", [reply]);
      let error: unknown;
      runTurn([model], emptyRequest(), recordingSink(), dependencies).catch((reason) => {
        error = reason;
      });
      await dependencies.clock.advance(59_999);
      expect(error).toBeUndefined();
      await dependencies.clock.advance(1);
      expect(error).toMatchObject({ code: "stalled", retryable: true });
      expect(model.cancelled).toBe(1);
      expect(dependencies.clock.pending).toBe(0);
    }
  });

  it("counts from the last chunk", async () => {
    const dependencies = stillDependencies({ stallMs: 100, maxAttempts: 1 });
    const { clock } = dependencies;
    const pause = () => clock.sleep(90);
    const slow: FakeReply = [...begun, pause, { type: "ping" }, pause, finishV4];
    const turn = runTurn([fakeModel("v4", [slow])], emptyRequest(), recordingSink(), dependencies);
    for (let chunk = 0; chunk < 3; chunk++) {
      // Separate chunks arrive in separate turns of the event loop.
      await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(90);
    }
    expect((await turn).finishReason).toBe("stop");
  });

  it("null allows any silence and starts no timer", async () => {
    const dependencies = stillDependencies({ stallMs: null });
    const { clock } = dependencies;
    const slow: FakeReply = [() => clock.sleep(1_000_000_000), finishV4];
    const turn = runTurn([fakeModel("v4", [slow])], emptyRequest(), recordingSink(), dependencies);
    await clock.advance(10);
    expect(clock.pending).toBe(1);
    await clock.advance(1_000_000_000);
    expect((await turn).finishReason).toBe("stop");
  });

  it("does not apply after the model has finished", async () => {
    const dependencies = stillDependencies({ stallMs: 100 });
    const reply: FakeReply = [{ type: "text-delta", id: "t", delta: "Hi" }, finishV4, "hang"];
    const turn = runTurn([fakeModel("v4", [reply])], emptyRequest(), recordingSink(), dependencies);
    await dependencies.clock.advance(100);
    expect((await turn).content).toEqual([{ type: "text", text: "Hi" }]);
  });
});

it("fails a reply that takes longer than timeoutMs, however many chunks arrive", async () => {
  const dependencies = stillDependencies({ timeoutMs: 1_000, maxAttempts: 1 });
  const { clock } = dependencies;
  const lively: FakeReply = Array.from({ length: 100 }, () => [
    () => clock.sleep(90),
    { type: "text-delta", id: "t", delta: "." } as const,
  ]).flat();
  let error: unknown;
  runTurn([fakeModel("v4", [lively])], emptyRequest(), recordingSink(), dependencies).catch(
    (reason) => {
      error = reason;
    },
  );
  await clock.advance(999);
  expect(error).toBeUndefined();
  await clock.advance(1);
  expect(error).toMatchObject({ code: "timeout", retryable: true });
});
