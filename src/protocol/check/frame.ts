import type { ControlFrame } from "../event.ts";
import type { Check } from "./state.ts";
import { report, show } from "./state.ts";

/** The transport's own frames: nothing comes after the last one, and it must mean what it says. */
export function checkControl(check: Check, frame: ControlFrame): void {
  if (frame.type === "stream.opened") {
    check.closed = false;
    return;
  }
  if (check.closed) report(check, "frame", `${frame.type} after stream.closed`);
  if (frame.type !== "stream.closed") return;
  check.closed = true;
  if (frame.final !== (frame.reason === "terminal")) {
    report(check, "frame", `a stream closed as ${frame.reason} is not final: ${frame.final}`);
  }
  const running = frame.final && [...check.tasks.values()].find((task) => !task.ended);
  if (running) report(check, "frame", `the stream is final, but ${show(running.id)} has not ended`);
}
