import { describe, expect, it } from "vitest";
import { systemClock } from "../protocol/clock.ts";
import { callHooks, type Hook, inOrder, tellAnyway } from "./hook.ts";

const hook = (name: string, preCall: () => unknown, priority?: number): Hook => ({
  name,
  preCall: preCall as () => void,
  ...(priority !== undefined && { priority }),
});
const call = (hooks: readonly Hook[]) =>
  callHooks(
    { hooks, clock: systemClock, signal: new AbortController().signal },
    "preCall",
    "",
    (one) => one.preCall?.({} as never, []),
    (value, returned) => value + String(returned),
  );

describe("hooks", () => {
  it("stand by priority, 100 where none is given, else as they were registered", () => {
    const names = inOrder([
      hook("late", () => {}, 900),
      hook("first of two", () => {}),
      hook("second of two", () => {}, 100),
      hook("early", () => {}, 0),
    ]).map(({ name }) => name);
    expect(names).toEqual(["early", "first of two", "second of two", "late"]);
  });

  it("are awaited one after the other, and the next one gets what came of those before", async () => {
    const slow = hook("slow", () => new Promise((resolve) => setImmediate(resolve, "a")));
    expect(await call([slow, { name: "elsewhere", postCall() {} }, hook("b", () => "b")])).toBe(
      "ab",
    );
  });

  it("that throw are named, those of a child by their own name", async () => {
    const inner = call([
      hook("inner", () => {
        throw new Error("no");
      }),
    ]);
    await expect(call([hook("outer", () => inner)])).rejects.toMatchObject({
      code: "hook_failed",
      message: "Hook inner failed in preCall: no",
    });
  });

  it("that nobody waits for break nothing, now or later", async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => unhandled.push(reason);
    process.on("unhandledRejection", note);
    tellAnyway(() => {
      throw new Error("now");
    });
    tellAnyway(() => Promise.reject(new Error("later")));
    await new Promise((resolve) => setImmediate(resolve));
    process.off("unhandledRejection", note);
    expect(unhandled).toEqual([]);
  });
});
