import { controlFrames, protocolVersion } from "../protocol/index.ts";
import { events } from "./frames.ts";
import { type JsonSchema, streamDefinitions, taskStreamSchema } from "./json-schema.ts";

/** An AsyncAPI 3 document, with the parts that this one has. */
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
const list = { type: "string", description: "Types of items, separated by commas." };

const query = {
  type: "object",
  properties: {
    starting_after: {
      type: "integer",
      description: "Send the events after this number; the header Last-Event-ID takes precedence.",
    },
    from: {
      const: "now",
      description: "Send a snapshot of every task as it is now, then new events.",
    },
    depth: {
      type: "integer",
      minimum: 0,
      description: "Leave out tasks more than this many levels below the task.",
    },
    path: { ...text, description: "Only tasks under this path of agents." },
    include: list,
    exclude: list,
    until: {
      enum: ["tree", "root", "idle"],
      description:
        "Close the stream after the last task (default), after this task, or when all tasks that are left are suspended.",
    },
    event_names: { enum: ["on", "off"], description: "off: frames without an event field." },
    on_expired: {
      enum: ["snapshot", "error"],
      description:
        "error: respond with 410 instead of snapshots if the cursor is older than the log.",
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
        "The sequence_number of a log event, or the through_sequence_number of the last snapshot; otherwise absent.",
    },
  },
};

/** The AsyncAPI 3.0 document of the stream: its frames and their schemas. */
export const asyncApi: AsyncApiDocument = {
  asyncapi: "3.0.0",
  id: "urn:rivulet:task-stream",
  info: {
    title: "Rivulet task stream",
    version: "1.0.0",
    description: `${protocolVersion}: the events of a tree of agents, as a stream that folds into one JSON document.`,
    license: { name: "Apache-2.0" },
  },
  defaultContentType: "application/json",
  channels: {
    taskEvents: {
      address: "/v1/tasks/{id}/events",
      title: "Events of a task and its descendants",
      description:
        "Server-sent events: one frame per message, its data one line of JSON. Delivery is at least once; the server sends a comment every heartbeat_ms.",
      parameters: {
        id: {
          description:
            "The id of a task; the id of a child selects its subtree, with the numbers of the root.",
        },
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
      summary:
        "GET with the events as text/event-stream, or 204 when none are left; a disconnect does not cancel the task.",
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

/** The definitions with references to `components/schemas`, where AsyncAPI keeps them. */
function rebased(schemas: Readonly<Record<string, JsonSchema>>): Record<string, JsonSchema> {
  return JSON.parse(JSON.stringify(schemas), (key, value: unknown) =>
    key === "$ref" && typeof value === "string"
      ? value.replace("#/$defs/", "#/components/schemas/")
      : value,
  ) as Record<string, JsonSchema>;
}

/** The generated files of docs/protocol, by name. */
export const documents: Readonly<Record<string, string>> = {
  "task-stream.schema.json": `${JSON.stringify(taskStreamSchema, null, 2)}\n`,
  "task-stream.asyncapi.json": `${JSON.stringify(asyncApi, null, 2)}\n`,
};
