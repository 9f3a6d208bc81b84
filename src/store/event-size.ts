import type { TaskEvent } from "../protocol/index.ts";

/** The size of an event without its text: its fields, its time and its place in the log. */
const eventBytes = 144;
const stringBytes = 24;
const characterBytes = 2; // V8 uses one or two
const objectBytes = 40;
const fieldBytes = 12;
/** Events are nested less deeply; only a value of the caller may be, and may have a cycle. */
const maxTree = 6;

/** Fields whose strings many events share. */
const shared: ReadonlySet<string> = new Set(["type", "task_id", "item_id", "call_id", "source"]);

/** The approximate memory of an event in bytes. */
export function sizeOfEvent(event: TaskEvent): number {
  if ("delta" in event) return eventBytes + sizeOfText(event.delta);
  switch (event.type) {
    // Those of every step; a look at each field would take as long as the rest of an append.
    case "task.output_item.added":
    case "task.output_item.done":
    case "task.text.added":
    case "task.text.done":
      return eventBytes + sizeOfObject(event.item, 1);
    case "task.tool_call_arguments.done":
      return eventBytes + sizeOfText(event.arguments);
    default:
      return eventBytes + sizeOfFields(event);
  }
}

function sizeOfText(text: string): number {
  return stringBytes + characterBytes * text.length;
}

function sizeOfFields(event: TaskEvent): number {
  let size = 0;
  for (const key in event) {
    const value: unknown = event[key as keyof TaskEvent];
    if (typeof value === "number" || shared.has(key)) continue;
    if (typeof value === "string") size += sizeOfText(value);
    else if (typeof value === "object" && value !== null) size += sizeOfObject(value, 1);
  }
  return size;
}

function sizeOfObject(value: object, depth: number, seen?: Set<object>): number {
  if (seen?.has(value)) return 0;
  const known = depth < maxTree ? undefined : (seen ?? new Set()).add(value);
  let size = objectBytes;
  for (const key in value) {
    const field: unknown = (value as Record<string, unknown>)[key];
    size += fieldBytes;
    if (typeof field === "string") size += sizeOfText(field);
    else if (typeof field === "object" && field !== null)
      size += sizeOfObject(field, depth + 1, known);
  }
  return size;
}
