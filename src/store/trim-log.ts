import type { LogEvent } from "../protocol/event.ts";
import { TaskTree } from "../protocol/reduce.ts";
import { snapshotOf } from "../protocol/snapshot.ts";
import type { Store } from "../protocol/store.ts";

const pageSize = 1_000;

/**
 * Forgets the events of a log up to and with number `through`, and keeps a snapshot of every task in their place: the
 * snapshots and the events after them fold to the same tree as the whole log.
 */
export async function trimLog(store: Store, log: string, through: number): Promise<void> {
  const earlier = await store.snapshot(log);
  let after = earlier?.through ?? -1;
  if (through <= after) return;
  const folded = new TaskTree().apply(earlier?.tasks ?? []);
  let createdAt = 0;
  while (after < through) {
    const events = await store.read(log, after, Math.min(pageSize, through - after));
    const last = events.at(-1) as LogEvent | undefined;
    if (last === undefined) break; // The log ends before: the store refuses to trim it there.
    folded.apply(events);
    after += events.length;
    createdAt = last.created_at;
  }
  const { tree } = folded;
  const at = { sequenceNumber: through, createdAt };
  const tasks = Object.keys(tree.tasks).flatMap((id) => snapshotOf(tree, id, at) ?? []);
  await store.trim(log, { through, tasks });
}
