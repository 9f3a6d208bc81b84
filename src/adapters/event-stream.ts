import { onAbort } from "../base/clock.ts";
import { RivuletError } from "../base/error.ts";
import type { Store, WatchKey } from "../contract/index.ts";
import { encodeComment, type TaskEvent } from "../protocol/index.ts";
import { type Call, type OpenStream, openSink, type Sink, untilDrained } from "../server/index.ts";

/** Work that a response waits for: the caller, the server or a limit may stop it. */
export class Waiting implements OpenStream {
  /** Aborted when the response is no longer wanted. */
  readonly signal: AbortSignal;
  readonly done: Promise<void>;
  readonly #stop = new AbortController();
  readonly #call: Call;
  readonly #openedAt: number;
  readonly #end: () => void;
  #sink: Sink | undefined;
  #writtenAt = 0;

  /** `maxMs` limits the wait of a response that is no stream. */
  constructor(call: Call, maxMs?: number) {
    const { streams } = call.services;
    const end = call.openStream(); // throws if the user has too many
    this.#call = call;
    this.#openedAt = streams.settings.clock.now();
    this.signal = this.#stop.signal;
    const untrack = streams.track(this);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.done = promise;
    const timer = maxMs === undefined ? undefined : setTimeout(() => this.shutDown(), maxMs);
    this.#end = () => {
      clearTimeout(timer);
      untrack();
      end();
      resolve();
    };
    call.request.signal.addEventListener("abort", () => this.#abort("The client has left."));
  }

  /** Ends the wait of a response that is no stream. */
  end(): void {
    this.#end();
  }

  /** Answers with the texts that a generator yields, each of them whole frames of server-sent events. */
  stream(texts: AsyncIterator<string>): Response {
    const { request, outgoing, headers, services } = this.#call;
    const sink = openSink(request, outgoing, headers, services.streams.settings.unsent);
    this.#sink = sink;
    void sink.closed.then(() => this.#abort("The client has left."));
    void this.#pump(sink, texts).finally(async () => {
      sink.end();
      await sink.closed;
      this.#end();
    });
    this.#write(encodeComment("stream-open"));
    return sink.response;
  }

  async #pump(sink: Sink, texts: AsyncIterator<string>): Promise<void> {
    const patienceMs = 3 * this.#call.services.streams.settings.heartbeatMs;
    try {
      while (!this.signal.aborted) {
        const { done, value } = await texts.next();
        if (done) return;
        this.#write(value);
        if (!(await untilDrained(sink, patienceMs))) return;
      }
    } catch {
      // The reader comes back, and then sees why.
    } finally {
      this.#abort("The stream has ended.");
      await texts.return?.();
    }
  }

  beat(now: number): void {
    const { heartbeatMs, maxStreamMs } = this.#call.services.streams.settings;
    if (now - this.#openedAt > maxStreamMs) this.#abort("The stream was open for too long.");
    else if (now - this.#writtenAt >= heartbeatMs - 1) this.#write(encodeComment(`hb ${now}`));
  }

  shutDown(): void {
    this.#abort("The server is shutting down.");
  }

  #abort(message: string): void {
    this.#stop.abort(new RivuletError("shutting_down", message, { retryable: true }));
    this.#sink?.end();
  }

  #write(text: string): void {
    this.#writtenAt = this.#call.services.streams.settings.clock.now();
    this.#sink?.write(Buffer.from(text));
  }
}

/** The events of a run from a number on, until the signal is aborted. A run that failed says so with its last event. */
export async function* eventsUntil(
  events: AsyncIterable<TaskEvent>,
  signal: AbortSignal,
): AsyncGenerator<TaskEvent, void, undefined> {
  const iterator = events[Symbol.asyncIterator]();
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  const ignoreAbort = onAbort(signal, () => resolve(undefined));
  try {
    for (;;) {
      const next = iterator.next().catch(() => undefined);
      const result = await Promise.race([next, aborted]);
      if (result === undefined || result.done) return;
      yield result.value;
    }
  } finally {
    ignoreAbort();
    await iterator.return?.();
  }
}

/** Waits until a test passes, tried again after every change in the store; returns early when the signal is aborted. */
export async function untilTrue(
  store: Store,
  key: WatchKey,
  signal: AbortSignal,
  test: () => Promise<boolean>,
): Promise<void> {
  while (!signal.aborted) {
    const { promise, resolve } = Promise.withResolvers<void>();
    const unwatch = store.watch(key, () => resolve()); // before the test, so that no change falls between
    const ignoreAbort = onAbort(signal, resolve);
    try {
      if (await test()) return;
      if (!signal.aborted) await promise;
    } finally {
      ignoreAbort();
      unwatch();
    }
  }
}
