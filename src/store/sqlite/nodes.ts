import type { NodeInfo, NodeState } from "../../contract/index.ts";
import { newestFirst, nodeMemoryMs, nodeState } from "../memory-nodes.ts";
import type { Database } from "./database.ts";

/** Notes a process until `ttlMs` from now. */
export function noteNode(database: Database, node: NodeInfo, ttlMs: number, now: number): void {
  database.run(
    `INSERT INTO nodes (node, seen, ttl, info) VALUES (?, ?, ?, ?)
     ON CONFLICT (node) DO UPDATE SET seen = excluded.seen, ttl = excluded.ttl, info = excluded.info`,
    ...[node.nodeId, now, ttlMs, JSON.stringify(node)],
  );
  database.run("DELETE FROM nodes WHERE seen < ?", now - nodeMemoryMs);
}

/** The processes of the database. */
export function listNodes(database: Database, now: number): readonly NodeState[] {
  const rows = database.all<{ info: string; seen: number; ttl: number }>(
    "SELECT info, seen, ttl FROM nodes WHERE seen >= ?",
    now - nodeMemoryMs,
  );
  return newestFirst(
    rows.map(({ info, seen, ttl }) =>
      nodeState({ node: JSON.parse(info), seenAt: seen, ttlMs: ttl }, now),
    ),
  );
}
