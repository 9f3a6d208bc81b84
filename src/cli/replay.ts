import { existsSync } from "node:fs";
import { systemClock } from "../base/clock.ts";
import { isTerminal, type TaskEvent } from "../protocol/index.ts";
import { readFrames } from "../store/index.ts";
import { type Arguments, usageError } from "./arguments.ts";
import type { Console } from "./console.ts";
import { plainEnding, renderEnding } from "./ending.ts";
import { deviceOf, openScreen } from "./live-screen.ts";
import { resumeCommand } from "./outcome.ts";
import { createPlainView } from "./plain-view.ts";
import { paced, readRecording, recordingHint, timeOf } from "./recording.ts";
import { createRunView } from "./run-view.ts";
import { findStored, followStored, openExisting } from "./stored.ts";

const repaintMs = 80;

/** `rivulet replay`: plays a run from a file or from the store. */
export async function replayRun({ operands, flags }: Arguments, console: Console): Promise<number> {
  const [source] = operands;
  if (source === undefined)
    throw usageError("rivulet replay needs a task or a file.", recordingHint);
  const speed = speedOf(flags.speed, console.isTerminal && !flags.json);
  const isFile = existsSync(source) || /[\\/]|\.jsonl?$/.test(source);
  const events = isFile ? readRecording(source) : await readStored(source);
  await show(paced(events, speed, systemClock), flags.json ?? false, console);
  return 0;

  async function readStored(id: string): Promise<readonly TaskEvent[]> {
    const store = await openExisting(flags, console);
    const { taskId } = await findStored(store, id);
    const events: TaskEvent[] = [];
    for (let after = -1, more = true; more; ) {
      const { frames, through, mayHaveMore } = await readFrames(store, taskId, after, 1_000);
      events.push(...frames);
      [after, more] = [through, mayHaveMore && frames.length > 0];
    }
    await store.close();
    return events;
  }
}

/** `rivulet watch`: follows a run of another process. */
export async function watchRun({ operands, flags }: Arguments, console: Console): Promise<number> {
  const store = await openExisting(flags, console);
  const { taskId, sessionId, status } = await findStored(store, operands[0]);
  const stop = new AbortController();
  process.on("SIGINT", () => stop.abort());
  if (!flags.json)
    console.note(
      `Watching ${taskId} of session ${sessionId}. Ctrl-C ends watching; the run continues.`,
    );
  if (!flags.json && !isTerminal(status) && (await store.owner(sessionId)) === undefined)
    console.note(
      `No process works on it now. To continue it: ${resumeCommand(flags, console.env, sessionId)}`,
    );
  await show(followStored(store, taskId, stop.signal), flags.json ?? false, console);
  await store.close();
  return stop.signal.aborted ? 130 : 0;
}

/** Shows events as they come: on a live screen, as lines, or as JSON. */
async function show(
  events: AsyncIterable<TaskEvent>,
  json: boolean,
  console: Console,
): Promise<void> {
  if (json) {
    for await (const event of events) console.print(JSON.stringify(event));
    return;
  }
  if (!console.isTerminal) {
    const view = createPlainView(console.print);
    for await (const event of events) view.see(event);
    for (const line of plainEnding(view.tree, console.canvas)) console.print(line);
    return;
  }
  const { stdout } = process;
  const screen = openScreen(deviceOf(stdout), console.canvas.style);
  let now = 0;
  const view = createRunView(screen, () => now);
  const paint = () => screen.paint(view.render(screen.rows - 1));
  const onResize = () => {
    screen.resized();
    paint();
  };
  stdout.on("resize", onResize);
  const restore = () => screen.close();
  process.once("exit", restore);
  let paintedAt = 0;
  for await (const event of events) {
    now = timeOf(event) ?? now;
    const lines = view.see(event);
    if (lines.length > 0) screen.print(lines);
    if (performance.now() - paintedAt < repaintMs) continue;
    paint();
    paintedAt = performance.now();
  }
  stdout.off("resize", onResize);
  restore();
  process.off("exit", restore);
  for (const line of renderEnding(view.tree, console.canvas)) console.print(line);
}

/** Without a terminal the run is printed without pauses. */
function speedOf(given: string | undefined, isWatched: boolean): number {
  if (given === undefined) return isWatched ? 1 : Number.POSITIVE_INFINITY;
  if (given === "max") return Number.POSITIVE_INFINITY;
  const speed = Number(given);
  if (speed > 0 && speed <= 1_000) return speed;
  throw usageError(
    `--speed must be a number from 0.01 to 1000 or max, got ${JSON.stringify(given.slice(0, 40))}.`,
    "Write --speed 4 to play four times as fast.",
  );
}
