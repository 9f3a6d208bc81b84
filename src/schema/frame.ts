import { z } from "zod";
import { define } from "./definitions.ts";
import { taskEvent } from "./event.ts";
import { count, cursor, id, time } from "./scalar.ts";

const streamFilter = z.looseObject({
  depth: count.nullable().exactOptional(),
  path: z.string().nullable().exactOptional(),
  include: z.array(z.string()).exactOptional(),
  exclude: z.array(z.string()).exactOptional(),
});

const streamOpened = define(
  "stream.opened",
  "The first frame of a stream: what it is and what it leaves out.",
  z.looseObject({
    type: z.literal("stream.opened"),
    protocol: z.string().min(1),
    root_task_id: id,
    oldest_sequence_number: count,
    last_sequence_number: cursor,
    heartbeat_ms: count,
    filter: streamFilter.exactOptional(),
  }),
);

const streamHeartbeat = define(
  "stream.heartbeat",
  "A sign of life, for transports that have no comments.",
  z.looseObject({
    type: z.literal("stream.heartbeat"),
    created_at: time,
    last_sequence_number: cursor,
  }),
);

const streamClosed = define(
  "stream.closed",
  "The last frame of a stream; only terminal is final, the rest can be resumed.",
  z.looseObject({
    type: z.literal("stream.closed"),
    reason: z.enum(["terminal", "idle", "slow_consumer", "max_duration", "server_shutdown"]),
    final: z.boolean(),
    last_sequence_number: cursor,
  }),
);

/** Every control frame by its type. */
export const controlFrames = {
  "stream.opened": streamOpened,
  "stream.heartbeat": streamHeartbeat,
  "stream.closed": streamClosed,
};

/** Twin of `ControlFrame`. */
export const controlFrame = define(
  "ControlFrame",
  "Frames of the transport; they carry no number and change nothing.",
  z.discriminatedUnion("type", [streamOpened, streamHeartbeat, streamClosed]),
);

/** Twin of `StreamFrame`. */
export const streamFrame = z.discriminatedUnion("type", [taskEvent, controlFrame]);
