import { readFileSync } from "node:fs";
import type { Clock } from "../protocol/clock.ts";
import { RivuletError } from "../protocol/error.ts";
import type { LogEvent } from "../protocol/event.ts";
import { TaskTree } from "../protocol/reduce.ts";
import type { Tree } from "../protocol/task.ts";
import type { Canvas } from "./render.ts";
import { renderTree } from "./render.ts";

/** Where a replay is shown. */
export interface Screen extends Canvas {
  readonly rows: number;
  /** A terminal can be painted over; anything else gets the end state, once. */
  readonly live: boolean;
  write(text: string): void;
}

/** No pause of a recording is played for longer than this. */
const longestPauseMs = 2000;

/** Reads a recorded log: one event per line. */
export function readRecording(path: string): readonly LogEvent[] {
  return readText(path)
    .split("\n")
    .flatMap((line, index) => (line.trim() === "" ? [] : [parseLine(path, line, index + 1)]));
}

/** Plays a recording at its own pace through the reducer and hands back the tree it folds into. */
export async function replay(
  events: readonly LogEvent[],
  screen: Screen,
  clock: Clock,
): Promise<Tree> {
  const tree = new TaskTree();
  if (!screen.live) {
    const end = tree.apply(events).tree;
    screen.write(`${renderTree(end, screen).join("\n")}\n`);
    return end;
  }
  let painted = 0;
  let last = events[0]?.created_at ?? 0;
  for (const event of events) {
    await clock.sleep(Math.min(Math.max(event.created_at - last, 0), longestPauseMs));
    last = event.created_at;
    // While it plays, only what fits on the screen can be painted over.
    const lines = renderTree(tree.apply(event).tree, screen).slice(1 - screen.rows);
    screen.write(paint(lines, painted));
    painted = lines.length;
  }
  screen.write(paint(renderTree(tree.tree, screen), painted));
  return tree.tree;
}

// One frame over the last one, shown at once and without wrapping, so that a line stays a line.
function paint(lines: readonly string[], painted: number): string {
  const up = painted > 0 ? `\x1b[${painted}A` : "";
  const rows = lines.map((line) => `${line}\x1b[K\n`).join("");
  return `\x1b[?2026h\x1b[?7l${up}\r${rows}\x1b[J\x1b[?7h\x1b[?2026l`;
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new RivuletError("recording_not_found", `Cannot read ${path}.`, {
      hint: "A recording is a file with one event per line.",
      cause,
    });
  }
}

function parseLine(path: string, line: string, number: number): LogEvent {
  try {
    return JSON.parse(line) as LogEvent;
  } catch (cause) {
    throw new RivuletError("recording_invalid", `${path}:${number} is not JSON.`, {
      hint: "A recording is a file with one event per line.",
      cause,
    });
  }
}
