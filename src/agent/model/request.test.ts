import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { emptyRequest, fakeModel } from "../../../test/support/fake-model.ts";
import type { Block, Message } from "../../contract/message.ts";
import { callOptions, toPrompt } from "./request.ts";
import type { TurnRequest } from "./turn.ts";

let count = 0;
function message(role: Message["role"], ...content: Block[]): Message {
  count += 1;
  return { id: `msg_${count}`, role, content };
}
const text = (value: string): Block => ({ type: "text", text: value });
const call = (id: string, providerCallId?: string): Block => ({
  type: "tool_use",
  id,
  name: `tool_${id}`,
  input: { id },
  ...(providerCallId !== undefined && { providerCallId }),
});
const result = (id: string, ...output: Block[]): Block => ({
  type: "tool_result",
  id,
  name: `tool_${id}`,
  output,
  state: "success",
});
interface Part {
  readonly type: string;
  readonly toolCallId?: string;
  readonly output?: unknown;
}
const partsOf = (prompt: ReturnType<typeof toPrompt>, index: number) =>
  (prompt[index]?.content ?? []) as Part[];
const image: Block = { type: "image", source: { data: "AAAA", mimeType: "image/png" } };
const linked: Block = { type: "image", source: { url: "https://a.example/b.png" } };

describe("toPrompt", () => {
  it("moves system messages to the head", () => {
    const messages = [
      message("user", text("Hi")),
      message("system", text("Be brief."), { type: "hint", text: "Be kind." }),
      message("assistant", text("Hello")),
    ];
    expect(toPrompt(messages, "You are X.", "v4")).toEqual([
      { role: "system", content: "You are X.\n\nBe brief.\n\nBe kind." },
      { role: "user", content: [{ type: "text", text: "Hi" }] },
      { role: "assistant", content: [{ type: "text", text: "Hello" }] },
    ]);
    expect(toPrompt([], "", "v4")).toEqual([]);
  });

  it("omits control blocks, blank texts and empty messages", () => {
    const messages = [
      message("user", text("Hi"), text(" \n")),
      message("user", { type: "suspension", callId: "c", kind: "approval", approvalId: "a" }),
      message("user", { type: "answer", approvalId: "a", callId: "c", decision: "approve" }),
      message("assistant", text(""), { type: "thinking", text: "cut off" }),
    ];
    expect(toPrompt(messages, "", "v4")).toEqual([
      { role: "user", content: [{ type: "text", text: "Hi" }] },
    ]);
  });

  it("sends hints as the user, from any message", () => {
    const messages = [
      message("user", { type: "hint", text: "one" }),
      message("assistant", text("Hello"), { type: "hint", text: "two" }),
      message("tool", { type: "hint", text: "three" }),
    ];
    expect(toPrompt(messages, "", "v4")).toEqual([
      { role: "user", content: [{ type: "text", text: "one" }] },
      { role: "assistant", content: [{ type: "text", text: "Hello" }] },
      { role: "user", content: [{ type: "text", text: "two" }] },
      { role: "user", content: [{ type: "text", text: "three" }] },
    ]);
  });

  it("sends provider metadata back", () => {
    const metadata = { anthropic: { signature: "sig" } };
    const signature = JSON.stringify(metadata);
    const messages = [
      message(
        "assistant",
        { type: "thinking", text: "Hm", signature },
        { type: "thinking", text: "from elsewhere", signature: "not JSON" },
        { type: "thinking", text: "", signature },
        { ...call("c1"), signature } as Block,
        { ...text("Hi"), signature } as Block,
      ),
    ];
    expect(toPrompt(messages, "", "v4")[0]?.content).toEqual([
      { type: "reasoning", text: "Hm", providerOptions: metadata },
      { type: "reasoning", text: "from elsewhere" },
      { type: "reasoning", text: "", providerOptions: metadata },
      {
        type: "tool-call",
        toolCallId: "c1",
        toolName: "tool_c1",
        input: { id: "c1" },
        providerOptions: metadata,
      },
      { type: "text", text: "Hi", providerOptions: metadata },
    ]);
  });

  it("sends media in the format of each version", () => {
    const user = [
      image,
      linked,
      { type: "file", source: { url: "data:application/pdf;base64,BBBB" } },
      { type: "audio", source: { url: "blob_17" } },
    ] as Block[];
    const prompt = (version: "v2" | "v3" | "v4") =>
      toPrompt([message("user", ...user)], "", version)[0]?.content;
    const url = new URL("https://a.example/b.png");
    const gone = { type: "text", text: "[audio: blob_17]" };
    for (const version of ["v2", "v3"] as const) {
      expect(prompt(version)).toEqual([
        { type: "file", mediaType: "image/png", data: "AAAA" },
        { type: "file", mediaType: "image/*", data: url },
        { type: "file", mediaType: "application/pdf", data: "BBBB" },
        gone,
      ]);
    }
    expect(prompt("v4")).toEqual([
      { type: "file", mediaType: "image/png", data: { type: "data", data: "AAAA" } },
      { type: "file", mediaType: "image/*", data: { type: "url", url } },
      { type: "file", mediaType: "application/pdf", data: { type: "data", data: "BBBB" } },
      gone,
    ]);
    const made = toPrompt([message("assistant", image)], "", "v3")[0];
    expect(made).toEqual({
      role: "assistant",
      content: [{ type: "file", mediaType: "image/png", data: "AAAA" }],
    });
  });

  it("sends media in tool output in the format of each version", () => {
    const file: Block = { type: "file", source: { data: "CCCC", mimeType: "text/csv" } };
    const messages = [
      message("assistant", call("c1")),
      message("tool", result("c1", text("Here:"), image, linked, file)),
    ];
    const output = (version: "v2" | "v3" | "v4") =>
      partsOf(toPrompt(messages, "", version), 1)[0]?.output;
    const here = { type: "text", text: "Here:" };
    expect(output("v2")).toEqual({
      type: "content",
      value: [
        here,
        { type: "media", data: "AAAA", mediaType: "image/png" },
        { type: "text", text: "[image: https://a.example/b.png]" },
        { type: "media", data: "CCCC", mediaType: "text/csv" },
      ],
    });
    expect(output("v3")).toEqual({
      type: "content",
      value: [
        here,
        { type: "image-data", data: "AAAA", mediaType: "image/png" },
        { type: "image-url", url: "https://a.example/b.png" },
        { type: "file-data", data: "CCCC", mediaType: "text/csv" },
      ],
    });
    expect(output("v4")).toMatchObject({
      type: "content",
      value: [
        here,
        { type: "file", mediaType: "image/png" },
        { type: "file", data: { type: "url" } },
        { type: "file", mediaType: "text/csv", data: { type: "data", data: "CCCC" } },
      ],
    });
  });

  it("sends results under the provider's call id, with their state", () => {
    const states = ["error", "denied", "interrupted"] as const;
    const messages = [
      message("assistant", call("ok", "p_ok"), ...states.map((state) => call(state))),
      message("tool", result("ok", text("one"), text("two"))),
      message("tool", { ...result("error", text("It broke.")), state: "error" } as Block),
      message("tool", { ...result("denied"), state: "denied" } as Block),
      message("tool", { ...result("interrupted"), state: "interrupted" } as Block),
    ];
    const content = toPrompt(messages, "", "v4")[1]?.content;
    expect(content).toEqual([
      {
        type: "tool-result",
        toolCallId: "p_ok",
        toolName: "tool_ok",
        output: { type: "text", value: "one\ntwo" },
      },
      expect.objectContaining({ output: { type: "error-text", value: "It broke." } }),
      expect.objectContaining({ output: { type: "error-text", value: "The call was denied." } }),
      expect.objectContaining({
        output: { type: "error-text", value: "The call was interrupted." },
      }),
    ]);
  });

  it("sends arguments that are not an object as an empty object", () => {
    const odd = (input: unknown): Block => ({ type: "tool_use", id: "c", name: "t", input });
    for (const input of [null, [1], "text", 7]) {
      const [sent] = toPrompt([message("assistant", odd(input))], "", "v4");
      expect(sent?.content[0]).toMatchObject({ input: {} });
    }
  });

  it("sends a placeholder for a call until it has a result", () => {
    const messages = [message("user", text("Hi")), message("assistant", call("c1"), call("c2"))];
    messages.push(message("tool", result("c2", text("second"))));
    const outputs = () => partsOf(toPrompt(messages, "", "v4"), 2).map(({ output }) => output);
    expect(outputs()).toEqual([
      { type: "error-text", value: "There is no result yet." },
      { type: "text", value: "second" },
    ]);
    messages.push(message("tool", result("c1", text("first"))));
    expect(outputs()).toEqual([
      { type: "text", value: "first" },
      { type: "text", value: "second" },
    ]);
  });

  it("omits results without a call and duplicate results", () => {
    const messages = [
      message("tool", result("lost", text("orphan"))),
      message("assistant", call("c1")),
      message("tool", result("c1", text("first"))),
      message("tool", result("c1", text("again"))),
    ];
    const prompt = toPrompt(messages, "", "v4");
    expect(prompt.map(({ role }) => role)).toEqual(["assistant", "tool"]);
    expect(JSON.stringify(prompt)).not.toMatch(/orphan|again/);
  });

  it("replaces earlier messages by the last compaction", () => {
    const messages = [
      message("user", text("old")),
      message("system", text("old rule")),
      message("assistant", text("older")),
      message("user", { type: "compaction", summary: "first summary", keepFrom: 1 }),
      message("user", text("kept")),
      message("assistant", call("c1")),
      message("tool", result("c1", text("done"))),
    ];
    toPrompt(messages, "", "v4");
    messages.push(message("user", { type: "compaction", summary: "summary", keepFrom: 4 }));
    messages.push(message("user", text("new")));
    for (let again = 0; again < 2; again++) {
      const prompt = toPrompt(messages, "Be X.", "v4");
      expect(prompt.map(({ role }) => role)).toEqual([
        "system",
        "user",
        "user",
        "assistant",
        "tool",
        "user",
      ]);
      expect(prompt[0]?.content).toBe("Be X.");
      expect(prompt[1]?.content).toEqual([{ type: "text", text: "summary" }]);
      messages.push(message("assistant", text("")));
    }
  });

  it("caches the view of a message, and returns a new array each time", () => {
    const messages = Array.from({ length: 10 }, (_, index) =>
      message(index % 2 === 0 ? "user" : "assistant", text("Hi")),
    );
    const first = toPrompt(messages, "", "v4");
    messages.push(message("user", text("More")));
    const second = toPrompt(messages, "", "v4");
    expect(first).toHaveLength(10);
    expect(second[1]).toBe(first[1]);
    const third = toPrompt([message("user", text("Before")), ...messages], "", "v4");
    expect(third[1]).toBe(first[0]);
  });

  it("reads only the new messages of a transcript that has grown", () => {
    let reads = 0;
    const messages = new Proxy(
      Array.from({ length: 100 }, () => message("user", text("Hi"))),
      {
        get(target, key) {
          if (typeof key === "string" && /^\d+$/.test(key)) reads += 1;
          return Reflect.get(target, key);
        },
      },
    );
    toPrompt(messages, "", "v4");
    messages.push(message("user", text("More")));
    reads = 0;
    expect(toPrompt(messages, "", "v4")).toHaveLength(101);
    expect(reads).toBeLessThan(5);
  });
});

/** Rounds of calls whose results come in any order, some of them late, with messages in between. */
const transcript = fc
  .array(
    fc.record({
      calls: fc.integer({ min: 0, max: 4 }),
      order: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 4, maxLength: 4 }),
      note: fc.boolean(),
      missing: fc.boolean(),
    }),
    { maxLength: 8 },
  )
  .map((rounds) => {
    const messages: Message[] = [message("user", text("Go"))];
    for (const [round, { calls, order, note, missing }] of rounds.entries()) {
      const ids = Array.from({ length: calls }, (_, index) => `${round}_${index}`);
      messages.push(message("assistant", text("ok"), ...ids.map((id) => call(id))));
      const answered = missing ? ids.slice(1) : ids;
      answered.sort((a, b) => (order[ids.indexOf(a)] ?? 0) - (order[ids.indexOf(b)] ?? 0));
      for (const id of answered) {
        if (note) messages.push(message("user", text("note")));
        messages.push(message("tool", result(id, text(id))));
      }
    }
    return messages;
  });

it("each call is followed by exactly one result in call order, however the transcript grew", () => {
  fc.assert(
    fc.property(transcript, (messages) => {
      for (let length = 1; length <= messages.length; length++) {
        const prompt = toPrompt(messages.slice(0, length), "", "v4");
        for (const [index, { role }] of prompt.entries()) {
          if (role !== "assistant") continue;
          const calls = partsOf(prompt, index).filter(({ type }) => type === "tool-call");
          const results = partsOf(prompt, index + 1).filter(({ type }) => type === "tool-result");
          expect(results.map(({ toolCallId }) => toolCallId)).toEqual(
            calls.map(({ toolCallId }) => toolCallId),
          );
        }
        // The incremental prompt equals the prompt from scratch.
        expect(prompt).toEqual(toPrompt(structuredClone(messages.slice(0, length)), "", "v4"));
      }
    }),
  );
});

it("an edited copy of a message is not taken from the cache", () => {
  fc.assert(
    fc.property(transcript, fc.nat(), (messages, at) => {
      toPrompt(messages, "", "v4");
      const edited = messages.with(at % messages.length, message("user", text("edited")));
      expect(toPrompt(edited, "", "v4")).toEqual(toPrompt(structuredClone(edited), "", "v4"));
      expect(toPrompt(messages, "", "v4")).toEqual(toPrompt(structuredClone(messages), "", "v4"));
    }),
  );
});

describe("callOptions", () => {
  const search = { type: "provider", id: "openai.web_search", name: "web_search", args: {} };
  const weather = { name: "weather", description: "Weather.", inputSchema: { type: "object" } };

  function optionsOf(request: Partial<TurnRequest>): Record<string, unknown> {
    return callOptions(fakeModel("v4", []), emptyRequest(request));
  }

  it("adds the provider's tools to those of the agent", () => {
    const both = optionsOf({ tools: [weather], options: { tools: [search] } });
    expect(both.tools).toEqual([{ type: "function", ...weather }, search]);
    expect(both.toolChoice).toEqual({ type: "auto" });
    expect(optionsOf({ options: { tools: [search] } }).tools).toEqual([search]);
  });

  it("takes the tool choice of the options", () => {
    const toolChoice = { type: "tool", toolName: "weather" };
    expect(optionsOf({ tools: [weather], options: { toolChoice } }).toolChoice).toEqual(toolChoice);
    const words = optionsOf({
      tools: [weather],
      options: { toolChoice: "required" },
    });
    expect(words.toolChoice).toEqual({ type: "required" });
  });

  it("omits the tool choice without tools", () => {
    const none = optionsOf({ options: { toolChoice: "required" } });
    expect(none).not.toHaveProperty("toolChoice");
    expect(none).not.toHaveProperty("tools");
  });

  it.each([{ web_search: search }, [{ id: "openai.web_search" }], "web_search"])(
    "rejects invalid provider tools: %j",
    (tools) => {
      const refused = expect.objectContaining({
        code: "invalid_settings",
        hint: expect.any(String),
      });
      expect(() => optionsOf({ options: { tools } })).toThrow(refused);
    },
  );
});
