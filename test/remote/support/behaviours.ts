import type { ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import {
  type Behaviour,
  closedFrame,
  descendant,
  frameOf,
  insert,
  numbered,
  openedFrame,
  openStream,
  type Sent,
  type Story,
  sendJson,
  spawning,
} from "./hostile-server.ts";

/** The outcome of a behaviour: the code of the child's error, or its status. */
export type Outcome = string;

/** Changes the event at an index. */
function edit(at: number, change: (event: Sent, story: Story) => Sent): Behaviour {
  return {
    change(story) {
      story.events[at] = change(story.events[at] as Sent, story);
    },
  };
}

function add(at: number, events: (story: Story) => readonly Sent[]): Behaviour {
  return { change: (story) => insert(story, at, ...events(story)) };
}

function answer(
  status: number,
  body: string | Buffer,
  headers: Record<string, string> = {},
): Behaviour {
  return { stream: (response) => void response.writeHead(status, headers).end(body) };
}

/** Sends raw bytes after the first two events. */
function raw(bytes: string | ((story: Story) => string | Buffer)): Behaviour {
  return {
    stream(response, story) {
      openStream(response);
      response.write(openedFrame(story));
      for (const event of story.events.slice(0, 2)) response.write(frameOf(event));
      response.write(typeof bytes === "string" ? bytes : bytes(story));
      for (const event of story.events.slice(2)) response.write(frameOf(event));
      response.end(closedFrame);
    },
  };
}

/** Sends the same text after the first two events, again and again. */
function flood(text: string | ((story: Story) => string)): Behaviour {
  return {
    stream(response, story) {
      openStream(response);
      response.write(openedFrame(story));
      for (const event of story.events.slice(0, 2)) response.write(frameOf(event));
      const piece = typeof text === "string" ? text : text(story);
      endless(response, "", piece.repeat(Math.ceil(65_536 / piece.length)));
    },
  };
}

const custom = (value: unknown): Sent => ({ type: "task.custom", name: "x", value });
const page = "<!doctype html><title>Welcome</title>";
const child = "call_of_the_hostile";
const withChild = (more: Parameters<typeof descendant>[2] = {}, id = child) =>
  add(8, (story) => [...spawning(id), ...descendant(story, id, more)]);

/** What a server may do, and what becomes of its child. Nothing else changes. */
export const behaviours: Readonly<Record<string, readonly [Outcome, Behaviour]>> = {
  "is honest": ["completed", {}],
  "has an honest child": ["completed", withChild()],
  // Other tasks and sources.
  "writes to the root of its caller": [
    "remote_invalid",
    edit(4, (event, { rootId }) => ({ ...event, task_id: rootId, task_seq: 99 })),
  ],
  "writes to the root of its caller with an old number": [
    "remote_invalid",
    edit(4, (event, { rootId }) => ({ ...event, task_id: rootId })),
  ],
  "ends the root of its caller": [
    "remote_invalid",
    edit(9, (event, { rootId }) => ({
      ...event,
      task_id: rootId,
      task: { id: rootId, object: "task", status: "completed" },
    })),
  ],
  "writes to a task that it has not created": [
    "remote_invalid",
    edit(4, (event) => ({ ...event, task_id: "task_unknown", task_seq: 0 })),
  ],
  "creates a task with the id of its caller's root": [
    "remote_invalid",
    {
      change: (story) =>
        insert(story, 8, ...spawning(story.rootId), ...descendant(story, story.rootId)),
    },
  ],
  "creates a task in the session of its caller": [
    "remote_invalid",
    withChild({ task: { session_id: "s" }, source: { sessionId: "s" } }),
  ],
  "creates a task below the root of its caller": [
    "remote_invalid",
    {
      change: (story) =>
        insert(
          story,
          8,
          ...spawning(child),
          ...descendant(story, child, { task: { parent_task_id: story.rootId } }),
        ),
    },
  ],
  "creates a task below an unknown one": [
    "remote_invalid",
    withChild({ task: { parent_task_id: "task_unknown" } }),
  ],
  "creates a second root": [
    "remote_invalid",
    withChild({ task: { parent_task_id: undefined, parent_call_id: undefined } }),
  ],
  "creates a task that is its own parent": [
    "remote_invalid",
    withChild({ task: { parent_task_id: child } }),
  ],
  "names an agent with a slash": [
    "remote_invalid",
    withChild({ source: { agentId: "../lead", path: "x/../lead" }, task: { agent_id: "../lead" } }),
  ],
  "forges the path of a child": ["remote_invalid", withChild({ source: { path: "s/lead" } })],
  "forges the depth of a child": ["remote_invalid", withChild({ source: { depth: -1 } })],
  "forges the task of a source": [
    "remote_invalid",
    withChild({ source: { taskId: "task_other" } }),
  ],
  "gives its own task a source": [
    "remote_invalid",
    edit(4, (event) => ({ ...event, source: { agentId: "lead", depth: 1, path: "s/lead" } })),
  ],
  "names another task in a lifecycle event": [
    "remote_invalid",
    edit(9, (event) => ({ ...event, task: { ...(event.task as Sent), id: "task_other" } })),
  ],
  "claims another parent for itself": [
    "completed",
    edit(0, (event) => ({
      ...event,
      task: {
        ...(event.task as Sent),
        parent_task_id: "task_other",
        parent_call_id: "c",
        parent_item_id: "i",
        mode: "sync",
      },
    })),
  ],
  "has too many children": [
    "remote_invalid",
    add(8, (story) =>
      Array.from({ length: 300 }, (_, n) => [
        ...spawning(`call_${n}`, 2 * n + 1),
        ...descendant(story, `call_${n}`),
      ]).flat(),
    ),
  ],
  "runs two tasks of a session one after the other": [
    "completed",
    add(8, (story) => {
      const shared = { task: { session_id: "sub-shared" }, source: { sessionId: "sub-shared" } };
      const [one = [], two = []] = ["call_1", "call_2"].map((id) => descendant(story, id, shared));
      const starts = [...spawning("call_1", 1), ...spawning("call_2", 3)];
      return [...starts, ...one, ...two];
    }),
  ],
  "runs two tasks of a session at once": [
    "remote_invalid",
    add(8, (story) => {
      const shared = { task: { session_id: "sub-shared" }, source: { sessionId: "sub-shared" } };
      const [one = [], two = []] = ["call_1", "call_2"].map((id) => descendant(story, id, shared));
      const starts = [...spawning("call_1", 1), ...spawning("call_2", 3)];
      return [...starts, ...one.slice(0, 2), ...two, ...one.slice(2)];
    }),
  ],
  "finishes a child that it never had": [
    "remote_invalid",
    add(8, () => [
      {
        type: "task.child.finished",
        child_task_id: "c",
        call_id: "c",
        item_id: "fco_c",
        output_index: 0,
        status: "completed",
      },
    ]),
  ],
  // Numbers.
  "sends a negative task_seq": [
    "completed",
    {
      change({ events }) {
        events[8] = { ...events[8], task_seq: -1 };
        events[9] = { ...events[9], task_seq: 8 };
      },
    },
  ],
  "skips a task_seq": ["remote_invalid", edit(5, (event) => ({ ...event, task_seq: 6 }))],
  "sends a huge task_seq": [
    "remote_invalid",
    edit(5, (event) => ({ ...event, task_seq: Number.MAX_SAFE_INTEGER })),
  ],
  "sends a task_seq that is text": [
    "remote_invalid",
    edit(5, (event) => ({ ...event, task_seq: "5" })),
  ],
  "sends a task_seq with a fraction": [
    "remote_invalid",
    edit(5, (event) => ({ ...event, task_seq: 5.5 })),
  ],
  "skips a sequence_number": [
    "remote_lost",
    edit(5, (event) => ({ ...event, sequence_number: 7 })),
  ],
  "sends a huge sequence_number": [
    "remote_lost",
    edit(5, (event) => ({ ...event, sequence_number: Number.MAX_SAFE_INTEGER })),
  ],
  "sends a negative sequence_number": [
    "remote_lost",
    edit(5, (event) => ({ ...event, sequence_number: -5 })),
  ],
  "swaps two events": [
    "remote_invalid",
    {
      change({ events }) {
        const [a, b] = [events[4] as Sent, events[5] as Sent];
        events[4] = { ...b, sequence_number: 4 };
        events[5] = { ...a, sequence_number: 5 };
      },
    },
  ],
  "repeats an event": [
    "completed",
    {
      stream(response, story) {
        openStream(response);
        response.write(openedFrame(story));
        for (const event of story.events) response.write(frameOf(event).repeat(2));
        response.end(closedFrame);
      },
    },
  ],
  "repeats a number with another text": [
    "completed",
    {
      stream(response, story) {
        openStream(response);
        response.write(openedFrame(story));
        for (const event of story.events)
          response.write(frameOf(event) + frameOf({ ...event, delta: "Other." }));
        response.end(closedFrame);
      },
    },
  ],
  // Ends.
  "ends twice": ["completed", add(10, ({ events }) => [events[9] as Sent])],
  "fails after it has completed": [
    "completed",
    add(10, ({ taskId: id }) => [
      {
        type: "task.failed",
        task: {
          id,
          object: "task",
          status: "failed",
          error: { code: "x", message: "y", retryable: false },
        },
      },
    ]),
  ],
  "goes on after its end": ["completed", add(10, () => [custom(1)])],
  "says that it has ended without an end": [
    "remote_invalid",
    { change: ({ events }) => void events.splice(9, 1) },
  ],
  "has no events at all": ["remote_invalid", { change: ({ events }) => void events.splice(0, 10) }],
  "closes every connection before the end": [
    "remote_lost",
    {
      stream(response, story) {
        openStream(response);
        response.write(openedFrame(story));
        for (const event of story.events.slice(0, 9)) response.write(frameOf(event));
        response.end();
      },
    },
  ],
  "resets every connection": ["remote_lost", { stream: (response) => void response.destroy() }],
  "ends with an open item": [
    "remote_invalid",
    {
      change: (story) => {
        story.events.splice(7, 1);
        story.events.splice(0, 99, ...numbered(story.events));
      },
    },
  ],
  "fails without an error": [
    "remote_invalid",
    edit(9, (event) => ({
      ...event,
      type: "task.failed",
      task: { ...(event.task as Sent), status: "failed", generate_reason: "failed" },
    })),
  ],
  "fails with an error of its own": [
    "quota",
    edit(9, (event, { taskId: id }) => ({
      ...event,
      task: {
        id,
        object: "task",
        status: "failed",
        error: {
          code: "quota",
          message: "No more.",
          retryable: false,
          where: { taskId: "task_other", path: "s/lead" },
        },
      },
      type: "task.failed",
    })),
  ],
  // Items and texts.
  "writes into an item that it has not opened": [
    "remote_invalid",
    edit(4, (event) => ({ ...event, item_id: "msg_9", output_index: 9 })),
  ],
  "opens the same place twice": ["remote_invalid", add(3, ({ events }) => [events[2] as Sent])],
  "says something else in the end": [
    "remote_invalid",
    edit(6, (event) => ({
      ...event,
      item: { type: "text", text: "Other words.", annotations: [] },
    })),
  ],
  "answers a call that it never made": [
    "remote_invalid",
    add(8, () => [
      {
        type: "task.output_item.added",
        output_index: 1,
        item: {
          type: "tool_result",
          id: "fco_9",
          call_id: "call_9",
          status: "in_progress",
          block_list: [],
        },
      },
      {
        type: "task.output_item.done",
        output_index: 1,
        item: { type: "tool_result", id: "fco_9", call_id: "call_9", status: "completed" },
      },
    ]),
  ],
  "resolves an approval that nobody asked for": [
    "remote_invalid",
    add(8, () => [{ type: "task.approval.resolved", approval_id: "apr_9", decision: "approve" }]),
  ],
  "reports negative usage": [
    "remote_invalid",
    edit(8, (event) => ({
      ...event,
      usage: { input_tokens: -1, output_tokens: -1, total_tokens: -2 },
    })),
  ],
  "reports shrinking usage": [
    "remote_invalid",
    edit(9, (event) => ({
      ...event,
      task: {
        ...(event.task as Sent),
        usage: { input_tokens: 0, output_tokens: 0, total_tokens: 0 },
      },
    })),
  ],
  "sends an event of a type that does not exist yet": [
    "completed",
    add(8, () => [{ type: "task.hologram.added", x: 1 }]),
  ],
  "sends a snapshot ahead of its events": [
    "remote_log_expired",
    {
      change: ({ events, taskId: id }) =>
        void events.splice(4, 1, {
          type: "task.snapshot",
          task_id: id,
          through_sequence_number: 8,
          through_task_seq: 8,
          final: true,
          task: { id, object: "task", status: "in_progress", output: [] },
        }),
    },
  ],
  "sends __proto__ and constructor": [
    "completed",
    raw(
      'id: 2\nevent: x\ndata: {"type":"stream.heartbeat","__proto__":{"isAdmin":true},"constructor":{"prototype":{"isAdmin":true}}}\n\n',
    ),
  ],
  // Bytes.
  "sends HTML": ["invalid_response", answer(200, page, { "content-type": "text/html" })],
  "sends JSON in the place of events": [
    "invalid_response",
    answer(200, "{}", { "content-type": "application/json" }),
  ],
  "is a broken gateway": ["remote_lost", answer(502, page, { "content-type": "text/html" })],
  "does not know the task": ["http_error", answer(404, page)],
  "does not let us in": [
    "unauthorized",
    answer(401, '{"error":{"code":"unauthorized","message":"No."}}'),
  ],
  "redirects to a metadata address": [
    "redirected",
    answer(307, "", { location: "http://169.254.169.254/latest/meta-data" }),
  ],
  "redirects the start": [
    "redirected",
    {
      start: (response) =>
        void response.writeHead(308, { location: "http://169.254.169.254/" }).end(),
    },
  ],
  "sends a gzip bomb": [
    "event_too_large",
    {
      stream: (response) =>
        void response
          .writeHead(200, { "content-type": "text/event-stream", "content-encoding": "gzip" })
          .end(gzipSync(Buffer.alloc(50_000_000))),
    },
  ],
  "sends invalid UTF-8": [
    "remote_invalid",
    raw(({ taskId }) =>
      Buffer.concat([
        Buffer.from(
          `id: 2\ndata: {"type":"task.custom","task_id":"${taskId}","sequence_number":2,"task_seq":2,"created_at":1,"value":1,"name":"`,
        ),
        Buffer.from([0xff, 0xfe, 0xc0]),
        Buffer.from('"}\n\n'),
      ]),
    ),
  ],
  "sends no JSON": ["invalid_json", raw("id: 2\ndata: {oops\n\n")],
  "sends a number as an event": ["invalid_event", raw("id: 2\ndata: 7\n\n")],
  "sends an event of 300 kB": ["remote_invalid", add(8, () => [custom("x".repeat(300_000))])],
  "sends an event without an end": [
    "event_too_large",
    {
      stream(response, story) {
        openStream(response);
        response.write(openedFrame(story));
        endless(response, `data: ${"x".repeat(65_536)}`, "x".repeat(65_536));
      },
    },
  ],
  "sends events without an end": [
    "remote_too_large",
    {
      stream(response, story) {
        openStream(response);
        response.write(openedFrame(story));
        for (const event of story.events.slice(0, 2)) response.write(frameOf(event));
        let n = 2;
        endless(response, "", () => {
          const at = n++;
          return frameOf({
            ...custom("y".repeat(1_000)),
            task_id: story.taskId,
            sequence_number: at,
            task_seq: at,
            created_at: 1,
          });
        });
      },
    },
  ],
  "sends blank lines without an end": ["remote_lost", flood("\n")],
  "sends comments without an end": ["remote_lost", flood(": still here\n\n")],
  "sends ids without an end": ["remote_lost", flood("id: 1\n\n")],
  "repeats an event without an end": [
    "remote_too_large",
    flood(({ events: [created] }) => frameOf({ ...created, filler: "x".repeat(60_000) })),
  ],
  "opens its stream without an end": [
    "remote_too_large",
    flood((story) => openedFrame(story, { filler: "x".repeat(60_000) })),
  ],
  "sends signs of life without an end": [
    "remote_too_large",
    flood(`data: {"type":"stream.heartbeat","filler":"${"x".repeat(60_000)}"}\n\n`),
  ],
  "sends errors without an end": [
    "remote_too_large",
    flood('data: {"type":"error","code":"x","message":"y"}\n\n'),
  ],
  "sends an error of one megabyte": [
    "remote_invalid",
    edit(9, (event, { taskId: id }) => ({
      ...event,
      type: "task.failed",
      task: {
        id,
        object: "task",
        status: "failed",
        error: { code: "x", message: "z".repeat(1_000_000), retryable: false },
      },
    })),
  ],
  "nests a value ten thousand levels deep": [
    "remote_invalid",
    raw(
      ({ taskId }) =>
        `id: 2\ndata: {"type":"task.custom","task_id":"${taskId}","sequence_number":2,"task_seq":2,"created_at":1,"name":"x","value":${"[".repeat(10_000)}${"]".repeat(10_000)}}\n\n`,
    ),
  ],
  // The start, and the frames of the transport.
  "starts another task": [
    "invalid_response",
    { start: (response) => sendJson(response, { id: "task_other", root_task_id: "task_other" }) },
  ],
  "answers the start with ten megabytes": [
    "invalid_response",
    { start: (response) => sendJson(response, { id: "x".repeat(10_000_000) }) },
  ],
  "answers the start with HTML": ["remote_lost", { start: (response) => void response.end(page) }],
  "refuses the start": [
    "forbidden",
    {
      start: (response) =>
        sendJson(response, { error: { code: "forbidden", message: "No.", retryable: false } }, 403),
    },
  ],
  "fails at the start": ["remote_lost", { start: (response) => sendJson(response, {}, 500) }],
  "asks for a negative heartbeat": ["completed", { opened: { heartbeat_ms: -1 } }],
  "asks for a heartbeat that is text": ["completed", { opened: { heartbeat_ms: "soon" } }],
  "says that its log is endless": [
    "completed",
    { opened: { last_sequence_number: Number.MAX_SAFE_INTEGER } },
  ],
  "says that it follows another task": ["completed", { opened: { root_task_id: "task_other" } }],
};

/** Writes as fast as the reader reads, until it leaves. */
export function endless(
  response: ServerResponse,
  first: string,
  more: string | (() => string),
): void {
  let isOpen = true;
  response.on("close", () => {
    isOpen = false;
  });
  response.write(first);
  const write = () => {
    while (isOpen && response.write(typeof more === "string" ? more : more()));
    if (isOpen) response.once("drain", write);
  };
  write();
}
