import { onAbort } from "../base/clock.ts";
import { RivuletError } from "../base/error.ts";
import { mapStrings } from "../base/secrets.ts";
import type {
  Message,
  RemoteAnswer,
  RemoteLimits,
  RemoteLink,
  RemoteReading,
  RemoteStart,
  RemoteTask,
} from "../contract/index.ts";
import type { TaskEvent } from "../protocol/index.ts";
import { passingError, readLog } from "./reader.ts";
import type { StartedBody } from "./remote-run.ts";
import { isNamed, type Server } from "./request.ts";

/** The most bytes of one blob, and how long it may take. */
const maxBlobBytes = 8 * 1024 * 1024;
const blobMs = 30_000;

/** An agent on a server of this package, for a parent that runs it as a child. */
export class NativeLink implements RemoteLink {
  readonly url: string;
  readonly limits: RemoteLimits;
  readonly enforcesBudget = true;
  readonly #server: Server;
  readonly #agent: string;

  constructor(server: Server, agent: string, limits: RemoteLimits = {}) {
    this.#server = server;
    this.#agent = agent;
    this.url = `${server.shownBase}/agents/${encodeURIComponent(agent)}`;
    this.limits = limits;
  }

  async start(request: RemoteStart, signal: AbortSignal): Promise<string> {
    const { taskId, sessionId, messages, budget, outputSchema, traceparent, via } = request;
    const body = {
      agent: this.#agent,
      task_id: taskId,
      session_id: sessionId,
      input: messages.map(({ role, name, content }) => ({ role, name, content })),
      via,
      ...(budget && { budget }),
      ...(outputSchema && { output: outputSchema }),
    };
    const headers: Record<string, string> = traceparent === undefined ? {} : { traceparent };
    const started = await this.#send<StartedBody>("/v1/tasks", body, signal, headers);
    const { id, root_task_id: rootId } = started ?? {};
    const isStarted = typeof id === "string" && isNamed(id, taskId);
    if (isStarted && rootId === id) return id;
    throw new RivuletError("invalid_response", `${this.url} did not start task ${taskId}.`, {
      hint: isStarted
        ? "Give the other server a store of its own: it has the task of its caller."
        : "Check that the address is that of a Rivulet server.",
    });
  }

  /** A server takes the id of the child here in requests, but its events have the id that it stores. */
  async *events(
    { taskId, remoteId }: RemoteTask,
    reading: RemoteReading,
  ): AsyncIterable<TaskEvent> {
    const { after, signal, onOpened } = reading;
    const events = readLog({
      ...{ server: this.#server, taskId: remoteId, after, onOpened },
      ...{ until: "idle", once: true },
    });
    onAbort(signal, () => void events.return?.());
    const [own, other] = [`task://${taskId}/`, `task://${remoteId}/`];
    const renamed = (text: string) =>
      text === remoteId ? taskId : text.startsWith(other) ? own + text.slice(other.length) : text;
    for await (const event of events)
      yield taskId === remoteId ? event : mapStrings(event, renamed);
  }

  async answer(_: RemoteTask, answer: RemoteAnswer, signal: AbortSignal): Promise<void> {
    const { taskId, approvalId, ...body } = answer;
    const path = `${pathOf(taskId)}/approvals/${encodeURIComponent(approvalId)}`;
    await this.#send(path, body, signal);
  }

  async steer(_: RemoteTask, taskId: string, message: Message, signal: AbortSignal): Promise<void> {
    await this.#send(`${pathOf(taskId)}/input`, { input: message }, signal);
  }

  async cancel(_: RemoteTask, taskId: string, reason: string, signal: AbortSignal): Promise<void> {
    // The server takes 1 to 256 characters.
    const short = reason.slice(0, 256) || "cancelled";
    await this.#send(`${pathOf(taskId)}/cancel`, { reason: short }, signal);
  }

  async blob(
    taskId: string,
    name: string,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<Uint8Array | undefined> {
    const limit = AbortSignal.timeout(blobMs);
    const path = `${pathOf(taskId)}/blobs/${name}`;
    const most = Math.min(maxBytes, maxBlobBytes);
    let bytes: Uint8Array;
    try {
      bytes = await this.#server.bytes(path, most, AbortSignal.any([signal, limit]));
    } catch (thrown) {
      signal.throwIfAborted();
      const error = passingError(thrown);
      if (limit.aborted || error.retryable)
        throw new RivuletError("unreachable", error.message, { retryable: true });
      return undefined;
    }
    if (name === `sha256-${await sha256(bytes)}`) return bytes;
    throw new RivuletError("remote_invalid", `${this.url} sent other bytes than ${name}.`, {
      hint: "Check that the address is that of a server that you trust.",
    });
  }

  async #send<T>(
    path: string,
    body: object,
    signal: AbortSignal,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<T> {
    try {
      return await this.#server.once<T>("POST", path, body, signal, headers);
    } catch (error) {
      throw signal.aborted ? signal.reason : passingError(error);
    }
  }
}

function pathOf(taskId: string): string {
  return `/v1/tasks/${encodeURIComponent(taskId)}`;
}

async function sha256(bytes: Uint8Array): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>);
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
