import type { Message as A2aMessage, AgentCard, Part, StreamResponse, Task } from "@a2a-js/sdk";
import { Role } from "@a2a-js/sdk";
import {
  type Client,
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from "@a2a-js/sdk/client";
import { A2AError, TaskNotFoundError } from "@a2a-js/sdk/errors";
import { type Clock, onAbort, systemClock } from "../../base/clock.ts";
import { RivuletError, rivuletErrorOf } from "../../base/error.ts";
import { ignoredEvents } from "../../client/index.ts";
import {
  type Message,
  type RemoteAnswer,
  type RemoteLimits,
  type RemoteLink,
  type RemoteReading,
  type RemoteStart,
  type RemoteTask,
  textOf,
} from "../../contract/index.ts";
import type { TaskEvent } from "../../protocol/index.ts";
import { ForeignTask } from "../foreign-task.ts";
import { A2aReader, answerParts, isResting } from "./link-events.ts";

const versionHeader = "a2a-version";
const [firstDelayMs, maxDelayMs] = [200, 3_000];
/** The longest id that a server may give a task. */
const maxIdLength = 256;
/** How long a task that is polled may show no change. */
const idleMs = 600_000;

/** What a message has led to: a stream of updates, the task, or an answer without a task. */
type Sent =
  | { readonly first: StreamResponse; readonly rest: AsyncIterator<StreamResponse>; stop(): void }
  | { readonly first: StreamResponse; readonly rest?: undefined };

/** How to use an agent that is known by its card. */
export interface A2aOptions {
  /** Reaches only the origin of the card, and sends its credentials. */
  readonly fetch: typeof fetch;
  /** Whether the caller wants a value: an artifact that is only data. */
  readonly wantsValue: boolean;
  readonly clock?: Clock;
}

/** An agent that speaks A2A, for a parent that runs it as a child. */
export class A2aLink implements RemoteLink {
  readonly url: string;
  readonly limits: RemoteLimits = {};
  readonly #fetch: typeof fetch;
  readonly #wantsValue: boolean;
  readonly #clock: Clock;
  #opening: Promise<{ readonly client: Client; readonly card: AgentCard }> | undefined;
  /** The streams that a message has opened and that have no reader yet, by task. */
  readonly #sent = new Map<string, Sent>();
  /** The answers that were sent. */
  readonly #answers = new Map<string, RemoteAnswer>();
  /** The tasks whose start may have reached the server without an answer. */
  readonly #unsure = new Set<string>();

  constructor(url: string, { fetch: reach, wantsValue, clock = systemClock }: A2aOptions) {
    this.url = url;
    this.#fetch = guarded(reach);
    this.#wantsValue = wantsValue;
    this.#clock = clock;
  }

  /** The card is read once. */
  #open(): Promise<{ readonly client: Client; readonly card: AgentCard }> {
    this.#opening ??= this.#readCard().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async #readCard() {
    const fetchImpl = this.#fetch;
    const legacyCompat = { enabled: true };
    const options = { fetchImpl, legacyCompat };
    const resolver = new DefaultAgentCardResolver(options);
    const transports = [new JsonRpcTransportFactory(options), new RestTransportFactory(options)];
    const factory = new ClientFactory({ transports, cardResolver: resolver });
    const response = await fetchImpl(this.url, { headers: { [versionHeader]: "1.0" } });
    if (!response.ok) throw invalid(`${this.url} answers ${response.status}`);
    try {
      const card = resolver.normalizeAgentCard(await response.json());
      return { client: await factory.createFromAgentCard(card), card };
    } catch (cause) {
      throw cause instanceof RivuletError ? cause : invalid(`${this.url} is no agent card`, cause);
    }
  }

  async start(request: RemoteStart, signal: AbortSignal): Promise<string> {
    const { taskId, sessionId, messages, mayHaveStarted, traceparent } = request;
    return this.#attempt(signal, async () => {
      if (mayHaveStarted || this.#unsure.has(taskId)) {
        const found = await this.#find(taskId, sessionId);
        if (found !== undefined) return found;
      }
      const parts = messages.map(({ content }) => textPart(textOf(content)));
      const message = newMessage(taskId, { contextId: sessionId, parts });
      const sent = await this.#send(message, signal, { taskId, traceparent });
      this.#unsure.delete(taskId);
      const { payload } = sent.first;
      const given = payload?.$case === "task" ? payload.value.id : payload?.value.taskId;
      const id = (payload?.$case !== "message" && given) || taskId;
      if (id.length > maxIdLength) {
        if (sent.rest) sent.stop();
        throw invalid(`${this.url} gives the task an id of ${id.length} characters`);
      }
      this.#sent.set(taskId, sent);
      return id;
    });
  }

  /** The task that an earlier attempt has started; throws if the server cannot tell. */
  async #find(taskId: string, contextId: string): Promise<string | undefined> {
    const { client } = await this.#open();
    const query = {
      ...{ tenant: "", contextId, status: 0, pageToken: "", pageSize: 100, historyLength: 100 },
      statusTimestampAfter: undefined,
    };
    const { tasks } = await client.listTasks(query).catch((cause: unknown) => {
      if (!(cause instanceof A2AError)) throw cause;
      throw unknownStart(this.url, taskId, cause);
    });
    const isOurs = ({ messageId }: A2aMessage) => messageId === taskId;
    const found = tasks.find(({ history }) => history.some(isOurs));
    if (found) return found.id;
    if (tasks.some(({ history }) => history.length === 0)) throw unknownStart(this.url, taskId);
    return undefined;
  }

  /** Sends a message and returns with the first word of the server: it works on, whether we listen or not. */
  async #send(
    message: A2aMessage,
    signal: AbortSignal,
    {
      taskId,
      traceparent,
    }: { readonly taskId?: string; readonly traceparent?: string | undefined } = {},
  ): Promise<Sent> {
    const { client, card } = await this.#open();
    const configuration = {
      ...{ acceptedOutputModes: [], returnImmediately: true },
      taskPushNotificationConfig: undefined,
    };
    const request = { tenant: "", message, configuration, metadata: undefined };
    const stop = new AbortController();
    const serviceParameters: Record<string, string> =
      traceparent === undefined ? {} : { traceparent };
    const sending = { signal: stop.signal, serviceParameters };
    const ignoreAbort = onAbort(signal, () => stop.abort(signal.reason));
    if (taskId !== undefined) this.#unsure.add(taskId);
    try {
      if (card.capabilities?.streaming !== true) {
        const answer = await client.sendMessage(request, sending);
        return { first: responseOf(answer) };
      }
      const rest = client.sendMessageStream(request, sending);
      const { done, value } = await rest.next();
      if (done) throw invalid(`${this.url} answered with an empty stream`);
      return { first: value, rest, stop: () => stop.abort() };
    } catch (error) {
      if (taskId !== undefined && neverArrived(error)) this.#unsure.delete(taskId);
      throw error;
    } finally {
      ignoreAbort();
    }
  }

  async *events(task: RemoteTask, reading: RemoteReading): AsyncGenerator<TaskEvent, void> {
    const { taskId, remoteId } = task;
    const { known, signal } = reading;
    const foreign = new ForeignTask(known, this.#clock);
    const answerOf = (id: string) =>
      textOf(this.#answers.get(id)?.output ?? []) || "It was answered.";
    const reader = new A2aReader(foreign, taskId, { answerOf, wantsValue: this.#wantsValue });
    const sent = this.#sent.get(taskId);
    this.#sent.delete(taskId);
    const source = sent ? this.#listen(sent, signal) : this.#resubscribe(remoteId, signal);
    const isFresh = sent !== undefined && known.appliedSeq <= 1;
    const ignore = ignoredEvents();
    for (;;) {
      for (const [id, { decision, reason }] of this.#answers) foreign.resolve(id, decision, reason);
      // Errors of the source are translated, those of the consumer are not.
      const next = await this.#attempt(signal, () => source.next());
      if (next.done || signal.aborted) break;
      const { payload } = next.value;
      // A stream that was joined late may repeat what its first event has: the task is read once more.
      const isEnd = payload?.$case === "statusUpdate" && isResting(payload.value.status);
      if (isEnd && !isFresh) {
        const whole = await this.#attempt(signal, () => this.#getTask(remoteId, signal));
        this.#take(reader, { payload: { $case: "task", value: whole } });
      } else this.#take(reader, next.value);
      const news = foreign.drain();
      if (news.length === 0) ignore(next.value);
      yield* news;
      if (foreign.isEnded || (isEnd && foreign.isSuspended)) break;
    }
    await source.return();
    foreign.rest();
    yield* foreign.drain();
    // A task whose questions are answered moves on, even if its server has not said so yet.
    const isWaiting = foreign.isSuspended && foreign.waiting.length > 0;
    if (signal.aborted || foreign.isEnded || isWaiting) return;
    throw new RivuletError("disconnected", "The stream ended before the task.", {
      retryable: true,
    });
  }

  #take(reader: A2aReader, update: StreamResponse): void {
    try {
      reader.take(update);
    } catch (cause) {
      const message = `${this.url} sent an update that cannot be read.`;
      throw new RivuletError("remote_invalid", message, { cause });
    }
  }

  async *#listen(sent: Sent, signal: AbortSignal): AsyncGenerator<StreamResponse, void> {
    yield sent.first;
    if (sent.rest === undefined) {
      const { payload } = sent.first;
      if (payload?.$case === "task") yield* this.#poll(payload.value.id, signal);
      return;
    }
    const ignoreAbort = onAbort(signal, () => sent.stop());
    try {
      for (;;) {
        const { done, value } = await sent.rest.next();
        if (done) return;
        yield value;
      }
    } finally {
      ignoreAbort();
      sent.stop();
    }
  }

  /** A task that rests cannot be subscribed to. */
  async *#resubscribe(remoteId: string, signal: AbortSignal): AsyncGenerator<StreamResponse, void> {
    const { client, card } = await this.#open();
    const task = await this.#getTask(remoteId, signal);
    yield responseOf(task);
    if (isResting(task.status)) return;
    if (card.capabilities?.streaming !== true) return yield* this.#poll(remoteId, signal);
    const stop = new AbortController();
    const both = AbortSignal.any([signal, stop.signal]);
    try {
      yield* client.resubscribeTask({ tenant: "", id: remoteId }, { signal: both });
    } catch (error) {
      if (!(error instanceof A2AError) || error instanceof TaskNotFoundError) throw error;
      yield responseOf(await this.#getTask(remoteId, signal)); // it has ended meanwhile
    } finally {
      stop.abort();
    }
  }

  async *#poll(remoteId: string, signal: AbortSignal): AsyncGenerator<StreamResponse, void> {
    let before = "";
    let movedAt = this.#clock.now();
    for (let delay = firstDelayMs; !signal.aborted; delay = Math.min(2 * delay, maxDelayMs)) {
      await this.#clock.sleep(delay, signal);
      const task = await this.#getTask(remoteId, signal);
      const shown = JSON.stringify(task);
      if (shown !== before) {
        before = shown;
        movedAt = this.#clock.now();
        delay = firstDelayMs;
        yield responseOf(task);
      }
      if (isResting(task.status)) return;
      if (this.#clock.now() - movedAt > idleMs) throw idle(this.url, remoteId);
    }
  }

  async #getTask(id: string, signal: AbortSignal): Promise<Task> {
    const { client } = await this.#open();
    return client.getTask({ tenant: "", id, historyLength: 0 }, { signal });
  }

  async answer(task: RemoteTask, answer: RemoteAnswer, signal: AbortSignal): Promise<void> {
    const { taskId, remoteId, sessionId } = task;
    const parts = answerParts(taskId, answer);
    this.#answers.set(answer.approvalId, answer); // a reader may see its effect before the response
    const place = { taskId: remoteId, contextId: sessionId, parts };
    await this.#attempt(signal, async () => {
      try {
        this.#sent.set(taskId, await this.#send(newMessage(answer.approvalId, place), signal));
      } catch (error) {
        if (!(error instanceof A2AError)) throw error;
        throw new RivuletError("not_found", `The server refuses the answer: ${error.message}`);
      }
    });
  }

  async steer(task: RemoteTask, _: string, message: Message, signal: AbortSignal): Promise<void> {
    const { remoteId, sessionId } = task;
    const parts = [textPart(textOf(message.content))];
    const place = { taskId: remoteId, contextId: sessionId, parts };
    await this.#attempt(signal, async () => {
      const sent = await this.#send(newMessage(message.id, place), signal);
      if (sent.rest) sent.stop();
    });
  }

  async cancel(
    { taskId: own, remoteId: id }: RemoteTask,
    taskId: string,
    _: string,
    signal: AbortSignal,
  ): Promise<void> {
    if (taskId !== own) return;
    await this.#attempt(signal, async () => {
      const { client } = await this.#open();
      await client.cancelTask({ tenant: "", id, metadata: undefined }, { signal });
    });
  }

  /** Runs work and throws its errors as ours. */
  async #attempt<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof RivuletError) throw error;
      if (error instanceof TaskNotFoundError) throw gone(this.url, error);
      const { message } = rivuletErrorOf(error);
      if (error instanceof A2AError)
        throw new RivuletError("remote_refused", `${this.url} refuses: ${message}`, {
          cause: error,
        });
      // Anything else happened on the way: a connection that broke, or data that is cut off.
      throw new RivuletError("disconnected", message, { retryable: true, cause: error });
    }
  }
}

/** A `fetch` that tells errors which may pass from those which do not. */
function guarded(reach: typeof fetch): typeof fetch {
  return async (input, init) => {
    let response: Response;
    try {
      response = await reach(input, { ...init, redirect: "manual" });
    } catch (cause) {
      if (cause instanceof RivuletError || init?.signal?.aborted) throw cause;
      const { message } = rivuletErrorOf(cause);
      const text = `The server does not answer: ${message}`;
      throw new RivuletError("unreachable", text, { retryable: true, cause });
    }
    const { status } = response;
    if (status < 300 || status === 400 || status === 404) return response;
    await response.body?.cancel();
    const isPassing = status >= 500 || status === 408 || status === 429;
    throw new RivuletError("http_error", `The server answers ${status}.`, {
      retryable: isPassing,
      hint: "Check the address, and the credentials in `headers`.",
    });
  };
}

const unsentCodes = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH"]);

/** Whether a request has failed before it could reach the server. */
function neverArrived(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) {
    const { code } = at as { readonly code?: unknown };
    if (unsentCodes.has(String(code)) || code === "address_refused") return true;
  }
  return false;
}

function responseOf(answer: A2aMessage | Task): StreamResponse {
  return "messageId" in answer
    ? { payload: { $case: "message", value: answer } }
    : { payload: { $case: "task", value: answer } };
}

function newMessage(
  messageId: string,
  place: Pick<A2aMessage, "contextId" | "parts"> & { readonly taskId?: string },
): A2aMessage {
  const rest = { metadata: undefined, extensions: [], referenceTaskIds: [] };
  return { messageId, role: Role.ROLE_USER, taskId: "", ...place, ...rest };
}

function textPart(value: string): Part {
  const rest = { metadata: undefined, filename: "", mediaType: "text/plain" };
  return { content: { $case: "text", value }, ...rest };
}

function invalid(problem: string, cause?: unknown): RivuletError {
  return new RivuletError("invalid_response", `${problem}.`, {
    hint: "Check that the address is that of the card of an A2A agent.",
    cause,
  });
}

function gone(url: string, cause: unknown): RivuletError {
  return new RivuletError("remote_lost", `${url} no longer has the task.`, {
    hint: "Check whether the other server keeps its tasks over a restart.",
    cause,
  });
}

function idle(url: string, id: string): RivuletError {
  const message = `${url} says that task ${id} works, but nothing has changed for ${idleMs} ms.`;
  return new RivuletError("remote_lost", message, { hint: "Check the other server." });
}

function unknownStart(url: string, taskId: string, cause?: unknown): RivuletError {
  const message = `${url} cannot tell whether task ${taskId} has started, so it is not started again.`;
  return new RivuletError("remote_lost", message, {
    hint: "Start the subagent again if its work may be repeated.",
    cause,
  });
}
