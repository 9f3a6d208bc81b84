import { getEventListeners } from "node:events";
import type {
  LanguageModelV4CallOptions,
  LanguageModelV4Prompt,
  LanguageModelV4StreamPart,
} from "@ai-sdk/provider";
import { generateText, isStepCount, streamText, tool } from "ai";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { ManualClock } from "./clock.ts";
import type { ScriptedPart, ScriptedTurn } from "./script.ts";
import type { Script, ScriptedModel, ScriptedModelOptions } from "./scripted-model.ts";
import { scriptedModel } from "./scripted-model.ts";

const ask = (text: string): LanguageModelV4Prompt => [
  { role: "user", content: [{ type: "text", text }] },
];
const hello = ask("hello");
const said = (text: string): LanguageModelV4Prompt[number] => ({
  role: "assistant",
  content: [{ type: "text", text }],
});

async function collect(model: ScriptedModel, options: Partial<LanguageModelV4CallOptions> = {}) {
  const { stream } = await model.doStream({ prompt: hello, ...options });
  const parts: LanguageModelV4StreamPart[] = [];
  for await (const part of stream) parts.push(part);
  return parts;
}
async function textOf(model: ScriptedModel, prompt: LanguageModelV4Prompt = hello) {
  const { content } = await model.doGenerate({ prompt });
  return content.map((block) => (block.type === "text" ? block.text : "")).join("");
}
/** The stream (without stream-start and finish) and the generated result of a turn. */
async function both(turn: ScriptedTurn, options?: ScriptedModelOptions) {
  const script: Script = () => turn;
  const parts = await collect(scriptedModel(script, options));
  expect(parts.at(0)).toEqual({ type: "stream-start", warnings: [] });
  const finish = parts.at(-1);
  if (finish?.type !== "finish") throw new Error("no finish");
  const result = await scriptedModel(script, options).doGenerate({ prompt: hello });
  expect(result.finishReason).toEqual(finish.finishReason);
  expect(result.usage).toEqual(finish.usage);
  return {
    parts: parts.slice(1, -1),
    content: result.content,
    reason: finish.finishReason.unified,
    usage: finish.usage,
  };
}

describe("parts of a turn", () => {
  it("plays a string as one text block with one delta", async () => {
    const expected = [
      { type: "text-start", id: "text_0" },
      { type: "text-delta", id: "text_0", delta: "hi" },
      { type: "text-end", id: "text_0" },
    ];
    const { parts, content, reason } = await both("hi");
    expect(parts).toEqual(expected);
    expect(content).toEqual([{ type: "text", text: "hi" }]);
    expect(reason).toBe("stop");
    expect((await both(["hi"])).parts).toEqual(expected);
    expect((await both({ text: "hi" })).parts).toEqual(expected);
  });

  it("plays text and thinking in the given deltas", async () => {
    const { parts, content } = await both([{ thinking: ["a", "b"] }, { text: ["c", "d", "e"] }]);
    expect(parts).toEqual([
      { type: "reasoning-start", id: "thinking_0" },
      { type: "reasoning-delta", id: "thinking_0", delta: "a" },
      { type: "reasoning-delta", id: "thinking_0", delta: "b" },
      { type: "reasoning-end", id: "thinking_0" },
      { type: "text-start", id: "text_1" },
      { type: "text-delta", id: "text_1", delta: "c" },
      { type: "text-delta", id: "text_1", delta: "d" },
      { type: "text-delta", id: "text_1", delta: "e" },
      { type: "text-end", id: "text_1" },
    ]);
    expect(content).toEqual([
      { type: "reasoning", text: "ab" },
      { type: "text", text: "cde" },
    ]);
    expect((await both({ thinking: "x" })).content).toEqual([{ type: "reasoning", text: "x" }]);
  });

  it("plays blocks without deltas, and a turn without parts", async () => {
    expect((await both({ text: [] })).parts).toEqual([
      { type: "text-start", id: "text_0" },
      { type: "text-end", id: "text_0" },
    ]);
    expect(await both([])).toMatchObject({ parts: [], content: [], reason: "stop" });
  });

  it("plays a call with its arguments, and finishes with tool-calls", async () => {
    const { parts, content, reason } = await both({ call: "look", input: { at: 1 }, id: "c1" });
    const call = { type: "tool-call", toolCallId: "c1", toolName: "look", input: '{"at":1}' };
    expect(parts).toEqual([
      { type: "tool-input-start", id: "c1", toolName: "look" },
      { type: "tool-input-delta", id: "c1", delta: '{"at":1}' },
      { type: "tool-input-end", id: "c1" },
      call,
    ]);
    expect(content).toEqual([call]);
    expect(reason).toBe("tool-calls");
  });

  it("streams arguments in deltas, including invalid JSON", async () => {
    const inDeltas = await both({ call: "look", deltas: ['{"a"', ":1}"] });
    expect(
      inDeltas.parts.map((part) => (part.type === "tool-input-delta" ? part.delta : "")),
    ).toEqual(["", '{"a"', ":1}", "", ""]);
    expect(inDeltas.content).toMatchObject([{ input: '{"a":1}' }]);
    expect((await both({ call: "look", raw: '{"a":' })).content).toMatchObject([
      { input: '{"a":' },
    ]);
    expect((await both({ call: "look" })).content).toMatchObject([{ input: "{}" }]);
  });

  it("plays sources, files and any stream part unchanged", async () => {
    const source = { sourceType: "url", id: "s1", url: "https://example.org/" } as const;
    const file = { mediaType: "image/png", data: { type: "data", data: "AAAA" } } as const;
    const turn: ScriptedPart[] = [
      { source },
      { file },
      { chunk: { type: "text-start", id: "x" } },
      { chunk: { type: "reasoning-start", id: "x" } },
      { chunk: { type: "text-delta", id: "x", delta: "a" } },
      { chunk: { type: "reasoning-delta", id: "x", delta: "r" } },
      { chunk: { type: "text-delta", id: "x", delta: "b" } },
      { chunk: { type: "response-metadata", id: "response 1" } },
      { chunk: { type: "tool-call", toolCallId: "c", toolName: "t", input: "{}" } },
    ];
    const { parts, content, reason } = await both(turn);
    expect(parts).toEqual([
      { type: "source", ...source },
      { type: "file", ...file },
      ...turn.slice(2).map((part) => (part as { chunk: unknown }).chunk),
    ]);
    expect(content).toEqual([
      { type: "source", ...source },
      { type: "file", ...file },
      { type: "text", text: "ab" },
      { type: "reasoning", text: "r" },
      { type: "tool-call", toolCallId: "c", toolName: "t", input: "{}" },
    ]);
    expect(reason).toBe("tool-calls");
  });

  it("finishes with the given reason and usage", async () => {
    for (const finish of ["stop", "length", "content-filter", "tool-calls", "error"] as const) {
      expect((await both(["x", { finish }])).reason).toBe(finish);
    }
    const usage = { inputTokens: 10, cachedInputTokens: 4, outputTokens: 7, reasoningTokens: 2 };
    expect((await both(["x", { usage }])).usage).toEqual({
      inputTokens: { total: 10, noCache: 6, cacheRead: 4, cacheWrite: 0 },
      outputTokens: { total: 7, text: 5, reasoning: 2 },
    });
  });

  it("estimates four characters per token without a usage", async () => {
    const { usage } = await both([{ thinking: "12345678" }, { text: ["1234", "5"] }]);
    expect(usage).toEqual({
      inputTokens: { total: 2, noCache: 2, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 4, text: 2, reasoning: 2 },
    });
  });

  it("breaks the stream at an error, and rejects the request when the error is first", async () => {
    const error = new Error("broken");
    const seen: string[] = [];
    const { stream } = await scriptedModel([["a", { error }, "b"]]).doStream({ prompt: hello });
    const reading = (async () => {
      for await (const part of stream) seen.push(part.type);
    })();
    await expect(reading).rejects.toBe(error);
    expect(seen).toEqual(["stream-start", "text-start", "text-delta", "text-end"]);
    await expect(scriptedModel([["a", { error }]]).doGenerate({ prompt: hello })).rejects.toBe(
      error,
    );
    const refusing = scriptedModel(() => ({ error }));
    await expect(refusing.doStream({ prompt: hello })).rejects.toBe(error);
    await expect(refusing.doGenerate({ prompt: hello })).rejects.toBe(error);
    const part = { chunk: { type: "error", error } } as const;
    expect(await collect(scriptedModel([part]))).toContainEqual({ type: "error", error });
    await expect(scriptedModel([part]).doGenerate({ prompt: hello })).rejects.toBe(error);
  });

  it("waits on the given clock", async () => {
    const clock = new ManualClock();
    const turn: ScriptedTurn = ["a", { delayMs: 5 }, { delayMs: 5 }, "b"];
    const streaming = collect(scriptedModel([turn], { clock }));
    const generating = scriptedModel([turn], { clock }).doGenerate({ prompt: hello });
    await clock.advance(9);
    expect(clock.pending).toBe(2);
    await clock.advance(1);
    expect((await streaming).at(-1)).toMatchObject({ type: "finish" });
    expect((await generating).content).toHaveLength(2);
    expect(clock.pending).toBe(0);
  });

  it("throws for an unknown part", async () => {
    const bad = [["x", { says: "hi" }]] as unknown as Script;
    expect(() => scriptedModel(bad)).toThrow(
      "Part 1 of a scripted turn must be a string or a known part, got an object with says.",
    );
    const none = scriptedModel(() => undefined as unknown as ScriptedTurn);
    await expect(none.doStream({ prompt: hello })).rejects.toMatchObject({
      code: "invalid_script",
    });
  });

  it.each([
    [{ call: "add", inputs: { a: 1 } }, "(call) has no option `inputs`.", "Did you mean input?"],
    [{ call: "add", args: { a: 1 } }, "(call) has no option `args`.", "Use any of call, input,"],
    [{ text: "Hi.", usage: { inputTokens: 1 } }, "(text) has no option `usage`.", "Pass { usage }"],
    [{ usage: { inputToken: 1 } }, "(usage) has no option `inputToken`.", "mean inputTokens or"],
    [{ hang: true, ms: 5 }, "(hang) has no option `ms`.", "Use any of hang."],
  ])("rejects %j, which has an unknown key", async (part, message, hint) => {
    const turn = part as unknown as ScriptedTurn;
    const error = expect.objectContaining({
      code: "invalid_script",
      message: `Part 0 of a scripted turn ${message}`,
      hint: expect.stringContaining(hint),
    });
    expect(() => scriptedModel([turn])).toThrow(error);
    const later = scriptedModel(() => turn).doStream({ prompt: hello });
    await expect(later).rejects.toThrow(error);
  });
});

describe("choice of the turn", () => {
  it("plays the turns in order and throws after the last", async () => {
    const model = scriptedModel(["a", "b"]);
    expect([await textOf(model), await textOf(model)]).toEqual(["a", "b"]);
    for (const again of [model.doStream({ prompt: hello }), model.doGenerate({ prompt: hello })]) {
      await expect(again).rejects.toMatchObject({
        name: "RivuletError",
        code: "script_exhausted",
        retryable: false,
      });
    }
    await expect(model.doStream({ prompt: hello })).rejects.toThrow(
      "2 turns, and this is request 5",
    );
  });

  it("answers a retry with the next turn", async () => {
    const model = scriptedModel([{ error: new Error("no") }, "yes"]);
    await expect(textOf(model)).rejects.toThrow("no");
    expect(await textOf(model)).toBe("yes");
  });

  it("serves many conversations in any order by prompt", async () => {
    const turns = ["a", "b", "c"];
    const model = scriptedModel(turns, { by: "prompt" });
    const prompts = Array.from({ length: 200 }, (_, i) => [
      ...ask(`session ${i}`),
      ...turns.slice(0, i % 3).map(said),
    ]);
    const texts = await Promise.all(prompts.map((prompt) => textOf(model, prompt)));
    expect(texts).toEqual(prompts.map((_, i) => turns[i % 3]));
    await expect(textOf(model, [...hello, ...turns.map(said)])).rejects.toThrow(
      "The script has 3 turns, and the prompt already has 3 assistant messages.",
    );
  });

  it("derives call ids from the prompt", async () => {
    const turn: ScriptedTurn = [{ call: "a" }, { call: "b" }];
    const idsAt = async (prompt: LanguageModelV4Prompt) =>
      (await scriptedModel(() => turn).doGenerate({ prompt })).content.map(
        (block) => block.type === "tool-call" && block.toolCallId,
      );
    expect(await idsAt(hello)).toEqual(["scripted_0_0", "scripted_0_1"]);
    expect(await idsAt(hello)).toEqual(await idsAt(hello));
    expect(await idsAt([...hello, said("x")])).toEqual(["scripted_1_0", "scripted_1_1"]);
  });

  it("passes the request to functions and keeps all requests", async () => {
    const model = scriptedModel([
      "first",
      async (request) => `call ${request.callIndex}, ${request.prompt.length} messages`,
    ]);
    await textOf(model);
    expect(await textOf(model, [...hello, said("first")])).toBe("call 1, 2 messages");
    await expect(collect(model, { temperature: 0.5 })).rejects.toThrow();
    expect(model.calls).toMatchObject([
      { callIndex: 0, assistantCount: 0, streaming: false, prompt: hello },
      { callIndex: 1, assistantCount: 1, streaming: false },
      { callIndex: 2, streaming: true, temperature: 0.5 },
    ]);
    const echo = scriptedModel(({ prompt }) => JSON.stringify(prompt.at(-1)?.content));
    expect(await textOf(echo, ask("one"))).toContain("one");
    expect(await textOf(echo, ask("two"))).toContain("two");
  });
});

describe("an abort", () => {
  const listeners = (signal: AbortSignal) => getEventListeners(signal, "abort").length;

  it("rejects before the first chunk", async () => {
    const model = scriptedModel(() => "x");
    const abortSignal = AbortSignal.abort("early");
    await expect(model.doStream({ prompt: hello, abortSignal })).rejects.toBe("early");
    await expect(model.doGenerate({ prompt: hello, abortSignal })).rejects.toBe("early");
    expect(model.calls).toHaveLength(0);
  });

  it("ends the stream at once", async () => {
    const abort = new AbortController();
    const model = scriptedModel([{ text: Array.from({ length: 100 }, (_, i) => `${i} `) }]);
    const { stream } = await model.doStream({ prompt: hello, abortSignal: abort.signal });
    let seen = 0;
    const reading = (async () => {
      for await (const _ of stream) if (++seen === 10) abort.abort("enough");
    })();
    await expect(reading).rejects.toBe("enough");
    expect(seen).toBe(10);
    expect(listeners(abort.signal)).toBe(0);
  });

  it("ends a hang and a delay, streamed or not, and removes all listeners", async () => {
    for (const part of [{ hang: true }, { delayMs: 1_000 }] as const) {
      const abort = new AbortController();
      const clock = new ManualClock();
      const model = scriptedModel(() => ["a", part], { clock });
      const both = [
        collect(model, { abortSignal: abort.signal }),
        model.doGenerate({ prompt: hello, abortSignal: abort.signal }),
      ];
      await clock.advance(1);
      expect(listeners(abort.signal)).toBe(2);
      abort.abort("enough");
      for (const result of both) await expect(result).rejects.toBe("enough");
      expect(listeners(abort.signal)).toBe(0);
      expect(clock.pending).toBe(0);
    }
  });

  it("is not observed after the end of the stream", async () => {
    const abort = new AbortController();
    const clock = new ManualClock();
    await collect(scriptedModel(["a"]), { abortSignal: abort.signal });
    for (const part of [{ hang: true }, { delayMs: 1_000 }] as const) {
      const model = scriptedModel([part], { clock });
      const { stream } = await model.doStream({ prompt: hello, abortSignal: abort.signal });
      for await (const _ of stream) break;
    }
    await clock.advance(1);
    expect(listeners(abort.signal)).toBe(0);
    expect(clock.pending).toBe(0);
  });
});

describe("in the AI SDK", () => {
  const look = tool({
    description: "Looks something up.",
    inputSchema: z.object({ word: z.string() }),
    execute: async ({ word }) => `${word} found`,
  });
  const script: Script = [
    [{ thinking: "hm" }, "Let me see. ", { call: "look", input: { word: "rill" } }],
    ({ prompt }) => {
      const last = prompt.at(-1);
      const result = last?.role === "tool" ? last.content[0] : undefined;
      return `It says: ${result?.type === "tool-result" && result.output.type === "text" && result.output.value}`;
    },
  ];

  it("streams a tool loop", async () => {
    const result = streamText({
      model: scriptedModel(script),
      prompt: "Look up rill.",
      tools: { look },
      stopWhen: isStepCount(5),
    });
    let text = "";
    for await (const delta of result.textStream) text += delta;
    expect(text).toBe("Let me see. It says: rill found");
    const steps = await result.steps;
    expect(steps.map((step) => step.finishReason)).toEqual(["tool-calls", "stop"]);
    expect(steps[0]?.toolResults).toMatchObject([{ toolName: "look", output: "rill found" }]);
    expect(steps[0]?.reasoningText).toBe("hm");
  });

  it("generates a tool loop", async () => {
    const model = scriptedModel(script, { by: "prompt" });
    const ask = () =>
      generateText({ model, prompt: "Look.", tools: { look }, stopWhen: isStepCount(5) });
    const results = await Promise.all([ask(), ask(), ask()]);
    expect(results.map(({ text }) => text)).toEqual(Array(3).fill("It says: rill found"));
    expect(model.calls).toHaveLength(6);
  });

  it("reports an exhausted script and a broken stream", async () => {
    await expect(generateText({ model: scriptedModel([]), prompt: "x" })).rejects.toMatchObject({
      code: "script_exhausted",
    });
    const error = new Error("broken");
    const result = streamText({ model: scriptedModel([["a", { error }]]), prompt: "x" });
    let text = "";
    const reading = (async () => {
      for await (const delta of result.textStream) text += delta;
    })();
    await expect(reading).rejects.toBe(error);
    expect(text).toBe("a");
  });
});
