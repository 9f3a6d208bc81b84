import { describe, expect, it } from "vitest";
import { finishReasonOf } from "./finish.ts";

describe("why a model stopped", () => {
  it.each([
    ["stop", "stop"],
    ["tool-calls", "tool-calls"],
    ["unknown", "cut"],
    [{ unified: "length", raw: "max_tokens" }, "length"],
    [{ unified: "other", raw: "pause_turn" }, "other"],
    [{ unified: "other", raw: undefined }, "cut"],
    [{ unified: "error", raw: undefined }, "error"],
  ] as const)("%j is %s", (reason, finish) => {
    expect(finishReasonOf(reason)).toBe(finish);
  });
});
