import {
  convertToModelMessages,
  type ModelMessage,
  modelMessageSchema,
  type UIMessage,
  validateUIMessages,
} from "ai";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ReActAgent } from "../agent/react-agent.ts";
import { RivuletError } from "../base/error.ts";
import type { Block, Message, ToolResultBlock } from "../contract/message.ts";
import { scriptedModel } from "../testing.ts";
import { fromAiMessages, toModelMessages, toUiMessages } from "./messages.ts";

const text = fc.string({ minLength: 1 });
const base64 = fc.uint8Array({ minLength: 1, maxLength: 8 });
const signature = fc.option(fc.record({ test: fc.record({ id: text }) }), { nil: undefined });
const signed = <T extends object>(block: fc.Arbitrary<T>) =>
  fc
    .tuple(block, signature)
    .map(([fields, metadata]) =>
      metadata ? { ...fields, signature: JSON.stringify(metadata) } : fields,
    );
const textBlock = fc.record({ type: fc.constant("text" as const), text });
const media: fc.Arbitrary<Block> = fc.oneof(
  fc
    .tuple(fc.constantFrom("image/png", "audio/wav", "video/mp4", "application/pdf"), base64)
    .map(([mimeType, bytes]) => mediaOf(mimeType, Buffer.from(bytes).toString("base64"))),
  fc.constant({ type: "image", source: { url: "https://a.example/b.png" } } as const),
  fc.constant({
    type: "file",
    source: { url: "https://a.example/c.pdf", mimeType: "application/pdf" },
  } as const),
);
function mediaOf(mimeType: string, data: string): Block {
  const [kind] = mimeType.split("/");
  const type = kind === "application" ? "file" : (kind as "image");
  return { type, source: { data, mimeType } };
}
const result: fc.Arbitrary<Pick<ToolResultBlock, "output" | "state">> = fc.oneof(
  textBlock.map((block) => ({ output: [block], state: "success" as const })),
  fc.constant({ output: [], state: "success" as const }),
  fc.json().map((json) => ({
    output: [{ type: "text" as const, text: json }],
    state: "success" as const,
  })),
  fc.tuple(media, textBlock).map((blocks) => ({ output: blocks, state: "success" as const })),
  textBlock.map((block) => ({ output: [block], state: "error" as const })),
  textBlock.map((block) => ({ output: [block], state: "denied" as const })),
);
const call = fc.record({
  name: fc.constantFrom("search", "book_table"),
  input: fc.dictionary(text, fc.jsonValue()),
  result,
});

/** A turn of an agent: what it wrote, and one message with the results of its calls. */
const turn = fc
  .tuple(
    fc.array(
      fc.oneof(
        signed(textBlock),
        signed(fc.record({ type: fc.constant("thinking" as const), text })),
        media,
      ),
      { maxLength: 3 },
    ),
    fc.array(call, { maxLength: 3 }),
  )
  .filter(([blocks, calls]) => blocks.length + calls.length > 0);
const exchange = fc.tuple(
  fc.array(fc.oneof(textBlock, media), { minLength: 1, maxLength: 3 }),
  fc.array(turn, { maxLength: 3 }),
);
const history = fc
  .tuple(fc.option(text, { nil: undefined }), fc.array(exchange, { minLength: 1, maxLength: 3 }))
  .map(([system, exchanges]): Message[] => {
    let count = 0;
    const message = (role: Message["role"], content: readonly Block[]): Message => ({
      id: `m${count++}`,
      role,
      content,
    });
    const messages = system ? [message("system", [{ type: "text", text: system }])] : [];
    for (const [request, turns] of exchanges) {
      messages.push(message("user", request));
      for (const [blocks, calls] of turns) {
        const ids = calls.map(() => `call_${count++}`);
        const uses = calls.map(({ name, input }, at) => {
          return { type: "tool_use", id: ids[at] as string, name, input } as const;
        });
        messages.push(message("assistant", [...blocks, ...uses]));
        const results = calls.map(({ name, result: { output, state } }, at) => {
          return { type: "tool_result", id: ids[at] as string, name, output, state } as const;
        });
        if (results.length > 0) messages.push(message("tool", results));
      }
    }
    return messages;
  });
const withoutIds = (messages: readonly Message[]) =>
  messages.map(({ role, content }) => ({ role, content }));

describe("messages of the AI SDK", () => {
  it("ModelMessage[] and back is the same history", async () => {
    await fc.assert(
      fc.asyncProperty(history, async (messages) => {
        const converted: ModelMessage[] = toModelMessages(messages);
        for (const message of converted) modelMessageSchema.parse(message);
        expect(withoutIds(fromAiMessages(converted))).toEqual(withoutIds(messages));
      }),
    );
  });

  it("UIMessage[] and back is the same history, with the ids of requests", async () => {
    await fc.assert(
      fc.asyncProperty(history, async (messages) => {
        const converted: UIMessage[] = toUiMessages(messages);
        await validateUIMessages({ messages: converted });
        const back = fromAiMessages(converted);
        expect(withoutIds(back)).toEqual(withoutIds(messages));
        const ids = (list: readonly Message[]) =>
          list.filter(({ role }) => role === "user").map(({ id }) => id);
        expect(ids(back)).toEqual(ids(messages));
      }),
    );
  });

  it("the AI SDK converts our UIMessage[] to messages with the same text, calls and files", async () => {
    const kinds = (messages: readonly ModelMessage[]) =>
      messages.flatMap(({ role, content }) =>
        typeof content === "string"
          ? [`${role} ${content}`]
          : content.map((part) => `${role} ${part.type} ${"text" in part ? part.text : ""}`),
      );
    await fc.assert(
      fc.asyncProperty(history, async (messages) => {
        const theirs = await convertToModelMessages(toUiMessages(messages) as UIMessage[]);
        // Their conversion of a denied call also has the question and the answer.
        const compared = kinds(theirs).filter((kind) => !kind.includes(" tool-approval-"));
        expect(compared).toEqual(kinds(toModelMessages(messages)));
      }),
    );
  });

  it("takes every form of a file, and leaves the AI SDK's bookkeeping out", () => {
    const bytes = new Uint8Array([1, 2, 3]);
    const files: ModelMessage = {
      role: "user",
      content: [
        { type: "image", image: bytes },
        { type: "image", image: new URL("https://a.example/b.png") },
        { type: "image", image: "data:image/png;base64,AQID" },
        { type: "file", data: bytes.buffer, mediaType: "application/pdf", filename: "a.pdf" },
        { type: "file", data: { type: "text", text: "hi" }, mediaType: "text/plain" },
        { type: "file", data: "AQID", mediaType: "audio/wav" },
      ],
    };
    expect(fromAiMessages([files])[0]?.content).toEqual([
      { type: "image", source: { data: "AQID", mimeType: "image/*" } },
      { type: "image", source: { url: "https://a.example/b.png" } },
      { type: "image", source: { data: "AQID", mimeType: "image/png" } },
      { type: "file", source: { data: "AQID", mimeType: "application/pdf" } },
      { type: "file", source: { data: "aGk=", mimeType: "text/plain" } },
      { type: "audio", source: { data: "AQID", mimeType: "audio/wav" } },
    ]);
    const ui: UIMessage = {
      id: "u1",
      role: "assistant",
      parts: [
        { type: "step-start" },
        { type: "source-url", sourceId: "s", url: "https://a.example" },
        { type: "data-weather", data: { celsius: 3 } },
        {
          type: "dynamic-tool",
          toolName: "look",
          toolCallId: "c",
          state: "input-available",
          input: {},
        },
        { type: "steering-message", id: "s1", parts: [{ type: "text", text: "Faster." }] },
        { type: "text", text: "Yes." },
      ],
    };
    expect(fromAiMessages([ui])).toEqual([
      {
        id: "u1",
        role: "assistant",
        content: [{ type: "tool_use", id: "c", name: "look", input: {} }],
      },
      { id: "s1", role: "user", content: [{ type: "text", text: "Faster." }] },
      { id: expect.any(String), role: "assistant", content: [{ type: "text", text: "Yes." }] },
    ]);
  });

  it("shows a file with an invalid URL as text", () => {
    const image = { type: "image", source: { url: "b.png" } } as const;
    const messages: Message[] = [{ id: "1", role: "user", content: [image] }];
    const text = "[image: b.png]";
    expect(toModelMessages(messages)).toEqual([
      { role: "user", content: [{ type: "text", text }] },
    ]);
    expect(toUiMessages(messages)[0]?.parts).toEqual([{ type: "text", text, state: "done" }]);
  });

  it.each([
    [[7], "messages[0]"],
    [[{ role: "robot", content: "x" }], "messages[0].role"],
    [[{ role: "user", content: 7 }], "messages[0].content"],
    [[{ role: "user", content: [{ type: "hologram" }] }], "messages[0].content[0]"],
    [[{ role: "user", content: [{ type: "image", image: { openai: "f1" } }] }], "content[0]"],
    [[{ id: "a", role: "tool", parts: [] }], "messages[0].role"],
    [[{ role: "tool", content: [{ type: "tool-result", output: 7 }] }], "content[0].output"],
  ])("rejects %j with its place", (messages, place) => {
    const convert = () => fromAiMessages(messages as never);
    expect(convert).toThrow(RivuletError);
    expect(convert).toThrow(place);
  });
});

it("call() takes history as { role, content: text }, and converted messages", async () => {
  const model = scriptedModel(["Ann.", "Still Ann."]);
  const agent = new ReActAgent({ name: "assistant", model });
  await agent.call([
    { role: "user", content: "I am Ann." },
    { role: "assistant", content: "Hello, Ann." },
    { role: "user", content: "Who am I?" },
  ]);
  const ui: UIMessage[] = [{ id: "1", role: "user", parts: [{ type: "text", text: "Who am I?" }] }];
  await agent.call(fromAiMessages(ui));
  expect(model.calls[0]?.prompt.map(({ role }) => role)).toEqual(["user", "assistant", "user"]);
  expect(JSON.stringify(model.calls[1]?.prompt)).toContain("Who am I?");
  const wrong = agent.call({ role: "user", content: 7 } as never);
  await expect(wrong).rejects.toMatchObject({ code: "invalid_input" });
});
