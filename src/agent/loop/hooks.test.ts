import { describe, expect, it } from "vitest";
import { systemClock } from "../../base/clock.ts";
import type { Hook } from "../../contract/hook.ts";
import { callHooks, inOrder, tellAnyway } from "./hooks.ts";

const hook = (name: string, preCall: () => unknown, priority?: number): Hook => ({
  name,
  preCall: preCall as () => void,
  ...(priority !== undefined && { priority }),
});
const call = (hooks: readonly Hook[]) =>
  callHooks(
    {
      settings: { hooks, clock: systemClock },
      control: { controller: new AbortController(), cancelledAt: undefined },
    },
    "preCall",
    "",
    (one) => one.preCall?.({} as never, []),
    (value, returned) => value + String(returned),
  );

describe("hooks", () => {
  it("are sorted by priority, which defaults to 100, then by registration", () => {
    const names = inOrder([
      hook("late", () => {}, 900),
      hook("first of two", () => {}),
      hook("second of two", () => {}, 100),
      hook("early", () => {}, 0),
    ]).map(({ name }) => name);
    expect(names).toEqual(["early", "first of two", "second of two", "late"]);
  });

  it("are awaited in order, and each gets the value of the previous one", async () => {
    const slow = hook("slow", () => new Promise((resolve) => setImmediate(resolve, "a")));
    expect(await call([slow, { name: "elsewhere", postCall() {} }, hook("b", () => "b")])).toBe(
      "ab",
    );
  });

  it("that throw are named, also those of a child", async () => {
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

  it("that are not awaited break nothing, now or later", async () => {
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
