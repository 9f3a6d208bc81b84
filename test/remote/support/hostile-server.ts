import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";

/** An event as a server may send it: of any form. */
export type Sent = Record<string, unknown>;

/** What a server is asked to run, and the events of an honest run of it. */
export interface Story {
  readonly taskId: string;
  readonly sessionId: string;
  /** The root of the caller. */
  readonly rootId: string;
  readonly events: Sent[];
}

/** How a server behaves: the frames that it sends, or what it does with a request. */
export interface Behaviour {
  /** Changes the events of an honest run. */
  readonly change?: (story: Story) => void;
  /** Answers the request for events instead. */
  readonly stream?: (response: ServerResponse, story: Story, connection: number) => void;
  /** Answers the start instead. */
  readonly start?: (response: ServerResponse, story: Story) => void;
  /** The `stream.opened` frame. */
  readonly opened?: Sent;
  /** The bytes of every blob. */
  readonly blob?: Buffer | undefined;
}

/** A server that follows a behaviour. */
export interface HostileServer extends AsyncDisposable {
  readonly url: string;
  readonly requests: { method: string; path: string }[];
}

export async function hostileServer(behaviour: Behaviour): Promise<HostileServer> {
  let story: Story | undefined;
  let connections = 0;
  const requests: { method: string; path: string }[] = [];
  const server = createServer(async (request, response) => {
    const { method = "", url: path = "" } = request;
    requests.push({ method, path });
    response.on("error", () => {});
    if (method === "POST" && path === "/v1/tasks") {
      story ??= await storyOf(request, behaviour);
      if (behaviour.start) return behaviour.start(response, story);
      const { taskId: id } = story;
      return sendJson(response, {
        id,
        object: "task",
        status: "queued",
        root_task_id: id,
        starting_after: -1,
      });
    }
    if (method === "POST") return sendJson(response, {});
    if (path.includes("/blobs/") && behaviour.blob) return void response.end(behaviour.blob);
    if (story === undefined || path.includes("/blobs/")) return void response.writeHead(404).end();
    if (behaviour.stream) return behaviour.stream(response, story, connections++);
    sendEvents(response, story, behaviour.opened);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The id of the root task on the other side, as if the server had guessed it. */
export const guessedRootId = "task_root";

async function storyOf(request: IncomingMessage, { change }: Behaviour): Promise<Story> {
  const body = (await json(request)) as Record<string, never>;
  const taskId = String(body.task_id);
  const sessionId = String(body.session_id);
  const story = {
    taskId,
    sessionId,
    rootId: guessedRootId,
    events: honest(taskId, sessionId),
  };
  change?.(story);
  return story;
}

/** The events of a task that says two words. */
function honest(id: string, session_id: string): Sent[] {
  const text = { item_id: "msg_1", output_index: 0, block_index: 0 };
  const item = {
    ...{ type: "message", id: "msg_1", role: "assistant" },
    ...{ status: "in_progress", block_list: [] },
  };
  const said = { type: "text", text: "Two words.", annotations: [] };
  const usage = { input_tokens: 1, output_tokens: 2, total_tokens: 3 };
  const bodies = [
    {
      type: "task.created",
      task: { id, object: "task", status: "queued", agent_id: "a", session_id, created_at: 1 },
    },
    { type: "task.in_progress", task: { id, object: "task", status: "in_progress" } },
    { type: "task.output_item.added", output_index: 0, item },
    { type: "task.text.added", ...text, item: { ...said, text: "" } },
    { type: "task.text.delta", ...text, delta: "Two " },
    { type: "task.text.delta", ...text, delta: "words." },
    { type: "task.text.done", ...text, item: said },
    {
      type: "task.output_item.done",
      output_index: 0,
      item: { ...item, status: "completed", block_list: [said] },
    },
    { type: "task.usage", cumulative: true, usage },
    {
      type: "task.completed",
      task: {
        id,
        object: "task",
        status: "completed",
        completed_at: 2,
        usage,
        generate_reason: "model_stop",
      },
    },
  ];
  return numbered(bodies.map((body) => ({ ...body, task_id: id })));
}

/** Gives events the numbers that an honest server would give them. */
export function numbered(events: readonly Sent[]): Sent[] {
  const seqs = new Map<unknown, number>();
  return events.map((event, sequence_number) => {
    const task_seq = seqs.get(event.task_id) ?? 0;
    seqs.set(event.task_id, task_seq + 1);
    return { ...event, sequence_number, task_seq, created_at: 1 };
  });
}

/** Puts events into the middle of a run and numbers all of them. */
export function insert(story: Story, at: number, ...events: readonly Sent[]): void {
  const all = [...story.events.slice(0, at), ...events, ...story.events.slice(at)];
  story.events.splice(
    0,
    story.events.length,
    ...numbered(all.map((event) => ({ task_id: story.taskId, ...event }))),
  );
}

/** The events of a descendant that ends at once. */
export function descendant(
  story: Story,
  id: string,
  more: { task?: Sent; source?: Sent } = {},
): Sent[] {
  const source = {
    ...{ agentKey: `agent:b:${id}`, agentId: "b", agentName: "b", sessionId: `sub-${id}` },
    ...{ parentSessionId: story.sessionId, taskId: id, depth: 1, path: `${story.sessionId}/b` },
    ...more.source,
  };
  const task = {
    id,
    object: "task",
    status: "queued",
    agent_id: "b",
    session_id: `sub-${id}`,
    created_at: 1,
  };
  const parent = {
    parent_task_id: story.taskId,
    parent_call_id: id,
    parent_item_id: `fco_${id}`,
    mode: "background",
  };
  return [
    { type: "task.created", task_id: id, source, task: { ...task, ...parent, ...more.task } },
    {
      type: "task.in_progress",
      task_id: id,
      source,
      task: { id, object: "task", status: "in_progress" },
    },
    {
      type: "task.completed",
      task_id: id,
      source,
      task: {
        id,
        object: "task",
        status: "completed",
        completed_at: 2,
        generate_reason: "model_stop",
      },
    },
  ];
}

/** A call of the task that starts a descendant in the background. */
export function spawning(id: string, at = 1): Sent[] {
  const call = {
    type: "tool_call",
    id: `fc_${id}`,
    call_id: id,
    name: "agent_spawn",
    arguments: "{}",
  };
  const result = { type: "tool_result", id: `fco_${id}`, call_id: id };
  return [
    {
      type: "task.output_item.added",
      output_index: at,
      item: { ...call, status: "in_progress", arguments: "" },
    },
    {
      type: "task.tool_call_arguments.done",
      item_id: `fc_${id}`,
      output_index: at,
      arguments: "{}",
    },
    { type: "task.output_item.done", output_index: at, item: { ...call, status: "completed" } },
    {
      type: "task.output_item.added",
      output_index: at + 1,
      item: { ...result, status: "in_progress", block_list: [] },
    },
    {
      ...{
        type: "task.child.started",
        child_task_id: id,
        call_id: id,
        item_id: `fco_${id}`,
        output_index: at + 1,
      },
      ...{ mode: "background", agent: { id: "b", name: "b", key: `agent:b:${id}` } },
    },
    {
      type: "task.output_item.done",
      output_index: at + 1,
      item: { ...result, status: "completed", child_task_id: id, block_list: [] },
    },
  ];
}

export function sendJson(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

export function openStream(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
}

export function frameOf(event: Sent): string {
  return `id: ${event.sequence_number}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

export function openedFrame(story: Story, more: Sent = {}): string {
  const last_sequence_number = story.events.length - 1;
  const frame = {
    type: "stream.opened",
    protocol: "rivulet/1",
    root_task_id: story.taskId,
    last_sequence_number,
  };
  return `event: stream.opened\ndata: ${JSON.stringify({ ...frame, ...more })}\n\n`;
}

export const closedFrame = `event: stream.closed\ndata: {"type":"stream.closed","reason":"terminal","final":true}\n\n`;

function sendEvents(response: ServerResponse, story: Story, opened?: Sent): void {
  openStream(response);
  response.write(openedFrame(story, opened));
  for (const event of story.events) response.write(frameOf(event));
  response.end(closedFrame);
}
