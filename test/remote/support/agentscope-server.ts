import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** One move of a scripted agent. */
export type Step =
  | { readonly text: string }
  | { readonly thinking: string }
  | { readonly call: string; readonly id: string; readonly input?: object }
  | { readonly result: string; readonly id: string; readonly state?: string }
  /** Waits until the calls are confirmed or refused. */
  | { readonly confirm: readonly { id: string; name: string; input: object }[] }
  | { readonly delayMs: number }
  /** Waits until this many readers have opened a stream. */
  | { readonly readers: number }
  | { readonly until: Promise<unknown> }
  | { readonly fail: string };

interface Decision {
  readonly toolCallId: string;
  readonly approved?: boolean;
  readonly reason?: string;
}
/** What an agent does; `approved` tells which calls were confirmed. */
export type Agent = (
  input: string,
  approved: ReadonlyMap<string, Decision>,
) => AsyncIterable<Step> | Iterable<Step>;

interface Quirks {
  /** No streams: `/events` answers 404. */
  readonly noStreams?: boolean;
  /** How many events a task keeps for readers that come back; 256 by default. */
  readonly buffer?: number;
  /** Streams without text. */
  readonly detail?: "status";
}

interface Event {
  readonly type: string;
  readonly [key: string]: unknown;
}
interface Task {
  status: string;
  error?: string;
  result?: string;
  pending?: readonly object[];
  readonly detail: string;
  seq: number;
  events: Event[];
  readonly sinks: Set<ServerResponse>;
  /** How many streams were opened. */
  readers: number;
  isCancelled: boolean;
  resume?: (decisions: readonly Decision[]) => void;
}

/**
 * A server of the AgentScope task protocol, written from the description of its behaviour: events are numbered from 1
 * and kept in a short buffer, which is dropped when the task ends; a wait that runs out looks like an error; a call
 * without a decision is refused; a task that has ended cannot be submitted again.
 */
export async function agentScopeServer(
  agents: Readonly<Record<string, Agent>>,
  quirks: Quirks = {},
) {
  const tasks = new Map<string, Task>();
  const requests: { method: string; path: string; headers: IncomingMessage["headers"] }[] = [];
  /** The next responses, instead of the real ones. */
  const failures: number[] = [];
  const submitted: Record<string, unknown>[] = [];
  const resumed: (readonly Decision[])[] = [];

  function publish(id: string, task: Task, event: Event) {
    const isText = event.type === "TEXT_DELTA" || event.type === "THINKING_DELTA";
    if (task.isCancelled || (isText && task.detail !== "full")) return;
    task.seq += 1;
    const sent = { seq: task.seq, taskId: id, timestamp: new Date().toISOString(), ...event };
    task.events = [...task.events, sent].slice(-(quirks.buffer ?? 256));
    for (const sink of task.sinks) write(sink, sent);
  }

  function complete(task: Task) {
    task.events = [];
    for (const sink of task.sinks) sink.end();
    task.sinks.clear();
  }

  async function run(id: string, task: Task, agent: Agent, input: string) {
    const approved = new Map<string, Decision>();
    const say = (event: Event) => publish(id, task, event);
    task.status = "running";
    say({ type: "RUN_STARTED" });
    let text = "";
    try {
      for await (const step of agent(input, approved)) {
        if (task.isCancelled) return;
        if ("text" in step) {
          text += step.text;
          say({ type: "TEXT_DELTA", text: step.text });
          continue;
        }
        if ("thinking" in step) say({ type: "THINKING_DELTA", text: step.thinking });
        if ("call" in step) {
          const call = { toolCallId: step.id, toolName: step.call };
          say({ type: "TOOL_CALL_START", ...call });
          const toolInput = step.input && JSON.stringify(step.input);
          say({ type: "TOOL_CALL_END", ...call, toolInput });
        }
        if ("result" in step) {
          const status = step.state ?? "SUCCESS";
          say({ type: "TOOL_RESULT", toolCallId: step.id, status, text: step.result });
        }
        if ("call" in step || "result" in step || "confirm" in step) text = "";
        if ("confirm" in step) {
          const pending = step.confirm.map((one) => ({
            toolCallId: one.id,
            toolName: one.name,
            toolInputJson: JSON.stringify(one.input),
          }));
          Object.assign(task, { status: "awaiting_confirm", pending });
          say({ type: "REQUIRE_CONFIRM", pendingConfirms: pending, status: "awaiting_confirm" });
          const decisions = await new Promise<readonly Decision[]>((resolve) => {
            task.resume = resolve;
          });
          for (const { toolCallId } of pending) {
            const given = decisions.find((one) => one.toolCallId === toolCallId);
            approved.set(toolCallId, { toolCallId, ...given, approved: given?.approved === true });
          }
        }
        if ("readers" in step)
          while (task.readers < step.readers && !task.isCancelled) await sleep(2);
        if ("delayMs" in step) await sleep(step.delayMs);
        if ("until" in step) await step.until;
        if ("fail" in step) throw new Error(step.fail);
      }
      if (task.isCancelled) return;
      say({ type: "RUN_FINISHED" });
      Object.assign(task, { status: "success", result: text });
      say({ type: "STATUS", status: "success" });
    } catch (error) {
      const { message } = error as Error;
      Object.assign(task, { status: "error", error: message });
      say({ type: "RUN_ERROR", status: "error", error: message });
    }
    complete(task);
  }

  function snapshot(id: string, { status, error, result, pending }: Task) {
    const confirms = status === "awaiting_confirm" ? { pending_confirms: pending } : {};
    return { task_id: id, status, error, result, ...confirms };
  }

  async function answer(request: IncomingMessage, response: ServerResponse) {
    const url = new URL(request.url ?? "", "http://host");
    const { method = "", headers } = request;
    requests.push({ method, path: url.pathname + url.search, headers });
    const json = (status: number, body: unknown) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    };
    const failure = failures.shift();
    if (failure !== undefined) return json(failure, { error: "The gateway is tired." });
    let text = "";
    for await (const chunk of request) text += chunk;
    const body = text === "" ? {} : JSON.parse(text);
    const [, root, id = "", action = ""] = url.pathname.split("/").map(decodeURIComponent);
    if (root !== "tasks") return json(404, {});
    if (method === "POST" && id === "") return submit(body, json);
    const task = tasks.get(id);
    if (task === undefined) return json(404, { status: "error", error: "task not found" });
    switch (`${method} ${action}`) {
      case "GET ":
        return json(200, snapshot(id, task));
      case "GET wait": {
        const seconds = Number(url.searchParams.get("timeout_seconds"));
        const isBusy = () => task.status === "running" || task.status === "pending";
        for (let ms = 0; isBusy() && ms < seconds * 1_000; ms += 10) await sleep(10);
        if (isBusy()) return json(200, { status: "error", error: `wait timeout after ${seconds}` });
        return json(200, snapshot(id, task));
      }
      case "POST cancel":
        task.isCancelled = true;
        if (["pending", "running", "awaiting_confirm"].includes(task.status))
          task.status = "cancelled";
        complete(task);
        return json(200, snapshot(id, task));
      case "POST resume":
        if (task.status !== "awaiting_confirm") return json(409, { error: "not awaiting" });
        task.status = "running";
        resumed.push(body.decisions);
        task.resume?.(body.decisions);
        return json(200, { status: "running" });
      case "GET events": {
        if (quirks.noStreams) return json(404, {});
        const from = Number(url.searchParams.get("from_seq") ?? 0);
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.flushHeaders();
        for (const event of task.events) if (Number(event.seq) > from) write(response, event);
        task.readers += 1;
        task.sinks.add(response); // a stream of a task that has ended stays open and silent
        response.on("close", () => task.sinks.delete(response));
        return;
      }
      default:
        return json(405, {});
    }
  }

  function submit(
    body: { task_id?: string; agent_id: string; input: string; context?: { detail?: string } },
    json: (status: number, body: unknown) => void,
  ) {
    const { task_id, agent_id, input, context = {} } = body;
    if (!task_id) return json(400, { error: "task_id is required" });
    const before = tasks.get(task_id);
    const isOver = before && ["success", "error", "cancelled"].includes(before.status);
    if (isOver) return json(409, { error: `task_id already finished: ${task_id}` });
    const agent = agents[agent_id];
    if (agent === undefined) return json(400, { error: `no agent ${agent_id}` });
    if (before === undefined) {
      submitted.push(body);
      const fresh: Task = {
        ...{ status: "pending", detail: quirks.detail ?? context.detail ?? "status", seq: 0 },
        ...{ events: [], sinks: new Set(), readers: 0, isCancelled: false },
      };
      tasks.set(task_id, fresh);
      setImmediate(() => void run(task_id, fresh, agent, input));
    }
    return json(200, { task_id, status: "pending" });
  }

  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return {
    ...{ url: `http://127.0.0.1:${port}`, tasks, requests, failures, submitted, resumed, close },
    /** Cuts all open streams. */
    cut() {
      for (const { sinks } of tasks.values()) for (const sink of sinks) sink.destroy();
    },
    [Symbol.asyncDispose]: close,
  };
}

function write(sink: ServerResponse, event: Event): void {
  sink.write(`id:${event.seq}\nevent:${event.type}\ndata:${JSON.stringify(event)}\n\n`);
}
