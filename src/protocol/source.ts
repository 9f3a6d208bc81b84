import { readInput } from "../base/argument.ts";
import type { LogEvent } from "./event.ts";
import type * as grammar from "./grammar/index.ts";
import { isText, type TypeOf } from "./shape.ts";

/** The descendant that an event came from; events of the root have no source. */
export interface Source extends TypeOf<typeof grammar.source> {}

/** A source as events after `task.created` carry it. */
export type SourceRef = TypeOf<typeof grammar.sourceRef>;

/** The short form of a source; a short source is returned as it is. */
export function sourceRef(source: SourceRef): SourceRef {
  return shortSource(checkSource("source", source));
}

/** The same for a source of any shape. */
export function shortSource(source: SourceRef): SourceRef {
  return Object.keys(source).length === 3
    ? source
    : { agentId: source.agentId, depth: source.depth, path: source.path };
}

/**
 * Adds a level in front of an event's source, as a forwarder does for a remote child. `base` is the source of that child
 * in the forwarder's tree: an event without a source gets `base`; a deeper source loses its first path segment (the
 * remote session id) and keeps its other fields.
 */
export function prependSource(source: SourceRef | null | undefined, base: SourceRef): SourceRef {
  checkSource("base", base);
  if (!source) return base;
  checkSource("source", source);
  const cut = source.path.indexOf("/");
  const below = cut < 0 ? source.agentId : source.path.slice(cut + 1);
  return { ...source, depth: base.depth + source.depth, path: `${base.path}/${below}` };
}

/** The child that a forwarder has put a remote log below. */
type RemoteRoot = Pick<Source, "taskId" | "sessionId" | "path" | "depth">;

/** Turns an event that a forwarder has written back into the one of the remote log, whose root is the child. */
export function asSent(event: LogEvent, root: RemoteRoot): LogEvent {
  const { source, ...raw } = event;
  if (event.task_id !== root.taskId && source) {
    const depth = source.depth - root.depth;
    const path = `${root.sessionId}${source.path.slice(root.path.length)}`;
    return { ...raw, source: { ...source, depth, path } } as LogEvent;
  }
  if (event.type !== "task.created") return raw as LogEvent;
  const { task, ...rest } = raw as typeof event;
  const { parent_task_id: _, parent_call_id: __, parent_item_id: ___, mode: ____, ...own } = task;
  return { ...rest, task: own };
}

function checkSource(place: string, source: SourceRef): SourceRef {
  return readInput(place, "an object with agentId, depth and path", source, () => {
    const { agentId, depth, path } = source;
    const fits = isText(agentId) && typeof depth === "number" && isText(path);
    return fits && source;
  });
}
