import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { emptyTree, reduce } from "../protocol/reduce.ts";
import { readRecording, replay } from "./replay.ts";
import { watch } from "./screen.ts";

const events = readRecording("examples/recorded-run.jsonl");

it("replays every event with the recorded pauses", async () => {
  const slept: number[] = [];
  const watcher = watch({
    columns: 80,
    rows: 24,
    live: true,
    style: (_, text) => text,
    write() {},
  });
  await replay(events, watcher, { sleep: async (ms) => void slept.push(ms) });
  expect(watcher.tree).toEqual(reduce(emptyTree(), events));
  expect(slept).toHaveLength(events.length);
  expect(Math.max(...slept)).toBeLessThanOrEqual(2000);
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
