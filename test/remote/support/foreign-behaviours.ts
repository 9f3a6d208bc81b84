import type { ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { endless } from "./behaviours.ts";
import { openStream, sendJson } from "./hostile-server.ts";

/** A request to a hostile server. */
export interface Asked {
  readonly method: string;
  readonly path: string;
  /** The body of a POST. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly url: string;
}

/** What a server does with a request. */
export type Answer = (asked: Asked, response: ServerResponse) => void;

const page = "<!doctype html><title>Welcome</title>";
const metadata = { location: "http://169.254.169.254/latest/meta-data" };
const redirect = (response: ServerResponse) => void response.writeHead(307, metadata).end();
const bomb = (response: ServerResponse, type: string) =>
  void response
    .writeHead(200, { "content-type": type, "content-encoding": "gzip" })
    .end(gzipSync(Buffer.alloc(50_000_000, " ")));
const deep = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;

/** The parts of an AgentScope server that a behaviour replaces. */
interface AgentScopeBehaviour {
  readonly start?: Answer;
  readonly status?: Answer;
  readonly events?: Answer;
}

const frame = (event: object) => `data: ${JSON.stringify(event)}\n\n`;
const delta = (seq: number, text: string) => frame({ seq, type: "TEXT_DELTA", text });

/** Sends text as events, and then that the task has ended. */
function saying(...frames: readonly string[]): Pick<AgentScopeBehaviour, "events" | "status"> {
  let hasEnded = false;
  return {
    events(_, response) {
      hasEnded = true;
      openStream(response);
      response.end(frames.join(""));
    },
    status: (_, response) =>
      sendJson(response, hasEnded ? { status: "success" } : { status: "running" }),
  };
}

const success = (more: object): AgentScopeBehaviour => ({
  status: (_, response) => sendJson(response, { status: "success", ...more }),
});
const running: Answer = (_, response) => sendJson(response, { status: "running" });

/** A server that sends the same text again and again. */
function agentScopeFlood(what: string, outcome: string, text: string) {
  const events: Answer = (_, response) => {
    openStream(response);
    endless(response, "", text.repeat(Math.ceil(65_536 / text.length)));
  };
  return {
    [`sends ${what} without an end`]: [outcome, () => ({ status: running, events })],
  } as const;
}

/** What an AgentScope server may do, and what becomes of its child. */
export const agentScopeBehaviours: Readonly<
  Record<string, readonly [string, () => AgentScopeBehaviour]>
> = {
  "is honest": ["completed", () => saying(delta(1, "Two "), delta(2, "words."))],
  "says much in one event": ["completed", () => saying(delta(1, "😀x".repeat(150_000)))],
  "names another task in its events": [
    "completed",
    () => saying(frame({ seq: 1, type: "TEXT_DELTA", taskId: "task_other", text: "Words." })),
  ],
  "sends numbers that are negative, huge, fractions and text": [
    "completed",
    () =>
      saying(
        ...[-1, 2 ** 60, 1.5, "1"].map((seq) => frame({ seq, type: "TEXT_DELTA", text: "x" })),
      ),
  ],
  "sends no JSON and numbers in its events": [
    "completed",
    () => saying("data: {oops\n\ndata: 7\n\n"),
  ],
  "sends events of types that do not exist": [
    "completed",
    () => saying(frame({ seq: 1, type: "HOLOGRAM" })),
  ],
  "sends __proto__ in an event": [
    "completed",
    () => saying('data: {"type":"TEXT_DELTA","seq":1,"text":"x","__proto__":{"isAdmin":true}}\n\n'),
  ],
  "goes on after its end": [
    "completed",
    () => saying(frame({ seq: 1, type: "STATUS", status: "success" }), delta(2, "More.")),
  ],
  "answers a call that it never made": [
    "completed",
    () => saying(frame({ seq: 1, type: "TOOL_RESULT", toolCallId: "../../x", text: "y" })),
  ],
  "contradicts its stream in the result": [
    "completed",
    () => ({ ...saying(delta(1, "One.")), ...success({ result: "Other." }) }),
  ],
  "sends events without an end": [
    "remote_too_large",
    () => ({
      status: running,
      events(_, response) {
        openStream(response);
        let seq = 0;
        endless(response, "", () => delta(++seq, "y".repeat(1_000)));
      },
    }),
  ],
  "sends an event without an end": [
    "event_too_large",
    () => ({
      status: running,
      events(_, response) {
        openStream(response);
        endless(response, "data: ", "x".repeat(65_536));
      },
    }),
  ],
  ...agentScopeFlood("blank lines", "remote_lost", "\n"),
  ...agentScopeFlood("comments", "remote_lost", ": still here\n\n"),
  ...agentScopeFlood("unreadable events", "remote_too_large", "data: x\n\n"),
  ...agentScopeFlood(
    "events of unknown types",
    "remote_too_large",
    frame({ type: "HOLOGRAM", text: "x".repeat(60_000) }),
  ),
  "sends a gzip bomb as events": [
    "event_too_large",
    () => ({ status: running, events: (_, response) => bomb(response, "text/event-stream") }),
  ],
  "sends a gzip bomb as its status": [
    "invalid_response",
    () => ({ status: (_, response) => bomb(response, "application/json") }),
  ],
  "sends a status of ten megabytes": [
    "invalid_response",
    () => success({ result: "x".repeat(10_000_000) }),
  ],
  "has a status that is no status": [
    "invalid_response",
    () => ({ status: (_, response) => sendJson(response, { status: 7 }) }),
  ],
  "has a page as its status": [
    "remote_lost",
    () => ({ status: (_, response) => void response.end(page) }),
  ],
  "does not know the task": [
    "remote_lost",
    () => ({ status: (_, response) => sendJson(response, {}, 404) }),
  ],
  "redirects to a metadata address": [
    "redirected",
    () => ({ status: (_, response) => redirect(response) }),
  ],
  "redirects the start": ["redirected", () => ({ start: (_, response) => redirect(response) })],
  "refuses the start": [
    "http_error",
    () => ({ start: (_, response) => sendJson(response, { error: "No." }, 403) }),
  ],
  "fails at the start": [
    "remote_lost",
    () => ({ start: (_, response) => sendJson(response, {}, 500) }),
  ],
  "resets every connection": [
    "remote_lost",
    () => ({ status: (_, response) => void response.destroy() }),
  ],
  "fails with an error of one megabyte": [
    "failed",
    () => ({
      status: (_, response) =>
        sendJson(response, { status: "error", error: "z".repeat(1_000_000) }),
    }),
  ],
};

/** Answers the requests of the AgentScope task protocol. */
export function agentScopeAnswer(behaviour: AgentScopeBehaviour): Answer {
  const ended: Answer = (_, response) => sendJson(response, { status: "success" });
  const noStream: Answer = (_, response) => sendJson(response, {}, 404);
  const { start = running, status: show = ended, events = noStream } = behaviour;
  return (asked, response) => {
    const { method, path } = asked;
    if (method === "POST" && path === "/tasks") start(asked, response);
    else if (method === "POST" || path.includes("/wait")) sendJson(response, {});
    else if (path.includes("/events")) events(asked, response);
    else show(asked, response);
  };
}

/** The parts of an A2A server that a behaviour replaces. */
interface A2aBehaviour {
  readonly card?: Answer;
  /** Answers a message instead of the events. */
  readonly send?: Answer;
  /** The updates after a message. */
  readonly updates?: readonly object[];
}

const task = (state: string, more: object = {}) => ({
  task: {
    ...{ id: "task_there", contextId: "there", artifacts: [], history: [] },
    ...{ status: { state, timestamp: "2026-01-01T00:00:00Z" }, ...more },
  },
});
const working = task("TASK_STATE_WORKING");
const place = { taskId: "task_there", contextId: "there" };
const status = (state: string, text?: string) => ({
  statusUpdate: {
    ...place,
    status: {
      state,
      timestamp: "2026-01-01T00:00:00Z",
      ...(text !== undefined && {
        message: { messageId: "m1", role: "ROLE_AGENT", ...place, parts: [{ text }] },
      }),
    },
  },
});
const artifact = (parts: readonly object[], append = true, more: object = {}) => ({
  artifactUpdate: { ...place, append, artifact: { artifactId: "a", parts }, ...more },
});
const completed = status("TASK_STATE_COMPLETED");
const rpc = ({ body }: Asked, result: object) => ({ jsonrpc: "2.0", id: body.id, result });
const cardOf = (url: string, more: object = {}) => ({
  ...{ name: "helper", description: "Helps.", version: "1", skills: [] },
  supportedInterfaces: [{ url: `${url}/rpc`, protocolBinding: "JSONRPC", protocolVersion: "1.0" }],
  capabilities: { streaming: true },
  ...{ defaultInputModes: ["text/plain"], defaultOutputModes: ["text/plain"], ...more },
});

/** Sends updates without an end. */
const endlessUpdates = (update: (n: number) => object): A2aBehaviour => ({
  send(asked, response) {
    openStream(response);
    response.write(frame(rpc(asked, working)));
    let n = 0;
    endless(response, "", () => frame(rpc(asked, update(n++))));
  },
});

/** Sends one update, and then the same text again and again. */
const a2aFlood = (text: string): A2aBehaviour => ({
  send(asked, response) {
    openStream(response);
    response.write(frame(rpc(asked, working)));
    endless(response, "", text.repeat(Math.ceil(65_536 / text.length)));
  },
});

/** What an A2A server may do, and what becomes of its child. The official client treats a huge event as a lost connection. */
export const a2aBehaviours: Readonly<Record<string, readonly [string, A2aBehaviour]>> = {
  "is honest": ["completed", { updates: [working, artifact([{ text: "Words." }]), completed] }],
  "says much in one update": [
    "completed",
    { updates: [working, artifact([{ text: "😀x".repeat(150_000) }]), completed] },
  ],
  "names another task in its updates": [
    "completed",
    {
      updates: [working, artifact([{ text: "Words." }], true, { taskId: "task_other" }), completed],
    },
  ],
  "works after its end": [
    "completed",
    { updates: [working, completed, status("TASK_STATE_WORKING")] },
  ],
  "ends twice": [
    "completed",
    { updates: [working, completed, status("TASK_STATE_FAILED", "No.")] },
  ],
  "is in a state that does not exist yet": [
    "completed",
    { updates: [working, status("TASK_STATE_HOLOGRAM"), completed] },
  ],
  "names an artifact with a path": [
    "completed",
    {
      updates: [
        working,
        {
          artifactUpdate: { ...place, artifact: { artifactId: "../../x", parts: [{ text: "y" }] } },
        },
        completed,
      ],
    },
  ],
  "replaces what it has said": [
    "completed",
    {
      updates: [
        working,
        artifact([{ text: "One." }]),
        artifact([{ text: "Other." }], false),
        completed,
      ],
    },
  ],
  "fails with a text of one megabyte": [
    "failed",
    { updates: [working, status("TASK_STATE_FAILED", "z".repeat(1_000_000))] },
  ],
  "gives its task an id of one megabyte": [
    "invalid_response",
    { updates: [task("TASK_STATE_WORKING", { id: "x".repeat(1_000_000) })] },
  ],
  "sends data ten thousand levels deep": [
    "remote_invalid",
    {
      send(asked, response) {
        openStream(response);
        response.write(frame(rpc(asked, working)));
        const nested = JSON.stringify(rpc(asked, artifact([{ data: "NESTED" }])));
        response.end(`data: ${nested.replace('"NESTED"', deep(10_000))}\n\n`);
      },
    },
  ],
  "sends updates without an end": [
    "remote_too_large",
    endlessUpdates(() => artifact([{ text: "y".repeat(1_000) }])),
  ],
  "replaces its artifact without an end": [
    "remote_too_large",
    endlessUpdates((n) => artifact([{ text: `${n} ${"y".repeat(1_000)}` }], false)),
  ],
  "sends blank lines without an end": ["remote_lost", a2aFlood("\n")],
  "sends comments without an end": ["remote_lost", a2aFlood(": still here\n\n")],
  "repeats an update without an end": [
    "remote_too_large",
    endlessUpdates(() => task("TASK_STATE_WORKING", { metadata: { filler: "x".repeat(60_000) } })),
  ],
  "sends an event without an end": [
    "remote_lost",
    {
      send(_, response) {
        openStream(response);
        endless(response, "data: ", "x".repeat(65_536));
      },
    },
  ],
  "sends a gzip bomb as events": [
    "remote_lost",
    { send: (_, response) => bomb(response, "text/event-stream") },
  ],
  "sends no JSON in its events": [
    "remote_lost",
    {
      send(_, response) {
        openStream(response);
        response.end("data: {oops\n\n");
      },
    },
  ],
  "ends its stream without an update": [
    "invalid_response",
    {
      send(_, response) {
        openStream(response);
        response.end();
      },
    },
  ],
  "refuses the message": [
    "remote_refused",
    {
      send: ({ body }, response) =>
        sendJson(response, {
          jsonrpc: "2.0",
          id: body.id,
          error: { code: -32602, message: "No." },
        }),
    },
  ],
  "answers the message with ten megabytes": [
    "invalid_response",
    { send: (asked, response) => sendJson(response, rpc(asked, { x: "x".repeat(10_000_000) })) },
  ],
  "redirects the message": ["http_error", { send: (_, response) => redirect(response) }],
  "has a page as its card": [
    "invalid_response",
    { card: (_, response) => void response.end(page) },
  ],
  "has a card of ten megabytes": [
    "invalid_response",
    {
      card: ({ url }, response) =>
        sendJson(response, cardOf(url, { name: "x".repeat(10_000_000) })),
    },
  ],
  "has a card that is a gzip bomb": [
    "invalid_response",
    { card: (_, response) => bomb(response, "application/json") },
  ],
  "redirects to another card": ["http_error", { card: (_, response) => redirect(response) }],
  "has a card that leads to a metadata address": [
    "other_origin",
    { card: (_, response) => sendJson(response, cardOf("http://169.254.169.254")) },
  ],
  "resets every connection": ["remote_lost", { send: (_, response) => void response.destroy() }],
};

/** Answers the requests of A2A. */
export function a2aAnswer({ card, send, updates = [] }: A2aBehaviour): Answer {
  const showCard: Answer = ({ url }, response) => sendJson(response, cardOf(url));
  const stream: Answer = (asked, response) => {
    openStream(response);
    response.end(updates.map((update) => frame(rpc(asked, update))).join(""));
  };
  return (asked, response) => {
    const { method, body } = asked;
    if (method === "GET") (card ?? showCard)(asked, response);
    else if (body.method === "SendStreamingMessage") (send ?? stream)(asked, response);
    else if (body.method === "ListTasks") sendJson(response, rpc(asked, { tasks: [] }));
    else sendJson(response, rpc(asked, task("TASK_STATE_WORKING").task));
  };
}
