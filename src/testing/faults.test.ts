import { getEventListeners } from "node:events";
import type { LanguageModelV4, LanguageModelV4Prompt } from "@ai-sdk/provider";
import { describe, expect, it } from "vitest";
import type { FetchFaults, ModelFaults } from "./faults.ts";
import { faultyFetch, withFaults } from "./faults.ts";
import { scriptedModel } from "./scripted-model.ts";

const prompt: LanguageModelV4Prompt = [{ role: "user", content: [{ type: "text", text: "hi" }] }];
const listeners = (signal: AbortSignal) => getEventListeners(signal, "abort").length;

function inChunks(chunks: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  const rest = chunks.values();
  return new ReadableStream({
    pull(controller) {
      const { done, value } = rest.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
}

describe("withFaults", () => {
  const faulty = (faults: ModelFaults) =>
    withFaults(
      scriptedModel(() => ({ text: ["a", "b", "c"] })),
      faults,
    );
  /** The received parts and the outcome. */
  async function play(model: LanguageModelV4, abortSignal?: AbortSignal) {
    const seen: string[] = [];
    try {
      const { stream } = await model.doStream({ prompt, ...(abortSignal && { abortSignal }) });
      for await (const part of stream)
        seen.push(part.type === "text-delta" ? part.delta : part.type);
      return { seen, error: undefined };
    } catch (error) {
      return { seen, error };
    }
  }
  const whole = ["stream-start", "text-start", "a", "b", "c", "text-end", "finish"];

  it("cuts after any number of parts, with an error or a normal end", async () => {
    for (let n = 0; n <= whole.length; n++) {
      const cut = await play(faulty({ cutAfterChunks: n }));
      expect(cut.seen).toEqual(whole.slice(0, n));
      expect(cut.error).toMatchObject({ cause: { code: "ECONNRESET" } });
      const ended = await play(faulty({ cutAfterChunks: n, cutWith: "end" }));
      expect(ended).toEqual({ seen: whole.slice(0, n), error: undefined });
    }
    const error = new Error("mine");
    expect((await play(faulty({ cutAfterChunks: 1, error }))).error).toBe(error);
    expect((await play(faulty({ cutAfterChunks: 99 }))).seen).toEqual(whole);
  });

  it("stalls until the abort and removes its listener when the reader stops", async () => {
    const abort = new AbortController();
    const playing = play(faulty({ stallAfterChunks: 3 }), abort.signal);
    await new Promise(setImmediate);
    abort.abort("enough");
    expect(await playing).toEqual({ seen: whole.slice(0, 3), error: "enough" });

    const { signal } = new AbortController();
    const { stream } = await faulty({ stallAfterChunks: 1 }).doStream({
      prompt,
      abortSignal: signal,
    });
    const reader = stream.getReader();
    await reader.read();
    const stalled = reader.read();
    await new Promise(setImmediate);
    await reader.cancel();
    expect((await stalled).done).toBe(true);
    expect(listeners(signal)).toBe(0);
  });

  it("applies to the given calls only", async () => {
    const model = faulty({ failCalls: [0], onCalls: [1], cutAfterChunks: 1 });
    expect((await play(model)).seen).toEqual([]);
    expect((await play(model)).seen).toEqual(["stream-start"]);
    expect(await play(model)).toEqual({ seen: whole, error: undefined });
  });

  it("applies to a call that does not stream", async () => {
    const generate = (faults: ModelFaults, signal?: AbortSignal) =>
      faulty(faults).doGenerate({ prompt, ...(signal && { abortSignal: signal }) });
    await expect(generate({ failCalls: [0] })).rejects.toThrow("terminated");
    await expect(generate({ cutAfterChunks: 1 })).rejects.toThrow("terminated");
    const abort = new AbortController();
    const stalled = generate({ stallAfterChunks: 1 }, abort.signal);
    await new Promise(setImmediate);
    abort.abort("enough");
    await expect(stalled).rejects.toBe("enough");
    expect((await generate({ onCalls: [], cutAfterChunks: 0 })).content).toHaveLength(1);
  });
});

describe("faultyFetch", () => {
  const chunks = ["data: 1\n\n", "data: 22\n\n"];
  const whole = chunks.join("");
  const source: typeof fetch = async () =>
    new Response(inChunks(chunks.map((chunk) => new TextEncoder().encode(chunk))), {
      status: 201,
      headers: { "content-type": "text/event-stream" },
    });
  async function read(fetch: typeof globalThis.fetch, signal?: AbortSignal) {
    let text = "";
    try {
      const response = await fetch("http://x.example/", signal ? { signal } : {});
      const decoder = new TextDecoder();
      for await (const chunk of response.body ?? []) text += decoder.decode(chunk);
      return { text, status: response.status, error: undefined };
    } catch (error) {
      return { text, error };
    }
  }
  const faulty = (faults: FetchFaults) => faultyFetch(source, faults);

  it("cuts after any number of bytes, with an error or a normal end", async () => {
    for (let n = 0; n <= whole.length; n++) {
      const cut = await read(faulty({ cutAfterBytes: n }));
      expect(cut.text).toBe(whole.slice(0, n));
      expect(cut.error).toMatchObject({ message: "terminated", cause: { code: "ECONNRESET" } });
      const ended = await read(faulty({ cutAfterBytes: n, cutWith: "end" }));
      expect(ended).toEqual({ text: whole.slice(0, n), status: 201, error: undefined });
    }
  });

  it("stalls until the abort", async () => {
    const abort = new AbortController();
    const reading = read(faulty({ stallAfterBytes: 5 }), abort.signal);
    await new Promise(setImmediate);
    abort.abort("enough");
    expect(await reading).toEqual({ text: whole.slice(0, 5), error: "enough" });
    expect(await read(faulty({}), abort.signal)).toEqual({ text: "", error: "enough" });
  });

  it("replaces one byte at any offset", async () => {
    for (let n = 0; n < whole.length; n++) {
      const { text } = await read(faulty({ malformAtByte: n }));
      expect(text).toBe(`${whole.slice(0, n)}\0${whole.slice(n + 1)}`);
    }
    expect((await read(faulty({ malformAtByte: 999 }))).text).toBe(whole);
  });

  it("responds with a status, fails, and applies to the given calls only", async () => {
    const fetch = faulty({
      failCalls: [0],
      onCalls: [1],
      status: 429,
      headers: { "retry-after": "1" },
    });
    expect((await read(fetch)).error).toMatchObject({ message: "fetch failed" });
    const refused = await fetch("http://x.example/");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(await refused.json()).toMatchObject({ error: { type: "injected_fault" } });
    expect(await read(fetch)).toEqual({ text: whole, status: 201, error: undefined });
  });
});
