import { describe, expect, it } from "vitest";
import { memoryStore, ReActAgent, tool } from "../../src/index.ts";
import type { TaskEvent } from "../../src/protocol.ts";
import { type Script, scriptedModel, withFaults } from "../../src/testing.ts";
import { collect } from "./support/collect.ts";
import { inShort, runScript, whatIsLeft } from "./support/run-script.ts";

const options = { sessionId: "s" };
const overloaded = () => Object.assign(new Error("busy"), { statusCode: 529 });
const refused = () => Object.assign(new Error("no"), { statusCode: 401 });
const quick = { initialBackoffMs: 1, jitter: 0 };
const same = tool({ name: "same", description: "Is the same.", execute: () => "the same" });

function discardsOf(events: readonly TaskEvent[]) {
  return events.flatMap((event) =>
    event.type === "task.output_item.discarded" ? [[event.output_index, event.reason]] : [],
  );
}

describe("a model stream that breaks", () => {
  it("is retried, and its chunks are discarded", async () => {
    const broken = [{ thinking: "Hm." }, "Half a sen", { call: "same" }, { error: overloaded() }];
    const { reply, events, output, results } = await runScript([broken, "The whole sentence."], {
      tools: [same],
      modelExecution: quick,
    });
    expect(reply.text).toBe("The whole sentence.");
    expect(results).toEqual([]);
    expect(discardsOf(events)).toEqual([
      [0, "provider_retry"],
      [1, "provider_retry"],
      [2, "provider_retry"],
    ]);
    expect(output.map(({ type }) => type)).toEqual([
      "discarded",
      "discarded",
      "discarded",
      "message",
    ]);
    const discards = events.findLastIndex(({ type }) => type === "task.output_item.discarded");
    const again = events.findLastIndex(({ type }) => type === "task.output_item.added");
    expect(discards).toBeLessThan(again); // nobody has the text twice, not for a moment
  });

  it("fails the task after the last attempt and keeps no chunk", async () => {
    const store = memoryStore();
    const model = scriptedModel(() => ["Half", { error: overloaded() }]);
    const agent = new ReActAgent({ name: "lead", model, store, modelExecution: quick });
    await expect(agent.call("Go.", options)).rejects.toMatchObject({ name: "RivuletError" });
    expect(model.calls).toHaveLength(3);
    const [task] = await store.tasks({ sessionId: "s" });
    const { messages, output } = await whatIsLeft(store, { task: task as never });
    expect(messages).toHaveLength(1);
    expect(output.map(({ type }) => type)).toEqual(["discarded", "discarded", "discarded"]);
  });

  it("is not retried after a permanent error", async () => {
    const model = scriptedModel(() => ({ error: refused() }));
    const agent = new ReActAgent({ name: "lead", model });
    await expect(agent.call("Go.")).rejects.toMatchObject({ code: "unauthorized" });
    expect(model.calls).toHaveLength(1);
  });

  it.each(["error", "end"] as const)(
    "at any chunk, with an %s, runs nothing of it",
    async (cutWith) => {
      const script = [["Look: ", { call: "same" }, "and more"], "At last."];
      const chunks = 12; // from the start to all but the finish
      for (let cutAfterChunks = 0; cutAfterChunks < chunks; cutAfterChunks++) {
        const model = withFaults(scriptedModel(script), { cutAfterChunks, cutWith, onCalls: [0] });
        const store = memoryStore();
        const more = { tools: [same], store, modelExecution: quick };
        const agent = new ReActAgent({ name: "lead", model, ...more });
        const reply = await agent.call("Go.", options);
        expect({ cutAfterChunks, text: reply.text }).toEqual({ cutAfterChunks, text: "At last." });
        expect((await whatIsLeft(store, reply)).results).toEqual([]);
      }
    },
  );
});

describe("a list of fallback models", () => {
  const models = (...scripts: Script[]) =>
    scripts.map((script, index) => scriptedModel(script, { modelId: `m${index}` }));

  it("is tried in order until a model answers", async () => {
    const [one, two, three] = models(
      () => ({ error: refused() }),
      () => ["Half", { error: overloaded() }],
      ["All of it."],
    );
    const model = [one, two, three] as never;
    const modelExecution = { ...quick, maxAttempts: 2 };
    const { reply, events, messages } = await runScript([], { model, modelExecution });
    expect(reply.text).toBe("All of it.");
    expect([one, two, three].map((each) => each?.calls.length)).toEqual([1, 2, 1]);
    expect(discardsOf(events).map(([, reason]) => reason)).toEqual(["provider_retry", "fallback"]);
    expect(messages.at(-1)?.metadata).toMatchObject({ model: "scripted/m2", iteration: 1 });
  });

  it("fails with the last model's error", async () => {
    const [one, two] = models(
      () => ({ error: overloaded() }),
      () => ({ error: refused() }),
    );
    const model = [one, two] as never;
    await expect(
      runScript([], { model, modelExecution: { ...quick, maxAttempts: 1 } }),
    ).rejects.toMatchObject({ code: "unauthorized" });
  });
});

describe("the end of a reply", () => {
  it.each([
    ["length", "max_output_tokens"],
    ["content-filter", "content_filter"],
  ] as const)("by %s makes the task incomplete", async (finish, reason) => {
    const { reply, tree } = await runScript([["Half a sen", { finish }]]);
    expect(reply).toMatchObject({ text: "Half a sen", generateReason: reason });
    expect(tree.tasks[reply.task.taskId]).toMatchObject({
      status: "incomplete",
      incompleteReason: reason,
    });
  });

  it.each([
    ["length", "max_output_tokens"],
    ["content-filter", "content_filter"],
  ] as const)(
    "by %s says so too when nothing is left of it: nobody asks again",
    async (finish, reason) => {
      for (const left of [[], [{ thinking: "Hm." }]]) {
        const { reply, model } = await runScript([[...left, { finish }], "never"]);
        expect(reply).toMatchObject({ text: "", generateReason: reason });
        expect(model.calls).toHaveLength(1);
      }
    },
  );

  it("with thinking only is not sent back, because providers reject it", async () => {
    const signed = { openai: { itemId: "rs_1" } };
    const thought = [
      { chunk: { type: "reasoning-start", id: "r", providerMetadata: signed } },
      { chunk: { type: "reasoning-delta", id: "r", delta: "Hm." } },
      { chunk: { type: "reasoning-end", id: "r", providerMetadata: signed } },
    ] as const;
    const { reply, model } = await runScript([[...thought], [...thought, "Yes."], "never"]);
    expect(reply.text).toBe("Yes.");
    expect(model.calls[1]?.prompt.map(({ role }) => role)).toEqual(["user", "user"]);
    const next = await runScript([[...thought, "Yes."]], {});
    expect(next.messages.at(-1)?.content).toMatchObject([{ type: "thinking" }, { type: "text" }]);
  });

  it("by length in the middle of a call runs the complete calls and drops the partial one", async () => {
    const half = { type: "tool-input-start", id: "half", toolName: "same" } as const;
    const script = [
      [
        "Look. ",
        { call: "same" },
        { chunk: half },
        { chunk: { type: "tool-input-delta", id: "half", delta: '{"a' } },
        { finish: "length" },
      ],
      "done",
    ] as const;
    const { reply, results, messages } = await runScript(script, { tools: [same] });
    expect(reply.text).toBe("done");
    expect(results.map(inShort)).toEqual(["success: the same"]);
    const calls = messages.flatMap(({ content }) => content.filter((b) => b.type === "tool_use"));
    expect(calls).toHaveLength(1);
  });

  it("passes model options on", async () => {
    const modelOptions = { maxOutputTokens: 100, temperature: 0.5 };
    const { model } = await runScript(["hi"], { modelOptions });
    expect(model.calls[0]).toMatchObject(modelOptions);
  });

  it("uses the final arguments when they differ from the deltas", async () => {
    const call = { call: "same", input: {}, deltas: ['{"sor', 'ry":'] };
    const { reply, output } = await runScript([[call], "done"], { tools: [same] });
    expect(reply.text).toBe("done");
    const kept = output.filter(({ type }) => type === "tool_call");
    expect(kept).toMatchObject([{ arguments: "{}" }]);
  });
});

describe("model output", () => {
  it("orders overlapping blocks, files and sources by their start", async () => {
    const chunk = (value: object) => ({ chunk: value });
    const script = [
      [
        chunk({ type: "reasoning-start", id: "r" }),
        chunk({ type: "reasoning-delta", id: "r", delta: "Th" }),
        chunk({ type: "text-start", id: "t" }),
        chunk({ type: "text-delta", id: "t", delta: "Te" }),
        chunk({ type: "reasoning-delta", id: "r", delta: "ought" }),
        chunk({ type: "text-delta", id: "t", delta: "xt" }),
        chunk({ type: "reasoning-end", id: "r" }),
        chunk({ type: "text-end", id: "t" }),
        { file: { mediaType: "image/png", data: { type: "data", data: "AA==" } } },
        { source: { sourceType: "url", id: "s1", url: "https://example.com" } },
        "After.",
      ],
    ];
    const { reply, output } = await runScript(script as unknown as Script);
    expect(reply.content.map(({ type }) => type)).toEqual(["thinking", "text", "image", "text"]);
    expect(reply.text).toBe("TextAfter.");
    expect(output.map(({ type }) => type)).toEqual(["reasoning", "message"]);
    expect(output[1]?.references).toEqual([{ id: "s1", url: "https://example.com" }]);
  });

  it("keeps all sources in the reply and the transcript", async () => {
    const sources = [
      { id: "s1", url: "https://example.com", title: "One" },
      { id: "s2", title: "Two", mediaType: "application/pdf" },
    ] as const;
    const [one, two] = sources;
    const { reply, messages, output } = await runScript([
      [
        "See both.",
        { source: { sourceType: "url", ...one } },
        { source: { sourceType: "document", ...two } },
      ],
    ]);
    expect(reply.metadata?.sources).toEqual(sources);
    expect(messages.at(-1)?.metadata?.sources).toEqual(sources);
    expect(output[0]?.references).toEqual([
      one,
      { id: "s2", title: "Two", mime_type: two.mediaType },
    ]);
    expect((await runScript(["None."])).reply.metadata).not.toHaveProperty("sources");
  });

  it("shows thinking as a summary, and raw with rawReasoning", async () => {
    const script = [[{ thinking: ["Let me ", "see."] }, "Yes."]];
    const plain = await runScript(script);
    expect(plain.output[0]).toMatchObject({ summary: [{ type: "text", text: "Let me see." }] });
    expect(plain.output[0]).not.toHaveProperty("content");
    const raw = await runScript(script, { rawReasoning: true });
    expect(raw.output[0]).toMatchObject({
      summary: [],
      content: [{ type: "reasoning_text", text: "Let me see." }],
    });
  });

  it("streams deltas, accumulated text or no chunks", async () => {
    const model = () => scriptedModel([[{ thinking: "Hm." }, { text: ["a", "b", "c"] }]]);
    const seen = async (more: object) => {
      const agent = new ReActAgent({ name: "lead", model: model() });
      const events = await collect(agent.stream("Go.", { types: ["reasoning"], ...more }));
      return events.map(({ text, last }) => (last ? `${text}.` : text));
    };
    expect(await seen({})).toEqual(["", "a", "b", "c", "abc."]);
    expect(await seen({ incremental: false })).toEqual(["", "a", "ab", "abc", "abc."]);
    expect(await seen({ chunks: false })).toEqual(["abc."]);
  });

  it("counts usage per task and reports it as it grows", async () => {
    const usage = (inputTokens: number) => ({ usage: { inputTokens, outputTokens: 1 } });
    const { events, messages } = await runScript(
      [
        [{ call: "same" }, usage(10)],
        ["done", usage(20)],
      ],
      {
        tools: [same],
      },
    );
    const told = events.flatMap((event) =>
      event.type === "task.usage" ? [event.usage.total_tokens] : [],
    );
    expect(told).toEqual([11, 32]);
    expect(messages.at(-1)?.usage).toMatchObject({ input_tokens: 20, output_tokens: 1 });
  });
});
