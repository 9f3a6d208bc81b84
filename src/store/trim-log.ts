import type { LogEvent } from "../protocol/event.ts";
import { TaskTree } from "../protocol/reduce.ts";
import { snapshotOf } from "../protocol/snapshot.ts";
import type { Store } from "../protocol/store.ts";
import { readFrames } from "./read-frames.ts";

const pageSize = 1_000;

/**
 * Forgets the events of a log up to and with number `through`, and keeps a snapshot of every task in their place: the
 * snapshots and the events after them fold to the same tree as the whole log. A long log is read with breaks, so that
 * others are not held up.
 */
export async function trimLog(store: Store, log: string, through: number): Promise<void> {
  const folded = new TaskTree();
  let createdAt = 0;
  for (let after = -1; after < through; ) {
    const read = await readFrames(store, log, after, Math.min(pageSize, through - after));
    if (read.through === after) break; // The log ends before: the store refuses to trim it there.
    folded.apply(read.frames);
    after = read.through;
    createdAt = (read.frames.at(-1) as LogEvent | undefined)?.created_at ?? createdAt;
    await new Promise((resolve) => setImmediate(resolve));
  }
  // Where somebody has trimmed more, the store keeps that.
  const { tree } = folded;
  const at = { sequenceNumber: through, createdAt };
  const tasks = Object.keys(tree.tasks).flatMap((id) => snapshotOf(tree, id, at) ?? []);
  await store.trim(log, { through, tasks });
}
