import type { Annotation } from "../task.ts";
import type { Fields, Kind } from "./fields.ts";
import {
  annotationFields,
  fieldsOf,
  itemFields,
  itemStatuses,
  modes,
  targetFields,
  usageFields,
} from "./fields.ts";

/** A block as anybody may send it, once its shape is in order. */
export interface SentBlock {
  readonly type: string;
  readonly id?: unknown;
  readonly reference_id?: number;
  readonly status?: string;
  readonly text?: string;
  readonly image_url?: { readonly url: string };
  readonly partial_image_index?: number;
  readonly annotations?: readonly Annotation[];
  readonly task_id?: string;
}
/** An item as anybody may send it, once its shape is in order. */
export interface SentItem {
  readonly type: string;
  readonly id: string;
  readonly status?: string;
  readonly call_id?: string;
  readonly name?: string;
  readonly arguments?: string;
  readonly arguments_status?: string;
  readonly block_list?: readonly SentBlock[];
  readonly summary?: readonly SentBlock[];
  readonly content?: readonly SentBlock[];
  readonly child_task_id?: string;
}

/** Any object that is not a list. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A string with something in it. */
export function isId(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/** A whole number from 0 on. */
export function isIndex(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Whether the catalogue of this version has the type. */
export function isKnownType(type: string): type is keyof typeof fieldsOf {
  return Object.hasOwn(fieldsOf, type);
}

/** The first field of an event of a known type that is not what the catalogue says; undefined when all are. */
export function shapeFault(
  event: Readonly<Record<string, unknown>>,
  type: keyof typeof fieldsOf,
): string | undefined {
  const fault = faultIn(event, fieldsOf[type], "");
  if (fault !== undefined) return fault;
  switch (type) {
    case "task.created":
    case "task.in_progress":
    case "task.completed":
    case "task.failed":
    case "task.cancelled":
    case "task.incomplete":
    case "task.snapshot":
      return taskFault(event.task, type, event.task_id);
    case "task.output_item.added":
      return itemFault(event.item, true);
    case "task.output_item.done":
      return itemFault(event.item, false);
    case "task.reasoning_summary_item.added":
    case "task.reasoning_summary_item.done":
    case "task.text.added":
    case "task.text.done":
      return blockFault(event.item, "item", "text");
    case "task.image.added":
    case "task.image.delta":
    case "task.image.done":
      return blockFault(event.item, "item", "image");
    case "task.block.done":
      return blockFault(event.item, "item");
    case "task.text.annotation.added":
      return annotationFault(event.annotation, "annotation");
    case "task.suspended":
      return idsFault(event, "approval_ids") ?? idsFault(event, "waiting_on");
    case "task.usage":
      return faultIn(event.usage, usageFields, "usage.");
    default:
      return undefined;
  }
}

function faultIn(value: unknown, fields: Fields, prefix: string): string | undefined {
  if (!isRecord(value)) return `${prefix.slice(0, -1)} is not an object`;
  for (const name in fields) {
    const kind = fields[name] as Kind;
    if (!isKind(value[name], kind)) return `${prefix}${name} is not ${describe(kind)}`;
  }
  return undefined;
}

function taskFault(task: unknown, type: string, taskId: unknown): string | undefined {
  const status = type === "task.created" ? "queued" : type.slice("task.".length);
  const statuses = type === "task.snapshot" ? ["queued", "suspended", ...itemStatuses] : [status];
  const fault = faultIn(task, { id: "id", status: statuses }, "task.");
  if (fault !== undefined || !isRecord(task)) return fault;
  if (task.id !== taskId) return "task.id is not the event's task_id";
  for (const name of ["session_id", "parent_task_id", "parent_call_id", "parent_item_id"]) {
    if (task[name] !== undefined && !isId(task[name])) return `task.${name} is not an id`;
  }
  if (task.mode !== undefined && !isKind(task.mode, modes)) return "task.mode is not a mode";
  const counts =
    task.usage === undefined ? undefined : faultIn(task.usage, usageFields, "task.usage.");
  if (counts !== undefined) return counts;
  if (type === "task.failed") return faultIn(task.error, { code: "id" }, "task.error.");
  if (type === "task.incomplete") {
    return faultIn(task.incomplete_details, { reason: "id" }, "task.incomplete_details.");
  }
  return type === "task.snapshot"
    ? (listFault(task.approvals, "task.approvals", approvalFault) ??
        listFault(task.output, "task.output", outputFault))
    : undefined;
}

function approvalFault(approval: unknown): string | undefined {
  return faultIn(approval, { approval_id: "id" }, "approval.");
}

function outputFault(item: unknown): string | undefined {
  const gone = isRecord(item) && (item.type === "discarded" || item.type === "omitted");
  return gone ? undefined : itemFault(item, true);
}

/** An item; one that opens has all its fields, one that closes may leave some as they were assembled. */
function itemFault(item: unknown, whole: boolean): string | undefined {
  const fault = faultIn(item, { type: "id", id: "id" }, "item.");
  if (fault !== undefined || !isRecord(item)) return fault;
  if (item.status !== undefined && !isKind(item.status, itemStatuses)) {
    return "item.status is not a status";
  }
  const type = item.type as string;
  const fields = Object.hasOwn(itemFields, type) ? (itemFields[type] as Fields) : {};
  for (const [name, kind] of Object.entries(fields)) {
    if (item[name] === undefined && !whole && name !== "call_id") continue;
    if (!isKind(item[name], kind)) return `item.${name} is not ${describe(kind)}`;
  }
  return (
    listFault(item.block_list, "item.block_list", blockFault) ??
    listFault(item.summary, "item.summary", textFault) ??
    (type === "reasoning" ? listFault(item.content, "item.content", blockFault) : undefined)
  );
}

function listFault(
  list: unknown,
  name: string,
  entryFault: (entry: unknown, name: string) => string | undefined,
): string | undefined {
  if (list === undefined) return undefined;
  if (!Array.isArray(list)) return `${name} is not a list`;
  for (const [at, entry] of list.entries()) {
    const fault = entryFault(entry, `${name}[${at}]`);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function textFault(block: unknown, name: string): string | undefined {
  return blockFault(block, name, "text");
}

function blockFault(block: unknown, name: string, type?: string): string | undefined {
  if (!isRecord(block) || !isId(block.type)) return `${name} has no type`;
  const kind = blockKind(block.type);
  if (type !== undefined && kind !== type) return `${name} is not of type ${type}`;
  if (kind === "image") {
    return faultIn(block.image_url, { url: "text" }, `${name}.image_url.`);
  }
  if (kind === "task") return faultIn(block, { task_id: "id" }, `${name}.`);
  if (kind !== "text" && kind !== "reasoning_text") return undefined;
  if (typeof block.text !== "string") return `${name}.text is not a text`;
  return listFault(block.annotations, `${name}.annotations`, annotationFault);
}

/** The wire's name of a kind of block; the first form had two for images. */
export function blockKind(type: string): string {
  return type === "image_url" ? "image" : type;
}

function annotationFault(annotation: unknown, name: string): string | undefined {
  const fault = faultIn(annotation, annotationFields, `${name}.`);
  if (fault !== undefined || !isRecord(annotation)) return fault;
  if (annotation.marker !== undefined && typeof annotation.marker !== "string") {
    return `${name}.marker is not a text`;
  }
  return annotation.target === undefined
    ? undefined
    : faultIn(annotation.target, targetFields, `${name}.target.`);
}

function idsFault(event: Readonly<Record<string, unknown>>, name: string): string | undefined {
  const ids = event[name];
  return ids === undefined || (Array.isArray(ids) && ids.every(isId))
    ? undefined
    : `${name} is not a list of ids`;
}

function isKind(value: unknown, kind: Kind): boolean {
  switch (kind) {
    case "id":
      return isId(value);
    case "text":
      return typeof value === "string";
    case "index":
      return isIndex(value);
    case "number":
      return typeof value === "number" && Number.isFinite(value);
    case "flag":
      return typeof value === "boolean";
    case "object":
      return isRecord(value);
    case "list":
      return Array.isArray(value);
    default:
      return typeof value === "string" && kind.includes(value);
  }
}

function describe(kind: Kind): string {
  if (typeof kind !== "string") return `one of ${kind.join(", ")}`;
  return kind === "id" || kind === "object" || kind === "index" ? `an ${kind}` : `a ${kind}`;
}
