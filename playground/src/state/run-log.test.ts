import { readFileSync } from "node:fs";
import { emptyTree, type LogEvent, reduce } from "rivulet/protocol";
import { describe, expect, it } from "vitest";
import { RunLog } from "./run-log.ts";

const events = readFileSync("test/corpus/canonical.jsonl", "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as LogEvent);
const plain = (value: unknown) => JSON.parse(JSON.stringify(value));

describe("a recorded log", () => {
  const log = () => new RunLog({ taskId: "task_r", input: "", startedAt: 0, events });

  it("has at every event the fold of the events up to it, in any order of jumps", () => {
    const shown = log();
    const jumps = [...events.keys()].flatMap((at) => [at, events.length - 1 - at]);
    for (const at of jumps) {
      shown.seek(at);
      const expected = reduce(emptyTree(), events.slice(0, at + 1));
      expect(plain(shown.getSnapshot().tree)).toEqual(plain(expected));
      expect(shown.getSnapshot().at).toBe(at);
    }
    shown.seek(undefined);
    expect(plain(shown.getSnapshot().tree)).toEqual(plain(reduce(emptyTree(), events)));
  });

  it("keeps within the log", () => {
    const shown = log();
    shown.seek(1e9);
    expect(shown.getSnapshot().at).toBe(events.length - 1);
    shown.seek(-5);
    expect(shown.getSnapshot().at).toBe(0);
  });

  it("knows what each agent did and when", () => {
    const { lanes } = log();
    for (const { spans, startedAt, endedAt = Number.POSITIVE_INFINITY } of lanes.values()) {
      let last = startedAt;
      for (const { from, to = endedAt } of spans) {
        expect(from).toBeGreaterThanOrEqual(last);
        expect(to).toBeGreaterThanOrEqual(from);
        last = to;
      }
    }
    expect(lanes.size).toBeGreaterThan(1);
  });
});
