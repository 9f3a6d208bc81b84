import { z } from "zod";
import { define } from "./definitions.ts";
import { count, cursor, id, time } from "./scalar.ts";
import { sourceRef } from "./source.ts";

const envelope = {
  task_id: id,
  sequence_number: count,
  task_seq: count,
  prev_task_seq: cursor.exactOptional(),
  created_at: time,
  source: sourceRef.exactOptional(),
};

/** Names an item by its place in the task's output. */
export const onItem = { item_id: id, output_index: count };

/** Names a block within an item. */
export const onBlock = { ...onItem, block_index: count };

/** The schema of one type of event in a log: the envelope and the fields of its own. */
export function logEvent<Type extends string, Fields extends z.core.$ZodLooseShape>(
  type: Type,
  description: string,
  fields: Fields,
) {
  return define(
    type,
    description,
    z.looseObject({ type: z.literal(type), ...envelope, ...fields }),
  );
}
