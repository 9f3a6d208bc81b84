import { z } from "zod";
import { define } from "./definitions.ts";
import { id } from "./scalar.ts";

const fields = {
  agentKey: z.string().min(1), // holds an agent id and a UUID, so it may be longer than an id
  agentName: z.string(),
  sessionId: id,
  parentSessionId: id,
  taskId: id,
};
const place = {
  agentId: id,
  depth: z.int().min(1),
  path: z.string().min(1),
};

/** Twin of `Source`. */
export const source = define(
  "Source",
  "Which descendant an event came from, in full.",
  z.looseObject({ ...fields, agentName: fields.agentName.exactOptional(), ...place }),
);

/** Twin of `SourceRef`. */
export const sourceRef = define(
  "SourceRef",
  "Which descendant an event came from: agentId, depth and path always, the rest on task.created.",
  z.looseObject(fields).exactPartial().extend(place),
);
