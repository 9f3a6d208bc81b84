import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Block, Message } from "../../contract/message.ts";
import { isRunnable, nextStep, StepState, stopCallId } from "./next.ts";

let count = 0;
const message = (role: Message["role"], content: readonly Block[], name?: string): Message => ({
  id: `m${++count}`,
  role,
  content,
  ...(name !== undefined && { name }),
});
const text = (value: string): Block => ({ type: "text", text: value });
const call = (id: string): Block => ({ type: "tool_use", id, name: "tool", input: {} });
const user = (value: string) => message("user", [text(value)]);
const said = (...content: Block[]) => message("assistant", content, "lead");
const cutOff = (...content: Block[]): Message => ({
  ...said(...content),
  metadata: { finish: "length" },
});
const result = (id: string) =>
  message("tool", [{ type: "tool_result", id, name: "tool", output: [], state: "success" }]);
const suspended = (callId: string, approvalId: string) =>
  message("tool", [{ type: "suspension", callId, kind: "approval", approvalId }]);
const answered = (callId: string, approvalId: string) =>
  message("user", [{ type: "answer", callId, approvalId, decision: "approve" }]);

/** The step, with the ids of the calls that have no result. */
function step(...messages: Message[]): string {
  const next = nextStep(Object.freeze(messages), "lead");
  const calls = "calls" in next ? next.calls.map((pending) => pending.call.id) : [];
  return [next.type, ...calls].join(" ");
}

describe("what comes next", () => {
  it.each(["image", "audio", "video", "file"] as const)(
    "after a reply that is only a block of type %s is nothing",
    (type) => {
      const source = { data: "AAAA", mimeType: "x/y" };
      expect(step(user("Draw."), said({ type, source }))).toBe("done");
    },
  );

  it.each<[string, readonly Message[], string]>([
    ["at the beginning", [], "reason"],
    ["after what the user said", [user("hi")], "reason"],
    ["after an answer", [user("hi"), said(text("hello"))], "done"],
    ["after a blank answer", [user("hi"), said(text(" "))], "reason"],
    ["after thinking alone", [user("hi"), said({ type: "thinking", text: "hm" })], "reason"],
    ["after nothing, when it was filtered", [user("hi"), cutOff()], "done"],
    ["after a part of it, when it was cut", [user("hi"), cutOff(text("he"))], "done"],
    ["after that and more from the user", [user("hi"), cutOff(), user("so?")], "reason"],
    ["after an answer and more from the user", [said(text("hello")), user("and?")], "reason"],
    ["after calls", [said(text("I will."), call("a"), call("b"))], "act a b"],
    ["after some of the results", [said(call("a"), call("b")), result("b")], "act a"],
    ["after all of the results", [said(text("."), call("a")), result("a")], "reason"],
    ["when the only call waits", [said(call("a")), suspended("a", "1")], "wait a"],
    [
      "when one waits and one can move",
      [said(call("a"), call("b")), suspended("a", "1")],
      "act a b",
    ],
    [
      "when what waited was answered",
      [said(call("a")), suspended("a", "1"), answered("a", "1")],
      "act a",
    ],
    [
      "when it waits again",
      [said(call("a")), suspended("a", "1"), answered("a", "1"), suspended("a", "2")],
      "wait a",
    ],
    [
      "when the answer is to something else",
      [said(call("a")), suspended("a", "1"), answered("a", "0")],
      "wait a",
    ],
    ["after a stop", [said(text("yes")), suspended(stopCallId, "1")], "wait"],
    ["after a stop with calls", [said(call("a")), suspended(stopCallId, "1")], "wait a"],
    [
      "after an answered stop",
      [said(text("yes")), suspended(stopCallId, "1"), answered(stopCallId, "1")],
      "done",
    ],
    [
      "when another agent spoke last",
      [said(text("yes")), message("assistant", [text("no")], "other")],
      "reason",
    ],
    ["when another agent has open calls", [message("assistant", [call("x")], "other")], "reason"],
    [
      "after a compaction",
      [said(text("yes")), message("system", [{ type: "compaction", summary: "", keepFrom: 0 }])],
      "done",
    ],
  ])("%s", (_, messages, wanted) => {
    expect(step(...messages)).toBe(wanted);
  });

  it("says what each call waits for, and what was said to it", () => {
    const next = nextStep(
      [said(call("a"), call("b")), suspended("a", "1"), answered("a", "1")],
      "lead",
    );
    expect(next).toMatchObject({
      calls: [
        { call: { id: "a" }, suspension: { approvalId: "1" }, answer: { decision: "approve" } },
        { call: { id: "b" } },
      ],
    });
    expect("calls" in next && next.calls[1]).not.toHaveProperty("suspension");
  });
});

describe("a step that is kept up to date", () => {
  const ids = ["a", "b", "c", stopCallId];
  const callId = fc.constantFrom(...ids);
  const approvalId = fc.constantFrom("1", "2", "3");
  const kind = fc.constantFrom("approval", "stop", "external");
  const decision = fc.constantFrom("approve", "deny", "edit", "answer");
  const block: fc.Arbitrary<Block> = fc.oneof(
    callId.map(
      (id): Block => ({ type: "tool_result", id, name: "t", output: [], state: "success" }),
    ),
    fc.record({ type: fc.constant("suspension"), callId, kind, approvalId }) as fc.Arbitrary<Block>,
    fc.record({ type: fc.constant("answer"), callId, approvalId, decision }) as fc.Arbitrary<Block>,
    fc.constant(text("more")),
  );
  const calls = fc.uniqueArray(fc.constantFrom("a", "b", "c"));
  const reply = calls.map((asked) => said(text("."), ...asked.map(call)));
  const other = fc.array(block, { maxLength: 3 }).map((content) => message("tool", content));
  const added = fc.oneof({ weight: 1, arbitrary: reply }, { weight: 5, arbitrary: other });

  it("equals the next step of the whole transcript after each message", () => {
    fc.assert(
      fc.property(fc.array(added, { maxLength: 30 }), (transcript) => {
        const messages: Message[] = [];
        const kept = new StepState(messages, "lead");
        for (const one of transcript) {
          messages.push(one);
          const next = nextStep(messages, "lead");
          expect(kept.next).toEqual(next);
          const { stop, stoppedAfter, calls = [] } = "calls" in next ? next : { calls: [] };
          expect(kept.stoppedAfter).toBe(stoppedAfter);
          expect([...kept.runnable()]).toEqual(stop ? [] : calls.filter(isRunnable));
        }
      }),
      { numRuns: 500 },
    );
  });

  it("reads each message of a long batch of results once", () => {
    let reads = 0;
    const count = 2_000;
    const messages = [said(...Array.from({ length: count }, (_, at) => call(`${at}`)))];
    const counted = new Proxy(messages, {
      get(target, key) {
        if (key !== "length") reads += 1;
        return Reflect.get(target, key);
      },
    });
    const kept = new StepState(counted, "lead");
    for (let at = 0; at < count; at++) {
      messages.push(result(`${at}`));
      expect(kept.stoppedAfter).toBeUndefined();
    }
    expect(kept.next.type).toBe("reason");
    expect(reads).toBeLessThanOrEqual(3 * count);
  });
});
