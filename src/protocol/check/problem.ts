import { isObject } from "../../base/plain.ts";

/** The names of the rules; docs/protocol/check-stream.md explains them. */
export type CheckRule =
  | `I${1 | 2 | 3 | 4 | 5 | 6 | 8 | 9 | 10 | 11 | 12 | 14 | 15}`
  | `A${1 | 3 | 5 | 9 | 16 | 17 | 20 | 23}`
  | `L${3 | 6}`
  | ("shape" | "word" | "sequence" | "task_seq" | "duplicate" | "frame" | "snapshot")
  | ("edge" | "link" | "child" | "call" | "approval" | "reason" | "usage" | "surrogate");

/** A rule that an event breaks; `index` is the index of the event in the list. */
export interface Problem {
  readonly index: number;
  readonly rule: CheckRule;
  readonly message: string;
}

/** A value as a short text for a message. */
export function show(value: unknown): string {
  if (typeof value === "string") {
    return JSON.stringify(value.length > 48 ? `${value.slice(0, 47)}…` : value);
  }
  if (value === null || typeof value !== "object") return String(value);
  return Array.isArray(value) ? "an array" : "an object";
}

/** Whether two values are the same JSON; null is absent. */
export function isSame(left: unknown, right: unknown): boolean {
  if (left === right || (left ?? right ?? null) === null) return true;
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((entry, at) => isSame(entry, right[at]));
  }
  if (!isObject(left) || !isObject(right)) return false;
  return Object.keys({ ...left, ...right }).every((key) => isSame(left[key], right[key]));
}
