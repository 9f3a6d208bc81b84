import type { NodeInfo, NodeState } from "../../contract/index.ts";
import { newestFirst, nodeMemoryMs, nodeState } from "../memory-nodes.ts";
import type { Database } from "./database.ts";
import { assertStorable } from "./ids.ts";

const noteStatement = {
  name: "note_node",
  text: `WITH own AS (
      INSERT INTO rivulet.processes (node, seen, ttl, info) VALUES ($1, rivulet.now_ms_1($4), $2, $3)
      ON CONFLICT (node) DO UPDATE SET seen = excluded.seen, ttl = excluded.ttl, info = excluded.info
    )
    DELETE FROM rivulet.processes
    WHERE seen < (SELECT rivulet.now_ms_1($4)) - ${nodeMemoryMs} AND node <> $1`,
};
const listStatement = {
  name: "nodes",
  text: `SELECT info, seen, ttl, rivulet.now_ms_1($1) FROM rivulet.processes
    WHERE seen >= (SELECT rivulet.now_ms_1($1)) - ${nodeMemoryMs}`,
};

/** Notes a process until `ttlMs` from now, by the clock of the database. */
export async function noteNode(database: Database, node: NodeInfo, ttlMs: number): Promise<void> {
  assertStorable(node.nodeId);
  await database.read(noteStatement, [node.nodeId, ttlMs, JSON.stringify(node), database.given]);
}

/** The processes of the database. */
export async function listNodes(database: Database): Promise<readonly NodeState[]> {
  const rows = await database.read<[info: string, seen: number, ttl: number, now: number]>(
    listStatement,
    [database.given],
  );
  return newestFirst(
    rows.map(([info, seenAt, ttlMs, now]) =>
      nodeState({ node: JSON.parse(info), seenAt, ttlMs }, now),
    ),
  );
}
