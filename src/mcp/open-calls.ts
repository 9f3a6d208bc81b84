import { AsyncLocalStorage } from "node:async_hooks";
import type { ElicitResult } from "@modelcontextprotocol/client";
import type { ToolContext } from "../agent/index.ts";
import { onAbort } from "../base/clock.ts";
import type { Question } from "./untrusted.ts";

/** How far a call has come: it has its result, or the server asks and waits. */
export type Standing<Result> =
  | { readonly result: Result; readonly question?: undefined }
  | { readonly result?: undefined; readonly question: Question };

interface Call<Result> {
  /** The context of the attempt that waits for it. */
  context: ToolContext;
  readonly stop: AbortController;
  result: Promise<Result>;
  /** The requests of the server without an answer, oldest first. */
  readonly asked: { readonly question: Question; answer(result: ElicitResult): void }[];
  onAsked: () => void;
}

/** How many calls may wait for a person; a further one stops the oldest. */
const maxWaiting = 100;

/**
 * The calls of a connection on which a server asks with a request of its own, as in 2025-11-25. A call that waits for a
 * person runs on, until its answer comes or the connection ends.
 */
export class OpenCalls<Result> {
  readonly #running = new Set<Call<Result>>();
  readonly #waiting = new Map<string, Call<Result>>();
  /** The call in whose response stream a request arrives. */
  readonly #current = new AsyncLocalStorage<Call<Result>>();

  /** Starts a call. */
  start(
    context: ToolContext,
    run: (call: { readonly context: ToolContext; readonly signal: AbortSignal }) => Promise<Result>,
  ): Promise<Standing<Result>> {
    const call: Call<Result> = {
      context,
      stop: new AbortController(),
      asked: [],
      onAsked: () => {},
      result: Promise.reject(new Error("The call has not begun.")),
    };
    call.result.catch(() => {});
    this.#running.add(call);
    const running = {
      signal: call.stop.signal,
      get context() {
        return call.context;
      },
    };
    call.result = this.#current.run(call, () => run(running));
    const end = () => this.#running.delete(call);
    call.result.then(end, end);
    return this.#untilItAsks(call);
  }

  /** Answers the oldest question of a call that waits; undefined if the call runs no more. */
  continue(context: ToolContext, answer: ElicitResult): Promise<Standing<Result>> | undefined {
    const call = this.#waiting.get(context.callId);
    if (call === undefined) return undefined;
    this.#waiting.delete(context.callId);
    call.context = context;
    call.asked.shift()?.answer(answer);
    return this.#untilItAsks(call);
  }

  /** Resolves to the answer to a request of the server; throws if the request does not tell which call asks. */
  ask(question: Question): Promise<ElicitResult> {
    const [first, ...others] = this.#running;
    const call = this.#current.getStore() ?? (others.length === 0 ? first : undefined);
    if (call === undefined) {
      const problem = first === undefined ? "No call runs" : "Several calls run";
      throw new Error(`${problem}, so this question has no one to answer it.`);
    }
    return new Promise((answer) => {
      call.asked.push({ question, answer });
      call.onAsked();
    });
  }

  async #untilItAsks(call: Call<Result>): Promise<Standing<Result>> {
    const { signal, callId } = call.context;
    const ignoreAbort = onAbort(signal, () => call.stop.abort(signal.reason));
    const asks = new Promise<undefined>((resolve) => {
      call.onAsked = () => resolve(undefined);
    });
    try {
      if (call.asked.length === 0) {
        const ended = call.result.then((result) => ({ result }));
        const first = await Promise.race([ended, asks]);
        if (first !== undefined) return first;
      }
    } finally {
      ignoreAbort();
    }
    this.#park(callId, call);
    const [asked] = call.asked;
    if (asked === undefined) throw new Error("A call waits without a question.");
    return { question: asked.question };
  }

  #park(callId: string, call: Call<Result>): void {
    this.#waiting.set(callId, call);
    const [oldest = callId] = this.#waiting.keys();
    if (this.#waiting.size <= maxWaiting) return;
    this.#waiting.get(oldest)?.stop.abort(new Error("Too many calls wait for an answer."));
    this.#waiting.delete(oldest);
  }
}
