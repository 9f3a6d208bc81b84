import { type Clock, systemClock } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import { isObject } from "../../base/plain.ts";
import { ignoredEvents, passingError, type Server } from "../../client/index.ts";
import {
  type RemoteAnswer,
  type RemoteLimits,
  type RemoteLink,
  type RemoteReading,
  type RemoteStart,
  type RemoteTask,
  textOf,
} from "../../contract/index.ts";
import { SseDecoder, type TaskEvent } from "../../protocol/index.ts";
import { ForeignTask, type Question } from "../foreign-task.ts";
import { AgentScopeReader, isLast, type RemoteEvent } from "./link-events.ts";

/** A task as its server shows it. */
interface Status {
  readonly status: string;
  readonly error?: string;
  readonly result?: string;
  readonly pending_confirms?: readonly PendingConfirm[];
}
interface PendingConfirm {
  readonly toolCallId: string;
  readonly toolName: string;
  readonly toolInputJson: string;
  readonly toolTitle?: string;
}

/** The silence of a stream after which the status is read: a server may forget to end a stream. */
const silenceMs = 2_000;
/** How long a task may make no progress. */
const idleMs = 600_000;
const [firstDelayMs, maxDelayMs] = [200, 3_200];
/** The most characters of one event. */
const maxEventChars = 8 * 1024 * 1024;
/** How long the server may hold a request that waits. */
const waitSeconds = 10;

/** An agent on a server that speaks the AgentScope task protocol, for a parent that runs it as a child. */
export class AgentScopeLink implements RemoteLink {
  readonly url: string;
  readonly limits: RemoteLimits = {};
  readonly #server: Server;
  readonly #agentId: string;
  readonly #clock: Clock;
  /** The answers that this process has got, by approval: the server wants those of all calls at once. */
  readonly #answers = new Map<string, Pick<RemoteAnswer, "decision" | "reason">>();

  constructor(server: Server, agentId: string, clock: Clock = systemClock) {
    this.#server = server;
    this.#agentId = agentId;
    this.#clock = clock;
    this.url = server.shownBase;
  }

  async start(request: RemoteStart, signal: AbortSignal): Promise<string> {
    const { taskId, messages, traceparent } = request;
    const body = {
      task_id: taskId,
      agent_id: this.#agentId,
      input: messages.map(({ content }) => textOf(content)).join("\n\n"),
      context: { stream: true, detail: "full" },
    };
    const headers: Record<string, string> = traceparent === undefined ? {} : { traceparent };
    try {
      await this.#send("POST", "/tasks", signal, body, headers);
    } catch (error) {
      // The task has ended already: this is a repeated start.
      if (statusOf(error) !== 409) throw error;
    }
    return taskId;
  }

  async *events({ taskId }: RemoteTask, reading: RemoteReading): AsyncGenerator<TaskEvent, void> {
    const { signal, known } = reading;
    const task = new ForeignTask(known, this.#clock);
    const reader = new AgentScopeReader(task);
    const ignore = ignoredEvents();
    let movedAt = this.#clock.now();
    for (let attempt = 0; !signal.aborted; attempt++) {
      const status = await this.#read(taskId, signal);
      for (const [id, { decision, reason }] of this.#answers) task.resolve(id, decision, reason);
      if (await this.#sendHeld(taskId, task, status, signal)) {
        await this.#wait(taskId, attempt, signal);
        continue;
      }
      this.#apply(taskId, task, reader, status);
      yield* task.drain();
      if (task.isEnded || task.isSuspended) return;
      reader.reopen();
      for await (const event of this.#follow(taskId, reader.fromSeq, ignore, signal)) {
        if (event !== "silent") {
          attempt = 0;
          movedAt = this.#clock.now();
          reader.take(event);
          const news = task.drain();
          if (news.length === 0) ignore(event);
          yield* news;
        }
        if (event !== "silent" && isLast(event)) break;
        // A stream may repeat an old confirmation, or stay open after the end: the status tells.
        if (event !== "silent" && event.type !== "REQUIRE_CONFIRM") continue;
        const { status: now } = await this.#read(taskId, signal);
        if (now === "awaiting_confirm" || (event === "silent" && now !== status.status)) break;
        if (this.#clock.now() - movedAt > idleMs) throw idle(this.url, taskId);
      }
      if (this.#clock.now() - movedAt > idleMs) throw idle(this.url, taskId);
      await this.#wait(taskId, attempt, signal);
    }
  }

  async answer({ taskId }: RemoteTask, answer: RemoteAnswer, signal: AbortSignal): Promise<void> {
    const { approvalId, decision, reason } = answer;
    this.#answers.set(approvalId, { decision, ...(reason !== undefined && { reason }) });
    const status = await this.#read(taskId, signal);
    const pending = isWaiting(status) ? (status.pending_confirms ?? []) : [];
    const isAsked = pending.some((one) => approvalIdOf(taskId, one) === approvalId);
    // The answer itself is sent with those of the other calls, by the next reader of the events.
    if (!isAsked)
      throw new RivuletError("not_found", `The server does not wait for ${approvalId}.`);
  }

  async steer(): Promise<void> {
    throw new RivuletError("not_supported", "The AgentScope task protocol cannot steer a task.");
  }

  async cancel(
    { taskId: id }: RemoteTask,
    taskId: string,
    _: string,
    signal: AbortSignal,
  ): Promise<void> {
    if (taskId === id) await this.#send("POST", `${pathOf(taskId)}/cancel`, signal);
  }

  /** Shows what the status says: it is the truth, and the stream may have missed something. */
  #apply(taskId: string, task: ForeignTask, reader: AgentScopeReader, status: Status): void {
    const { error, result = "", pending_confirms: pending = [] } = status;
    const isNew = pending.some((one) => !task.knows(approvalIdOf(taskId, one)));
    if (!isWaiting(status) || isNew) task.resume();
    switch (status.status) {
      case "awaiting_confirm":
        // A call whose arguments were not streamed has them now.
        for (const { toolCallId, toolInputJson } of pending)
          task.endCall(toolCallId, toolInputJson);
        task.ask(
          "confirm",
          pending.map((one) => questionOf(taskId, one)),
        );
        task.rest();
        break;
      case "success":
        reader.conclude(result);
        task.end({ status: "completed" });
        break;
      case "error":
      case "failed": {
        const message = (error ?? "The task failed.").slice(0, 10_000);
        task.end({ status: "failed", error: { code: "failed", message } });
        break;
      }
      case "cancelled":
      case "canceled":
        task.end({ status: "cancelled" });
    }
  }

  /** Sends the answers once every call has one: the server refuses calls without a decision. */
  async #sendHeld(
    taskId: string,
    task: ForeignTask,
    status: Status,
    signal: AbortSignal,
  ): Promise<boolean> {
    const pending = isWaiting(status) ? (status.pending_confirms ?? []) : [];
    const decisions = pending.flatMap((confirm) => {
      const { decision, reason } = task.decisionOf(approvalIdOf(taskId, confirm));
      if (decision === undefined) return [];
      const { toolCallId } = confirm;
      const edit = decision === "edit" ? "Its input cannot be changed here." : undefined;
      const why = reason ?? edit;
      const approved = decision === "approve";
      return [{ toolCallId, approved, ...(why !== undefined && { reason: why }) }];
    });
    if (pending.length === 0 || decisions.length < pending.length) return false;
    try {
      await this.#send("POST", `${pathOf(taskId)}/resume`, signal, { decisions });
    } catch (error) {
      if (statusOf(error) !== 409) throw error; // it was resumed already
    }
    return true;
  }

  async #read(taskId: string, signal: AbortSignal): Promise<Status> {
    const value = await this.#send("GET", pathOf(taskId), signal).catch((error: unknown) => {
      throw statusOf(error) === 404 ? gone(this.url, taskId) : error;
    });
    if (!isObject(value) || typeof value.status !== "string")
      throw new RivuletError("invalid_response", `${this.url} did not answer with a status.`, {
        hint: "Check that the address is that of an AgentScope task server.",
      });
    const { status, error, result, pending_confirms: pending } = value;
    return {
      status: status.toLowerCase(),
      ...(typeof error === "string" && { error }),
      ...(typeof result === "string" && { result }),
      ...(Array.isArray(pending) && { pending_confirms: pending.flatMap(readConfirm) }),
    };
  }

  /** The events after a number over one connection; `silent` when none comes for a while. None if the server has no streams. */
  async *#follow(
    taskId: string,
    fromSeq: number,
    ignore: ReturnType<typeof ignoredEvents>,
    signal: AbortSignal,
  ): AsyncGenerator<RemoteEvent | "silent", void> {
    const stop = new AbortController();
    const query = fromSeq > 0 ? `?from_seq=${fromSeq}` : "";
    const headers: Record<string, string> = {
      accept: "text/event-stream",
      ...(fromSeq > 0 && { "last-event-id": `${fromSeq}` }),
    };
    let response: Response;
    try {
      response = await this.#server.send(`${pathOf(taskId)}/events${query}`, {
        headers,
        signal: AbortSignal.any([signal, stop.signal]),
      });
    } catch (error) {
      if (statusOf(error) === 404 || statusOf(error) === 405) return;
      throw passingError(error);
    }
    const body = response.body?.getReader();
    const decoder = new SseDecoder({ maxEventChars });
    try {
      for (let chunk = body?.read(); ; ) {
        const read = await this.#orSilence(chunk, stop.signal);
        if (read === "silent") {
          yield read;
          continue;
        }
        if (read === undefined || read.done) return;
        chunk = body?.read();
        chunk?.catch(() => {});
        for (const { frame, error } of decoder.push(read.value))
          if (error === undefined) yield frame as unknown as RemoteEvent;
          else if (error.code === "event_too_large") throw error;
          else ignore(undefined);
      }
    } catch (error) {
      // The status tells whether the task still runs; a cut connection is opened again.
      if (error instanceof RivuletError) throw error;
    } finally {
      stop.abort();
      await body?.cancel().catch(() => {});
    }
  }

  async #orSilence<T>(
    work: Promise<T> | undefined,
    signal: AbortSignal,
  ): Promise<T | "silent" | undefined> {
    const over = new AbortController();
    const silence = this.#clock
      .sleep(silenceMs, AbortSignal.any([signal, over.signal]))
      .then(() => "silent" as const);
    silence.catch(() => {});
    try {
      return await Promise.race([work, silence]);
    } finally {
      over.abort();
    }
  }

  /** Waits for news of a task without a stream. */
  async #wait(taskId: string, attempt: number, signal: AbortSignal): Promise<void> {
    const path = `${pathOf(taskId)}/wait?timeout_seconds=${waitSeconds}`;
    const delay = Math.min(firstDelayMs * 2 ** attempt, maxDelayMs);
    if (attempt === 0) return;
    const pause = this.#clock.sleep(delay, signal);
    // A wait that runs out looks like a failure in this protocol: only the status counts.
    const waited = this.#server.once("GET", path, undefined, signal).catch(() => {});
    await Promise.all([pause, attempt > 2 ? waited : undefined]).catch(() => {});
  }

  async #send(
    method: string,
    path: string,
    signal: AbortSignal,
    body?: object,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<unknown> {
    try {
      return await this.#server.once(method, path, body, signal, headers);
    } catch (error) {
      throw signal.aborted ? signal.reason : passingError(error);
    }
  }
}

function isWaiting({ status }: Status): boolean {
  return status === "awaiting_confirm";
}

function approvalIdOf(taskId: string, { toolCallId }: PendingConfirm): string {
  return `apr_${taskId}_${toolCallId}`;
}

function questionOf(taskId: string, confirm: PendingConfirm): Question {
  const { toolCallId: callId, toolName: name, toolInputJson: input, toolTitle } = confirm;
  return {
    ...{ approvalId: approvalIdOf(taskId, confirm), callId, name, input, kind: "tool_call" },
    options: ["approve", "deny"],
    ...(toolTitle !== undefined && { message: toolTitle }),
  };
}

/** Reads a confirm with the field names of either form. */
function readConfirm(value: unknown): readonly PendingConfirm[] {
  if (!isObject(value)) return [];
  const { toolCallId = value.tool_call_id, toolName = value.tool_name, toolTitle } = value;
  const { toolInputJson = value.tool_input_json } = value;
  if (typeof toolCallId !== "string" || toolCallId === "") return [];
  return [
    {
      toolCallId: toolCallId.slice(0, 128),
      toolName: typeof toolName === "string" && toolName !== "" ? toolName.slice(0, 128) : "tool",
      toolInputJson: typeof toolInputJson === "string" ? toolInputJson : "{}",
      ...(typeof toolTitle === "string" && { toolTitle: toolTitle.slice(0, 2_000) }),
    },
  ];
}

/** The HTTP status behind an error. */
function statusOf(error: unknown): number | undefined {
  for (let at = error; isObject(at) || at instanceof Error; at = (at as Error).cause) {
    const { status } = at as { readonly status?: unknown };
    if (typeof status === "number") return status;
  }
  return undefined;
}

function pathOf(taskId: string): string {
  return `/tasks/${encodeURIComponent(taskId)}`;
}

function gone(url: string, taskId: string): RivuletError {
  return new RivuletError("remote_lost", `${url} no longer has task ${taskId}.`, {
    hint: "Check whether the other server keeps its tasks over a restart.",
  });
}

function idle(url: string, taskId: string): RivuletError {
  const message = `${url} says that task ${taskId} runs, but it has made no progress for ${idleMs} ms.`;
  return new RivuletError("remote_lost", message, {
    hint: "Check the other server: it may have lost the task in a restart.",
  });
}
