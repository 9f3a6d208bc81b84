// One id per message: what the chunks of a message say, its `last` event and the transcript agree.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { textOf } from "../../src/contract/message.ts";
import {
  type AgentEvent,
  agentTool,
  type Hook,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  tool,
} from "../../src/index.ts";
import { type ScriptedPart, type ScriptedTurn, scriptedModel } from "../../src/testing.ts";
import { collect } from "./support/collect.ts";

const unavailable = Object.assign(new Error("busy"), { statusCode: 503, isRetryable: true });
const look = tool({
  name: "look",
  description: "Looks.",
  execute(_, { emit, callId }) {
    emit("Looking. ");
    emit("Seen.");
    return callId; // another result each time
  },
});

/** The pattern of the guide: the text of each message, by its id. */
function textsOf(events: readonly AgentEvent[], isAccumulated = false): Map<string, string> {
  const texts = new Map<string, string>();
  for (const { message, text, last, retracted } of events) {
    const before = last || retracted || isAccumulated ? "" : (texts.get(message.id) ?? "");
    texts.set(message.id, before + text);
  }
  return texts;
}

/** The same from chunks alone. */
function chunkTexts(events: readonly AgentEvent[], isAccumulated: boolean): Map<string, string> {
  return textsOf(
    events.filter(({ last }) => !last),
    isAccumulated,
  );
}

const piece = fc.string({ minLength: 1, maxLength: 6 });
const pieces = fc.array(piece, { minLength: 1, maxLength: 3 });
const part: fc.Arbitrary<ScriptedPart> = fc.oneof(
  pieces.map((text) => ({ text })),
  pieces.map((thinking) => ({ thinking })),
);
const parts = fc.array(part, { minLength: 1, maxLength: 4 });
/** A turn that calls tools, one that breaks, or one that goes to a child. */
const turn: fc.Arbitrary<readonly ScriptedTurn[]> = fc.oneof(
  parts.map((said) => [[...said, { call: "look" }]]),
  parts.map((said) => [[{ call: "look" }, ...said, { call: "look" }]]),
  parts.map((said) => [
    [...said, { error: unavailable }],
    [...said, { call: "look" }],
  ]),
  parts.map((said) => [[...said, { call: "helper", input: { prompt: "x" } }]]),
);
const script = fc
  .tuple(fc.array(turn, { maxLength: 3 }), parts, piece)
  .map(([turns, said, end]) => [...turns.flat(), [...said, `${end}.`]] as readonly ScriptedTurn[]);
const shout: Hook = {
  name: "shout",
  postReasoning: (_, message) => ({
    ...message,
    content: message.content.map((block) =>
      block.type === "text" ? { ...block, text: block.text.toUpperCase() } : block,
    ),
  }),
};

describe("the events of one message", () => {
  it("have one id: chunks, last events and transcripts say the same", async () => {
    const property = fc.asyncProperty(
      script,
      fc.boolean(),
      fc.boolean(),
      fc.boolean(),
      async (turns, incremental, isEdited, isShort) => {
        const store = memoryStore();
        const thinking = { thinking: ["Hm", "."] };
        const helper = new ReActAgent({
          name: "helper",
          model: scriptedModel(() => [thinking, { text: ["Hel", "ped."] }]),
        });
        const options: Partial<ReActAgentOptions> = isShort ? { maxIters: 1 } : {};
        const agent = new ReActAgent({
          name: "lead",
          model: scriptedModel([...turns, "More.", "More."]),
          modelExecution: { initialBackoffMs: 0, maxBackoffMs: 0 },
          tools: [look, agentTool(helper)],
          hooks: isEdited ? [shout] : [],
          store,
          ...options,
        });
        const events = await collect(agent.stream("Go.", { sessionId: "s", incremental }));
        const isSpoken = ({ type }: AgentEvent) => type === "reasoning" || type === "summary";
        const spoken = events.filter(isSpoken);
        const whole = new Map(
          spoken.flatMap(({ last, message, text }) => (last ? [[message.id, text] as const] : [])),
        );
        const hasText = ([, text]: readonly [string, string]) => text !== "";
        const streamed = [...chunkTexts(spoken, !incremental)].filter(hasText);
        expect(streamed).toEqual([...whole].filter(hasText));
        const tasks = await store.tasks({});
        const messages = (
          await Promise.all(tasks.map(({ sessionId }) => store.session(sessionId)))
        ).flat();
        const said = messages.filter(({ role }) => role === "assistant");
        const stored = new Map(said.map(({ id, content }) => [id, textOf(content)]));
        expect(new Map([...whole].sort())).toEqual(new Map([...stored].sort()));
        const results = events.filter(({ type }) => type === "tool_result");
        for (const { message } of results)
          expect(messages.some(({ id }) => id === message.id)).toBe(true);
        const ends = events.filter(({ type }) => type === "agent_result");
        for (const { message, text } of ends) expect(whole.get(message.id)).toBe(text);
        expect(textsOf(events, !incremental).get(ends.at(-1)?.message.id ?? "")).toBe(
          ends.at(-1)?.text,
        );
      },
    );
    await fc.assert(property, { numRuns: 60 });
  });

  it("show the text of a thinking model once", async () => {
    const model = scriptedModel([[{ thinking: ["Hm", "."] }, { text: ["Hello ", "you."] }]]);
    const agent = new ReActAgent({ name: "lead", model });
    const events = await collect(agent.stream("Hi."));
    expect([...textsOf(events).values()]).toEqual(["Hello you."]);
    expect(events.map(({ message }) => message.id)).toEqual(
      Array(events.length).fill(events[0]?.message.id),
    );
  });

  it("keep the id when a cancel cuts the message", async () => {
    const store = memoryStore();
    const model = scriptedModel([[{ call: "look" }, { text: ["Half"] }, { hang: true }]]);
    const agent = new ReActAgent({ name: "lead", model, store, tools: [look] });
    const run = agent.run("Go.", { sessionId: "s" });
    for await (const event of run) if (event.type === "task.text.delta") void run.cancel();
    const { id } = await run.result();
    const stored = (await store.session("s")).at(-1);
    expect([stored?.id, textOf(stored?.content ?? [])]).toEqual([id, "Half"]);
    const added = (await store.read((await run.task).taskId, -1, 100)).flatMap((event) =>
      event.type === "task.output_item.added" ? [event.item] : [],
    );
    expect(added).toMatchObject([{ message_id: id }, { message_id: id }]);
  });
});
