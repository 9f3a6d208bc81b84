import type { ControlFrame } from "../event.ts";
import { controlFrames, logEvents, origin, snapshot, streamError } from "../grammar.ts";
import type { Fields } from "../shape.ts";
import type { Check } from "./state.ts";
import { report, show } from "./state.ts";

const shapes = new Map<string, Fields>(
  Object.entries<Fields>({
    "task.snapshot": snapshot,
    error: streamError,
    ...controlFrames,
  }),
);
for (const [type, fields] of Object.entries(logEvents)) shapes.set(type, { ...origin, ...fields });

/** The shape of a frame apart from its numbers; a frame of an unknown type only has an origin. */
export function shapeOf(type: string): Fields {
  return shapes.get(type) ?? origin;
}

/** Whether a frame belongs to the transport. */
export function isControl(type: string): boolean {
  return Object.hasOwn(controlFrames, type);
}

/** Checks a frame of the transport. */
export function checkControl(check: Check, frame: ControlFrame): void {
  if (frame.type === "stream.opened") {
    check.closed = false;
    return;
  }
  if (check.closed) report(check, "frame", `${frame.type} after stream.closed`);
  if (frame.type !== "stream.closed") return;
  check.closed = true;
  if (frame.final !== (frame.reason === "terminal")) {
    report(check, "frame", `final is ${frame.final}, but the reason is ${frame.reason}`);
  }
  const running = frame.final && [...check.tasks.values()].find((task) => !task.ended);
  if (running) report(check, "frame", `the stream is final, but ${show(running.id)} has not ended`);
}
