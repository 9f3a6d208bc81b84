import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { TaskEvent } from "../protocol/event.ts";
import { paced, readRecording } from "./recording.ts";

const events = readRecording("examples/recorded-run.jsonl");

it("plays every event with the recorded pauses, divided by the speed", async () => {
  for (const speed of [1, 4]) {
    const slept: number[] = [];
    const played: TaskEvent[] = [];
    const clock = { sleep: async (ms: number) => void slept.push(ms) };
    for await (const event of paced(events, speed, clock)) played.push(event);
    expect(played).toEqual(events);
    expect(slept.length).toBeGreaterThan(0);
    expect(Math.max(...slept)).toBeLessThanOrEqual(2000 / speed);
  }
});

it("plays without pauses at the highest speed", async () => {
  const sleep = () => Promise.reject(new Error("slept"));
  let count = 0;
  for await (const _ of paced(events, Number.POSITIVE_INFINITY, { sleep })) count += 1;
  expect(count).toBe(events.length);
});

it("reports the line of a recording that is not JSON", () => {
  const folder = mkdtempSync(join(tmpdir(), "rivulet-replay-"));
  const file = join(folder, "broken.jsonl");
  writeFileSync(file, '{"type":"task.created"}\n\n{"type":\n');
  expect(() => readRecording(file)).toThrow(
    expect.objectContaining({ code: "recording_invalid", message: `${file}:3 is not JSON.` }),
  );
  rmSync(folder, { recursive: true });
  expect(() => readRecording(file)).toThrow(
    expect.objectContaining({ code: "recording_not_found" }),
  );
});
