import { describe, expect, it } from "vitest";
import {
  emptyRequest,
  type FakeReply,
  fakeModel,
  finishV4,
  recordingSink,
  stillDependencies,
} from "../../../test/support/fake-model.ts";
import type { Message } from "../../contract/message.ts";
import type { StreamPart } from "./collect.ts";
import { runTurn } from "./model.ts";
import type { LanguageModel } from "./resolve.ts";

const text = (id: string, ...deltas: string[]): StreamPart[] => [
  { type: "text-start", id },
  ...deltas.map((delta): StreamPart => ({ type: "text-delta", id, delta })),
  { type: "text-end", id },
];
const call = (toolCallId: string, input: string): StreamPart => ({
  type: "tool-call",
  toolCallId,
  toolName: "weather",
  input,
});
const finish = (unified: "length" | "tool-calls" | "content-filter" | "other"): StreamPart => ({
  ...finishV4,
  finishReason: { unified, raw: unified },
});

async function run(reply: FakeReply, version: LanguageModel["specificationVersion"] = "v4") {
  const sink = recordingSink();
  const model = fakeModel(version, [reply]);
  const turn = await runTurn([model], emptyRequest(), sink, stillDependencies({ maxAttempts: 1 }));
  return { turn, lines: sink.lines, model };
}

describe("runTurn", () => {
  it("returns text, thinking and calls in the order in which they were opened", async () => {
    const { turn, lines } = await run([
      { type: "stream-start", warnings: [] },
      { type: "reasoning-start", id: "0" },
      { type: "reasoning-delta", id: "0", delta: "Hm." },
      { type: "reasoning-end", id: "0" },
      ...text("0", "Let me ", "look."),
      { type: "tool-input-start", id: "p1", toolName: "weather" },
      { type: "tool-input-delta", id: "p1", delta: '{"city":' },
      { type: "tool-input-delta", id: "p1", delta: '"Paris"}' },
      { type: "tool-input-end", id: "p1" },
      call("p1", '{"city":"Paris"}'),
      finish("tool-calls"),
    ]);
    expect(lines).toEqual([
      "open 1 thinking",
      "delta 1 Hm.",
      "close 1",
      "open 2 text",
      "delta 2 Let me ",
      "delta 2 look.",
      "close 2",
      "open 3 call weather",
      'delta 3 {"city":',
      'delta 3 "Paris"}',
      "close 3",
    ]);
    expect(turn.content).toEqual([
      { type: "thinking", text: "Hm." },
      { type: "text", text: "Let me look." },
      {
        type: "tool_use",
        id: expect.stringMatching(/^call_/),
        name: "weather",
        input: { city: "Paris" },
        providerCallId: "p1",
      },
    ]);
    expect(turn.finishReason).toBe("tool-calls");
    expect(turn.model).toEqual({ provider: "fake.chat", modelId: "m" });
    expect(turn.usage).toEqual({
      input_tokens: 10,
      output_tokens: 7,
      total_tokens: 17,
      cached_input_tokens: 4,
      reasoning_tokens: 2,
    });
  });

  it("separates overlapping blocks, and text and thinking with the same id", async () => {
    const { turn, lines } = await run([
      { type: "text-start", id: "0" },
      { type: "reasoning-start", id: "0" },
      { type: "text-delta", id: "0", delta: "a" },
      { type: "reasoning-delta", id: "0", delta: "x" },
      { type: "tool-input-start", id: "p1", toolName: "one" },
      { type: "tool-input-start", id: "p2", toolName: "two" },
      { type: "tool-input-delta", id: "p2", delta: "[2" },
      { type: "tool-input-delta", id: "p1", delta: "[1" },
      { type: "text-delta", id: "0", delta: "b" },
      { type: "text-end", id: "0" },
      { type: "tool-input-delta", id: "p1", delta: "]" },
      { type: "tool-input-delta", id: "p2", delta: "]" },
      { type: "tool-call", toolCallId: "p2", toolName: "two", input: "[2]" },
      { type: "tool-call", toolCallId: "p1", toolName: "one", input: "[1]" },
      { type: "reasoning-end", id: "0" },
      finish("tool-calls"),
    ]);
    expect(turn.content).toMatchObject([
      { type: "text", text: "ab" },
      { type: "thinking", text: "x" },
      { type: "tool_use", name: "one", input: [1] },
      { type: "tool_use", name: "two", input: [2] },
    ]);
    expect(lines.filter((line) => line.startsWith("close"))).toEqual([
      "close 1",
      "close 4",
      "close 3",
      "close 2",
    ]);
  });

  it("reads the streams of V2 and V3 models", async () => {
    const v2 = await run(
      [
        ...text("t", "Hi"),
        { type: "file", mediaType: "image/png", data: new Uint8Array([1, 2, 3]) },
        {
          type: "finish",
          finishReason: "stop",
          usage: {
            inputTokens: 3,
            outputTokens: 2,
            totalTokens: 9,
            cachedInputTokens: 1,
            reasoningTokens: undefined,
          },
        },
      ],
      "v2",
    );
    expect(v2.turn).toMatchObject({
      content: [
        { type: "text", text: "Hi" },
        { type: "image", source: { data: "AQID", mimeType: "image/png" } },
      ],
      finishReason: "stop",
      usage: { input_tokens: 3, output_tokens: 2, total_tokens: 9, cached_input_tokens: 1 },
    });
    expect(v2.turn.usage).not.toHaveProperty("reasoning_tokens");
    expect(v2.lines).toContain("block image");

    const v3 = await run([...text("t", "Hi"), finish("length")], "v3");
    expect(v3.turn).toMatchObject({ finishReason: "length", usage: { total_tokens: 17 } });
  });

  it("reads files and sources of every kind", async () => {
    const { turn, lines } = await run([
      { type: "source", sourceType: "url", id: "s1", url: "https://a.example", title: "A" },
      {
        type: "source",
        sourceType: "document",
        id: "s2",
        mediaType: "application/pdf",
        title: "B",
      },
      { type: "file", mediaType: "audio/mp3", data: { type: "data", data: "AAAA" } },
      {
        type: "file",
        mediaType: "application/pdf",
        data: { type: "url", url: new URL("https://a.example/b.pdf") },
      },
      finishV4,
    ]);
    expect(turn.sources).toEqual([
      { id: "s1", url: "https://a.example", title: "A" },
      { id: "s2", title: "B", mediaType: "application/pdf" },
    ]);
    expect(turn.content).toEqual([
      { type: "audio", source: { data: "AAAA", mimeType: "audio/mp3" } },
      { type: "file", source: { url: "https://a.example/b.pdf", mimeType: "application/pdf" } },
    ]);
    expect(lines).toEqual(["source s1", "source s2", "block audio", "block file"]);
  });

  it("opens, fills and closes a call that arrives in one part", async () => {
    const { turn, lines } = await run([call("p1", '{"a":1}'), finish("tool-calls")]);
    expect(lines).toEqual(["open 1 call weather", 'delta 1 {"a":1}', "close 1"]);
    expect(turn.content).toMatchObject([{ type: "tool_use", input: { a: 1 } }]);
  });

  it("prefers the final arguments to the deltas", async () => {
    const { turn, lines } = await run([
      { type: "tool-input-start", id: "p1", toolName: "weather" },
      { type: "tool-input-delta", id: "p1", delta: '{"a":1' },
      call("p1", '{"a":2}'),
      { type: "tool-input-delta", id: "p1", delta: "late" },
      finish("tool-calls"),
    ]);
    expect(lines).toEqual(["open 1 call weather", 'delta 1 {"a":1', "close 1"]);
    expect(turn.content).toMatchObject([{ input: { a: 2 } }]);
  });

  it("does not stream deltas that are not JSON", async () => {
    const { turn, lines } = await run([
      { type: "tool-input-start", id: "p1", toolName: "weather", inputEncoding: "text" },
      { type: "tool-input-delta", id: "p1", delta: "free text" },
      call("p1", '"free text"'),
      finish("tool-calls"),
    ]);
    expect(lines).toEqual(["open 1 call weather", 'delta 1 "free text"', "close 1"]);
    expect(turn.content).toMatchObject([{ input: "free text" }]);
  });

  it("keeps arguments that do not parse as text, and reads missing arguments as none", async () => {
    const { turn } = await run([call("p1", '{"a":'), call("p2", ""), finish("tool-calls")]);
    expect(turn.content).toMatchObject([{ input: {}, raw: '{"a":' }, { input: {} }]);
    expect(turn.content[1]).not.toHaveProperty("raw");
  });

  it("omits an incomplete call", async () => {
    const { turn, lines } = await run([
      ...text("t", "Hi"),
      { type: "tool-input-start", id: "p1", toolName: "weather" },
      { type: "tool-input-delta", id: "p1", delta: "{}" },
      { type: "tool-input-end", id: "p1" },
      finishV4,
    ]);
    expect(turn.content).toEqual([{ type: "text", text: "Hi" }]);
    expect(lines).not.toContain("close 2");
  });

  it("omits a call that the token limit cut, and keeps complete calls", async () => {
    const { turn } = await run([
      call("p1", '{"a":1}'),
      call("p2", '{"a":'),
      call("p3", ""),
      finish("length"),
    ]);
    expect(turn.content).toMatchObject([{ providerCallId: "p1" }]);
    expect(turn.content).toHaveLength(1);
  });

  it("distinguishes calls with duplicate or missing provider ids", async () => {
    const { turn } = await run([
      call("p1", "{}"),
      call("p1", "[]"),
      call("", "1"),
      finish("tool-calls"),
    ]);
    expect(turn.content).toMatchObject([
      { input: {}, providerCallId: "p1" },
      { input: [] },
      { input: 1 },
    ]);
    expect(turn.content[1]).not.toHaveProperty("providerCallId");
    expect(turn.content[2]).not.toHaveProperty("providerCallId");
    expect(new Set(turn.content.map((block) => (block as { id: string }).id)).size).toBe(3);
  });

  it("ignores unknown parts and tools that the provider runs", async () => {
    const { turn, lines } = await run([
      { type: "tool-input-start", id: "w", toolName: "web_search", providerExecuted: true },
      { type: "tool-input-delta", id: "w", delta: "{}" },
      { type: "tool-input-end", id: "w" },
      {
        type: "tool-call",
        toolCallId: "w",
        toolName: "web_search",
        input: "{}",
        providerExecuted: true,
      },
      { type: "tool-result", toolCallId: "w", toolName: "web_search", result: {} },
      { type: "ping" },
      { type: "raw", rawValue: 1 },
      { type: "from-the-future" } as unknown as StreamPart,
      { type: "text-end", id: "never begun" },
      ...text("t", "Hi"),
      finishV4,
    ]);
    expect(turn.content).toEqual([{ type: "text", text: "Hi" }]);
    expect(lines).toEqual(["open 1 text", "delta 1 Hi", "close 1"]);
  });

  it("shows no empty text, and closes parts that the provider left open", async () => {
    const { turn, lines } = await run([
      ...text("empty"),
      ...text("empty too", ""),
      { type: "text-delta", id: "never begun", delta: "Hi" },
      finishV4,
    ]);
    expect(turn.content).toEqual([{ type: "text", text: "Hi" }]);
    expect(lines).toEqual(["open 1 text", "delta 1 Hi", "close 1"]);
  });

  it("starts a new block when an id is reused", async () => {
    const { turn, lines } = await run([
      ...text("t", "a"),
      { type: "text-start", id: "t" },
      { type: "text-delta", id: "t", delta: "b" },
      ...text("t", "c"),
      { type: "text-delta", id: "t", delta: "d" },
      finishV4,
    ]);
    expect(turn.content.map((block) => (block as { text: string }).text)).toEqual([
      "a",
      "b",
      "c",
      "d",
    ]);
    expect(lines.filter((line) => line.startsWith("close"))).toHaveLength(4);
  });

  it("keeps provider metadata, and thinking without text that carries it", async () => {
    const { turn, lines } = await run([
      { type: "reasoning-start", id: "r1", providerMetadata: { openai: { itemId: "rs_1" } } },
      {
        type: "reasoning-end",
        id: "r1",
        providerMetadata: { openai: { reasoningEncryptedContent: "xyz" } },
      },
      { type: "reasoning-start", id: "r2" },
      { type: "reasoning-delta", id: "r2", delta: "Hm" },
      {
        type: "reasoning-delta",
        id: "r2",
        delta: "",
        providerMetadata: { anthropic: { signature: "sig" } },
      },
      { type: "reasoning-end", id: "r2" },
      { type: "reasoning-start", id: "r3" },
      { type: "reasoning-end", id: "r3" },
      {
        type: "tool-call",
        toolCallId: "p1",
        toolName: "weather",
        input: "{}",
        providerMetadata: { google: { thoughtSignature: "t" } },
      },
      finish("tool-calls"),
    ]);
    expect(lines.slice(0, 2)).toEqual(["open 1 thinking", "close 1"]);
    expect(turn.content).toMatchObject([
      {
        type: "thinking",
        text: "",
        signature: '{"openai":{"itemId":"rs_1","reasoningEncryptedContent":"xyz"}}',
      },
      { type: "thinking", text: "Hm", signature: '{"anthropic":{"signature":"sig"}}' },
      { type: "tool_use", signature: '{"google":{"thoughtSignature":"t"}}' },
    ]);
    expect(turn.content).toHaveLength(3);
  });

  it("passes options, tools and a response schema to the AI SDK", async () => {
    const schema = { type: "object" };
    const tools = [{ name: "weather", description: "Weather.", inputSchema: schema, more: 1 }];
    const other = fakeModel("v4", [[...text("t", "Hi"), finishV4]]);
    await runTurn(
      [other],
      emptyRequest({
        systemPrompt: "Be kind.",
        messages: [{ id: "1", role: "user", content: [{ type: "text", text: "Hi" }] }],
        tools,
        responseSchema: { schema, name: "answer" },
        options: { temperature: 0.5, toolChoice: "required", providerOptions: { fake: { a: 1 } } },
      }),
      recordingSink(),
      stillDependencies(),
    );
    const [request] = other.requests;
    expect(request).toMatchObject({
      temperature: 0.5,
      providerOptions: { fake: { a: 1 } },
      prompt: [
        { role: "system", content: "Be kind." },
        { role: "user", content: [{ type: "text", text: "Hi" }] },
      ],
      toolChoice: { type: "required" },
    });
    expect(request?.tools).toEqual([
      { type: "function", name: "weather", description: "Weather.", inputSchema: schema },
    ]);
    expect(request?.responseFormat).toBeUndefined();

    const native = Object.assign(fakeModel("v4", [[...text("t", "{}"), finishV4]]), {
      provider: "openai.responses",
    });
    await runTurn(
      [native],
      emptyRequest({ responseSchema: { schema, name: "answer" } }),
      recordingSink(),
      stillDependencies(),
    );
    expect(native.requests[0]?.responseFormat).toEqual({ type: "json", schema, name: "answer" });
    expect(native.requests[0]).not.toHaveProperty("tools");
  });

  it("gives a model of each version its own prompt format", async () => {
    const messages: readonly Message[] = [
      {
        id: "1",
        role: "user",
        content: [{ type: "image", source: { data: "AAAA", mimeType: "image/png" } }],
      },
    ];
    for (const version of ["v2", "v3", "v4"] as const) {
      const model = fakeModel(version, [[...text("t", "Hi"), finishV4]]);
      await runTurn([model], emptyRequest({ messages }), recordingSink(), stillDependencies());
      expect(model.requests[0]?.prompt[0]?.content).toMatchObject([
        { type: "file", data: version === "v4" ? { type: "data", data: "AAAA" } : "AAAA" },
      ]);
    }
  });

  it("waits while the sink is not ready", async () => {
    const gate = Promise.withResolvers<void>();
    const sink = {
      ...recordingSink(),
      ready: () => (sink.lines.length === 2 ? gate.promise : undefined),
    };
    const dependencies = stillDependencies({ maxAttempts: 1, stallMs: 50, timeoutMs: 100 });
    const turn = runTurn(
      [fakeModel("v4", [[...text("t", "a", "b"), finishV4]])],
      emptyRequest(),
      sink,
      dependencies,
    );
    await dependencies.clock.advance(500); // counts neither as a stall nor as the model's time
    expect(sink.lines).toEqual(["open 1 text", "delta 1 a"]);
    gate.resolve();
    expect((await turn).content).toEqual([{ type: "text", text: "ab" }]);
    expect(dependencies.clock.pending).toBe(0);
  });
});
