import { readInput } from "../../base/argument.ts";
import { RivuletError } from "../../base/error.ts";
import { isObject } from "../../base/plain.ts";
import type { Flaw } from "../check/flaws.ts";
import { describeMisfit, type Misfit, misfitOf } from "../check/misfit.ts";
import { logEvents, words } from "../grammar/index.ts";
import { readerOf } from "../shape.ts";
import type { Source } from "../source.ts";
import type { Annotation, TaskObject, WireBlock } from "../task.ts";
import type { EventBody } from "./delta.ts";

/** Throws the error for a call that would make the stream illegal. */
export function refuse(problem: string, hint: string): never {
  throw new RivuletError("invalid_argument", problem, { hint });
}

/** Refuses what the linter would report. */
export function refuseFlaws([flaw]: readonly Flaw[], hint: string): void {
  if (flaw !== undefined) refuse(`The event would be illegal: ${flaw.message}.`, hint);
}

/** Returns a copy of an object that a caller has passed; throws for any other value. */
export function copyOf<T>(place: string, value: T): T {
  return readInput(place, "an object", value, () => isObject(value) && { ...value }) as T;
}

/** Returns an event that fits the grammar; throws for any other. */
export function readBody<Body extends EventBody>(body: Body): Body {
  const shape = logEvents[body.type];
  const [read] = readInput("event", "plain data", body, () => [readerOf(shape)(body, { words })]);
  if (read !== undefined) return read as Body;
  const misfit = readInput("event", "plain data", body, () => misfitOf(shape, body, { words }));
  return refuse(
    `The event does not fit: ${describeMisfit(body.type, misfit as Misfit)}.`,
    "Correct the value.",
  );
}

/** Refuses a `task.created` that contradicts the source of the task. */
export function checkOrigin(task: TaskObject, source: Source | undefined): void {
  const { id, parent_task_id, parent_call_id, parent_item_id, mode, agent_id, session_id } = task;
  if (parent_task_id === undefined) {
    if (source) refuse(`The root ${id} has a source.`, "Name its parent, or leave `source` out.");
    return;
  }
  const isLinked = parent_call_id === id && parent_item_id !== undefined && mode !== undefined;
  if (!isLinked || parent_task_id === id)
    refuse(
      `The child ${id} is not linked to its parent.`,
      "Pass parent_call_id (the id of the child), parent_item_id and mode.",
    );
  const { agentId, sessionId, depth, path, taskId } = source ?? {};
  const segments = path?.split("/") ?? [];
  const isPlaced = segments.length - 1 === depth && segments.at(-1) === agentId && taskId === id;
  const isOwn = (agent_id ?? agentId) === agentId && (session_id ?? sessionId) === sessionId;
  if (!isPlaced || !isOwn)
    refuse(`The source of the child ${id} does not fit it.`, "Pass the `source` of the child.");
}

/** Refuses a citation whose range is not its marker. */
export function checkRange(text: string, annotation: Annotation): void {
  const { start_index, end_index, reference_id, marker = `[^${reference_id}]` } = annotation;
  if (end_index > text.length || text.slice(start_index, end_index) !== marker)
    refuse(`${start_index}..${end_index} of the text is not ${marker}.`, "Write the marker first.");
}

/** Refuses a block that does not belong on the wire. */
export function checkBlockType({ type }: WireBlock): void {
  const refused = ["image_url", "reasoning", "tool_call", "tool_result", "message"];
  if (refused.includes(type))
    refuse(
      `A block cannot be a ${type}.`,
      'Use "image", "text", "file", "task" or a type of yours.',
    );
}

/** Refuses an image that has not arrived. */
export function checkImage(block: WireBlock): void {
  if (block.type !== "image" || block.image_url.url === "")
    refuse("The image has no url.", "Pass the url of the image.");
}
