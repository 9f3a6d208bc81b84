import type { z } from "zod";
import { RivuletError } from "../protocol/error.ts";
import type { TaskEvent } from "../protocol/event.ts";
import { events } from "./event.ts";

/** A value from outside as an event of the catalogue, unknown fields kept; throws `invalid_event` otherwise. */
export function parseEvent(value: unknown): TaskEvent {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new RivuletError("invalid_event", "An event is a JSON object.", {
      hint: "Parse the data of one frame as JSON and pass what comes out.",
    });
  }
  const type: unknown = (value as { type?: unknown }).type;
  if (typeof type !== "string" || !isKnown(type)) {
    const shown = typeof type === "string" ? JSON.stringify(type.slice(0, 64)) : typeof type;
    throw new RivuletError("invalid_event", `type: no event type is called ${shown}.`, {
      hint: "Readers count and ignore the types that they do not know; do so before parsing.",
    });
  }
  const result = events[type].safeParse(value);
  if (result.success) return result.data;
  const { path, message } = deepest(result.error.issues);
  throw new RivuletError("invalid_event", `${type}, ${path.join(".")}: ${message}.`, {
    hint: `Compare it with jsonSchema.$defs["${type}"] of rivulet/schema.`,
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

/** The problem that lies deepest: a union reports one list per member, and the best match got furthest. */
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
