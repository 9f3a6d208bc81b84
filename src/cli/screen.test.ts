import { expect, it } from "vitest";
import { emptyTree, reduce } from "../protocol/reduce.ts";
import { renderTree } from "./render.ts";
import { readRecording } from "./replay.ts";
import { type Screen, watch } from "./screen.ts";

const events = readRecording("examples/recorded-run.jsonl");
const plain = { columns: 80, rows: 1000, style: (_: string, text: string) => text };

// biome-ignore lint/suspicious/noControlCharactersInRegex: terminal escape sequences
const tokens = /\x1b\[(\d+)A|\x1b\[\?\d+[hl]|\x1b\[[KJ]|[^\x1b]/gu;

/** A minimal terminal: the lines on it after all writes. */
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

it("repaints the tree over the last frame, notes and typed lines", () => {
  const { lines, write } = terminal();
  const watcher = watch({ ...plain, live: true, write });
  for (const [index, event] of events.entries()) {
    watcher.see(event);
    if (index !== 40) continue;
    watcher.note("lead wants something");
    write("Allow it? y\n");
    watcher.typed();
  }
  expect(lines).toEqual(renderTree(watcher.tree, plain));
  watcher.end();
  expect(lines).toEqual(renderTree(watcher.tree, plain));
  expect(watcher.tree).toEqual(reduce(emptyTree(), events));
});

it("never paints more rows than the screen has, and folds completed children first", () => {
  const frames: string[] = [];
  const screen: Screen = { ...plain, rows: 12, live: true, write: (text) => frames.push(text) };
  const watcher = watch(screen);
  for (const event of events) watcher.see(event);
  for (const frame of frames) expect(frame.split("\n").length - 1).toBeLessThan(12);
  const folded = renderTree(watcher.tree, plain, { folded: true });
  expect(frames.at(-1)).toContain(folded.slice(-11).join("\x1b[K\n"));
  expect(folded).toContain("    researcher sess-rivers/researcher completed");
  expect(folded.join("\n")).not.toContain("fact-checker completed");
});

it("writes one line per entry, with the agent's path, without a terminal", () => {
  let written = "";
  const watcher = watch({ ...plain, live: false, write: (text) => (written += text) });
  for (const event of events) watcher.see(event);
  watcher.end();
  expect(written).not.toContain("\x1b");
  const lines = written.trimEnd().split("\n");
  for (const line of lines) expect(line).toMatch(/^\[sess-rivers[^\]]*\] /);
  expect(lines[0]).toBe("[sess-rivers] begins");
  expect(lines).toContain("[sess-rivers/researcher/fact-checker] begins");
  expect(lines).toContain("[sess-rivers/researcher#2] is completed");
  expect(written).toMatch(
    /asks May I write rivers\.md\? \(waiting\)\n.*asks .* → approve by ann\n/s,
  );
  expect(lines.at(-1)).toBe("[sess-rivers] is completed");
});
