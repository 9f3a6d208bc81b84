import type { ControlFrame, StreamOpened } from "../event.ts";
import {
  controlFrames,
  logEvents,
  origin,
  protocolVersion,
  snapshot,
  streamError,
} from "../grammar/index.ts";
import type { Fields } from "../shape.ts";
import type { Check } from "./checked.ts";
import { hasEnded, report } from "./checked.ts";
import { show } from "./problem.ts";

const shapes = /* @__PURE__ */ allShapes();

function allShapes(): ReadonlyMap<string, Fields> {
  const others = { "task.snapshot": snapshot, error: streamError, ...controlFrames };
  const shapes = new Map<string, Fields>(Object.entries(others));
  for (const [type, fields] of Object.entries(logEvents))
    shapes.set(type, { ...origin, ...fields });
  return shapes;
}

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
  const last = frame.last_sequence_number;
  if (last < check.lastSequence)
    report(check, "frame", `last_sequence_number is ${last}, but ${check.lastSequence} was sent`);
  if (frame.type === "stream.opened") {
    checkOpened(check, frame);
    return;
  }
  if (check.closed) report(check, "frame", `${frame.type} after stream.closed`);
  if (frame.type !== "stream.closed") return;
  check.closed = true;
  if (frame.final !== (frame.reason === "terminal"))
    report(check, "frame", `final is ${frame.final}, but the reason is ${frame.reason}`);
  if (!frame.final) return;
  const running = [...check.tasks.values()].find((task) => !hasEnded(task));
  if (running) report(check, "frame", `the stream is final, but ${show(running.id)} has not ended`);
  if (last > check.lastSequence && !check.options.filtered)
    report(check, "frame", `the stream is final, but ${check.lastSequence} of ${last} was sent`);
}

/** A connection may send events again that an earlier one has sent. */
function checkOpened(check: Check, frame: StreamOpened): void {
  const { protocol, root_task_id: rootId, oldest_sequence_number: oldest } = frame;
  check.closed = false;
  check.replayedTo = -1;
  check.snapshotSequence = undefined;
  check.oldestSequence = oldest;
  if (protocol !== protocolVersion)
    report(check, "frame", `the protocol must be ${protocolVersion}, got ${show(protocol)}`);
  if (oldest > frame.last_sequence_number + 1)
    report(check, "frame", `oldest_sequence_number ${oldest} is beyond the end of the log`);
  const known = check.rootId ?? check.openedRootId ?? rootId;
  if (known !== rootId)
    report(check, "frame", `root_task_id is ${show(rootId)}, but the root is ${show(known)}`);
  check.openedRootId ??= rootId;
}
