import { protocolVersion } from "../protocol/event.ts";
import { events } from "./event.ts";
import { controlFrames } from "./frame.ts";
import { type JsonSchema, streamDefinitions } from "./json-schema.ts";

/** The parts of an AsyncAPI 3 document that ours has: plain JSON. */
export interface AsyncApiDocument {
  readonly asyncapi: "3.0.0";
  readonly id: string;
  readonly info: JsonSchema;
  readonly defaultContentType: string;
  readonly channels: Readonly<Record<string, JsonSchema>>;
  readonly operations: Readonly<Record<string, JsonSchema>>;
  readonly components: {
    readonly messages: Readonly<Record<string, JsonSchema>>;
    readonly schemas: Readonly<Record<string, JsonSchema>>;
  };
}

const frameTypes = [...Object.keys(events), ...Object.keys(controlFrames)];

const text = { type: "string" };
const list = { type: "string", description: "Names, separated by commas." };

const query = {
  type: "object",
  properties: {
    starting_after: {
      type: "integer",
      description: "Send what follows this number; the header Last-Event-ID wins over it.",
    },
    depth: { type: "integer", minimum: 0, description: "Leave out tasks below this depth." },
    path: { ...text, description: "Only what happens under this path of agents." },
    include: list,
    exclude: list,
    until: {
      enum: ["root", "idle"],
      description: "Close sooner than at the end of the whole tree.",
    },
    event_names: { const: "off", description: "Frames without an event field." },
    on_expired: {
      const: "error",
      description: "Answer 410 instead of snapshots when the cursor is older than what is kept.",
    },
  },
};

const frameFields = {
  type: "object",
  description: "The fields of the server-sent event around the data.",
  properties: {
    event: { ...text, description: "The frame's type." },
    id: {
      ...text,
      pattern: "^[0-9]+$",
      description:
        "The sequence_number of a log event, and the through_sequence_number of the last snapshot; else absent.",
    },
  },
};

/** AsyncAPI 3.0: the stream of a task's events, every frame that may arrive on it and their schemas. */
export const asyncApi: AsyncApiDocument = {
  asyncapi: "3.0.0",
  id: "urn:rivulet:task-stream",
  info: {
    title: "Rivulet task stream",
    version: "1.0.0",
    description: `${protocolVersion}: a tree of agents at work, as a stream of JSON events that folds into one document.`,
    license: { name: "Apache-2.0" },
  },
  defaultContentType: "application/json",
  channels: {
    taskEvents: {
      address: "/v1/tasks/{id}/events",
      title: "Events of a task and its descendants",
      description:
        "Server-sent events: one frame per message, its data one line of JSON. Delivery is at least once; a comment every heartbeat_ms shows that the stream is alive.",
      parameters: {
        id: { description: "A task; a child's id gives its subtree with the root's numbers." },
      },
      messages: Object.fromEntries(
        frameTypes.map((type) => [type, { $ref: `#/components/messages/${type}` }]),
      ),
    },
  },
  operations: {
    sendTaskEvents: {
      action: "send",
      channel: { $ref: "#/channels/taskEvents" },
      title: "Follow a task",
      summary: "GET with Accept: text/event-stream; leaving never cancels the task.",
      bindings: { http: { method: "GET", query, bindingVersion: "0.3.0" } },
    },
  },
  components: {
    messages: Object.fromEntries(frameTypes.map((type) => [type, message(type)])),
    schemas: { ServerSentEvent: frameFields, ...rebased(streamDefinitions) },
  },
};

function message(type: string): JsonSchema {
  return {
    name: type,
    summary: streamDefinitions[type]?.description,
    contentType: "application/json",
    headers: { $ref: "#/components/schemas/ServerSentEvent" },
    payload: { $ref: `#/components/schemas/${type}` },
  };
}

/** The same definitions with their references pointing to where AsyncAPI keeps schemas. */
function rebased(schemas: Readonly<Record<string, JsonSchema>>): Record<string, JsonSchema> {
  return JSON.parse(JSON.stringify(schemas), (key, value: unknown) =>
    key === "$ref" && typeof value === "string"
      ? value.replace("#/$defs/", "#/components/schemas/")
      : value,
  ) as Record<string, JsonSchema>;
}
