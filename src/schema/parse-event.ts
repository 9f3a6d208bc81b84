import type { z } from "zod";
import { RivuletError } from "../base/error.ts";
import { passes } from "../base/options.ts";
import { isObject } from "../base/plain.ts";
import type { TaskEvent } from "../protocol/index.ts";
import { events } from "./frames.ts";

/** Validates a value as an event of the catalogue and keeps unknown fields; throws `invalid_event`. */
export function parseEvent(value: unknown): TaskEvent {
  if (!passes(() => isObject(value) && value.type !== null)) {
    throw new RivuletError("invalid_event", "An event must be a JSON object.", {
      hint: "Parse the data of one frame as JSON and pass the result.",
    });
  }
  const type: unknown = (value as { type?: unknown }).type;
  if (typeof type !== "string" || !isKnown(type)) {
    const shown = typeof type === "string" ? JSON.stringify(type.slice(0, 64)) : typeof type;
    throw new RivuletError("invalid_event", `type: ${shown} is not an event type.`, {
      hint: "Count and ignore unknown types before parsing, as readers do.",
    });
  }
  const result = events[type].safeParse(value);
  if (result.success) return result.data;
  const { path, message } = deepest(result.error.issues);
  throw new RivuletError("invalid_event", `${type}, ${path.join(".")}: ${message}.`, {
    hint: `Compare it with taskStreamSchema.$defs["${type}"] of rivulet/schema.`,
    cause: result.error,
  });
}

function isKnown(type: string): type is keyof typeof events {
  return Object.hasOwn(events, type);
}

interface Problem {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** The deepest problem: a union reports one list per member, and the best match gets furthest. */
function deepest(issues: readonly z.core.$ZodIssue[]): Problem {
  return issues
    .map(unfold)
    .reduce((best, next) => (next.path.length > best.path.length ? next : best));
}

function unfold(issue: z.core.$ZodIssue): Problem {
  const inner = issue.code === "invalid_union" ? issue.errors.flat() : [];
  if (inner.length === 0) return issue;
  const { path, message } = deepest(inner);
  return { path: [...issue.path, ...path], message };
}
