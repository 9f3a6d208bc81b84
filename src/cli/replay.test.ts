import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { Clock } from "../protocol/clock.ts";
import { emptyTree, reduce } from "../protocol/reduce.ts";
import { renderTree } from "./render.ts";
import type { Screen } from "./replay.ts";
import { readRecording, replay } from "./replay.ts";

const events = readRecording("examples/recorded-run.jsonl");
const plain = { columns: 80, rows: 1000, style: (_: string, text: string) => text };

// biome-ignore lint/suspicious/noControlCharactersInRegex: this is what a terminal obeys
const tokens = /\x1b\[(\d+)A|\x1b\[\?\d+[hl]|\x1b\[[KJ]|[^\x1b]/gu;

/** A terminal as far as a replay uses one: what stands on it after everything written. */
function terminal() {
  const lines: string[] = [];
  let row = 0;
  let line = "";
  const write = (text: string) => {
    for (const [token, count] of text.matchAll(tokens)) {
      if (count !== undefined) row -= Number(count);
      else if (token === "\x1b[J") lines.splice(row);
      else if (token === "\r") line = "";
      else if (token === "\n") {
        lines[row++] = line;
        line = "";
      } else if (!token.startsWith("\x1b")) line += token;
    }
  };
  return { lines, write };
}

function recordingClock(): Clock & { readonly slept: number[] } {
  const slept: number[] = [];
  return { slept, now: () => 0, sleep: async (ms) => void slept.push(ms) };
}

it("paints every state over the last one, at the recording's pace", async () => {
  const { lines, write } = terminal();
  const clock = recordingClock();
  const tree = await replay(events, { ...plain, live: true, write }, clock);
  expect(lines).toEqual(renderTree(tree, plain));
  expect(tree).toEqual(reduce(emptyTree(), events));
  expect(clock.slept).toHaveLength(events.length);
  expect(Math.max(...clock.slept)).toBeLessThanOrEqual(2000);
});

it("never paints more than the screen can take back", async () => {
  const frames: string[] = [];
  const screen: Screen = { ...plain, rows: 10, live: true, write: (text) => frames.push(text) };
  await replay(events, screen, recordingClock());
  for (const frame of frames.slice(0, -1)) expect(frame.split("\n").length - 1).toBeLessThan(10);
});

it("writes the end state once where nothing can be painted over", async () => {
  const written: string[] = [];
  const screen: Screen = { ...plain, live: false, write: (text) => written.push(text) };
  const clock = recordingClock();
  const tree = await replay(events, screen, clock);
  expect(written).toEqual([`${renderTree(tree, plain).join("\n")}\n`]);
  expect(clock.slept).toEqual([]);
});

it("says which line of a recording is broken", () => {
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
