/** Which descendant an event came from; the root's own events have none. */
export interface Source {
  /** One spawned instance: `agent:<agentId>:<uuid>`. */
  readonly agentKey: string;
  /** The kind of agent. */
  readonly agentId: string;
  readonly agentName?: string;
  readonly sessionId: string;
  readonly parentSessionId: string;
  readonly taskId: string;
  /** 1 for a direct child. */
  readonly depth: number;
  /** The root's session id, then one agent id per level: `sess-001/planner/executor`. */
  readonly path: string;
}

/** A source as the wire carries it after `task.created`: enough to place an event, and small. */
export interface SourceRef extends Partial<Source> {
  readonly agentId: string;
  readonly depth: number;
  readonly path: string;
}

/** The short form of a source; the short form of a short form is itself. */
export function sourceRef(source: SourceRef): SourceRef {
  return Object.keys(source).length === 3
    ? source
    : { agentId: source.agentId, depth: source.depth, path: source.path };
}

/**
 * Adds one level in front of an event's source, as a forwarder does for a remote child.
 * `base` describes that child in the forwarder's own tree. The remote's root has no source and becomes `base`;
 * deeper sources lose their first path segment (the remote's session id) and keep everything else they were born with.
 */
export function prependSource(source: SourceRef | undefined, base: SourceRef): SourceRef {
  if (source === undefined) return base;
  const cut = source.path.indexOf("/");
  const below = cut < 0 ? source.agentId : source.path.slice(cut + 1);
  return { ...source, depth: base.depth + source.depth, path: `${base.path}/${below}` };
}
