import type { LogEvent } from "../protocol/event.ts";
import { TaskTree } from "../protocol/reduce.ts";
import { snapshotOf } from "../protocol/snapshot.ts";
import type { Store } from "../protocol/store.ts";
import { readFrames } from "./read-frames.ts";

const pageSize = 1_000;

/**
 * Deletes the events of a log up to number `through` and keeps a snapshot of every task instead: the snapshots and the
 * remaining events fold to the same tree as the whole log. Yields to the event loop while it reads a long log.
 */
export async function trimLog(store: Store, log: string, through: number): Promise<void> {
  const folded = new TaskTree();
  let createdAt = 0;
  for (let after = -1; after < through; ) {
    const read = await readFrames(store, log, after, Math.min(pageSize, through - after));
    if (read.through === after) break; // The log is shorter than `through`, which `trim` rejects.
    folded.apply(read.frames);
    after = read.through;
    createdAt = (read.frames.at(-1) as LogEvent | undefined)?.created_at ?? createdAt;
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { tree } = folded;
  const at = { sequenceNumber: through, createdAt };
  const tasks = Object.keys(tree.tasks).flatMap((id) => snapshotOf(tree, id, at) ?? []);
  await store.trim(log, { through, tasks });
}
