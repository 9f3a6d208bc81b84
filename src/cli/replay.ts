import { readFileSync } from "node:fs";
import type { Clock } from "../protocol/clock.ts";
import { RivuletError } from "../protocol/error.ts";
import type { LogEvent } from "../protocol/event.ts";
import type { Watcher } from "./screen.ts";

const maxPauseMs = 2000;
const hint = "Pass a file with one event per line.";

/** Reads a recorded log with one event per line. */
export function readRecording(path: string): readonly LogEvent[] {
  const lines = readText(path).split("\n");
  return lines.flatMap((line, index) => (line.trim() ? [parseLine(path, line, index + 1)] : []));
}

/** Replays a recording with its original pauses, each at most two seconds. */
export async function replay(
  events: readonly LogEvent[],
  watcher: Watcher,
  clock: Pick<Clock, "sleep">,
): Promise<void> {
  let last = events[0]?.created_at ?? 0;
  for (const event of events) {
    await clock.sleep(Math.min(Math.max(event.created_at - last, 0), maxPauseMs));
    last = event.created_at;
    watcher.see(event);
  }
  watcher.end();
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new RivuletError("recording_not_found", `Cannot read ${path}.`, { hint, cause });
  }
}

function parseLine(path: string, line: string, number: number): LogEvent {
  try {
    return JSON.parse(line) as LogEvent;
  } catch (cause) {
    throw new RivuletError("recording_invalid", `${path}:${number} is not JSON.`, { hint, cause });
  }
}
