import { readFileSync } from "node:fs";
import type { Clock } from "../base/clock.ts";
import { RivuletError } from "../base/error.ts";
import type { LogEvent, TaskEvent } from "../protocol/index.ts";

const maxPauseMs = 2_000;

/** How to name a run for `rivulet replay`. */
export const recordingHint =
  "Pass a file with one event per line, or the id of a task (rivulet tasks).";

/** Reads a recorded log with one event per line. */
export function readRecording(path: string): readonly LogEvent[] {
  const lines = readText(path).split("\n");
  return lines.flatMap((line, index) => (line.trim() ? [parseLine(path, line, index + 1)] : []));
}

/** Yields events with their original pauses, each at most two seconds, divided by the speed. */
export async function* paced<Event extends TaskEvent>(
  events: readonly Event[],
  speed: number,
  clock: Pick<Clock, "sleep">,
): AsyncGenerator<Event, void> {
  let last: number | undefined;
  for (const event of events) {
    const at = timeOf(event) ?? last ?? 0;
    const pause = Math.min(Math.max(at - (last ?? at), 0), maxPauseMs) / speed;
    if (pause > 0) await clock.sleep(pause);
    last = at;
    yield event;
  }
}

/** When an event was written; undefined for a frame without a time. */
export function timeOf(event: TaskEvent): number | undefined {
  return "created_at" in event ? event.created_at : undefined;
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    const options = { hint: recordingHint, cause };
    throw new RivuletError("recording_not_found", `Cannot read ${path}.`, options);
  }
}

function parseLine(path: string, line: string, number: number): LogEvent {
  try {
    return JSON.parse(line) as LogEvent;
  } catch (cause) {
    const options = { hint: recordingHint, cause };
    throw new RivuletError("recording_invalid", `${path}:${number} is not JSON.`, options);
  }
}
