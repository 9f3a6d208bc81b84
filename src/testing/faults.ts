import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import * as is from "../base/options.ts";
import { type Fields, readArgument, readOptions } from "../base/options.ts";
import { untilAborted } from "./play.ts";

/** Faults of any call; calls are counted from 0. */
interface Faults {
  /** Calls that fail before anything arrives. */
  readonly failCalls?: readonly number[];
  /** The calls that the other faults apply to; defaults to all. */
  readonly onCalls?: readonly number[];
  /** How a cut stream ends: with an error (the default) or normally. */
  readonly cutWith?: "error" | "end";
  /** The error of a failed call or a cut; defaults to a connection error. */
  readonly error?: unknown;
}

/** Faults of a model. */
export interface ModelFaults extends Faults {
  /** Cuts the stream after this many parts, including `stream-start`. */
  readonly cutAfterChunks?: number;
  /** Stalls the stream after this many parts until the call is aborted. */
  readonly stallAfterChunks?: number;
}

/** Faults of `fetch`. */
export interface FetchFaults extends Faults {
  /** Cuts the body after this many bytes. */
  readonly cutAfterBytes?: number;
  /** Stalls the body after this many bytes until the request is aborted. */
  readonly stallAfterBytes?: number;
  /** Replaces the byte at this offset with NUL, which breaks any JSON. */
  readonly malformAtByte?: number;
  /** Responds with this status and an error body instead of calling the server. */
  readonly status?: number;
  /** Headers of that response, such as `retry-after`. */
  readonly headers?: Readonly<Record<string, string>>;
}

const position = is.integer(0);
const faultFields: Fields<Faults> = {
  failCalls: is.listOf(position),
  onCalls: is.listOf(position),
  cutWith: is.oneOf("error", "end"),
  error: is.anything,
};
const modelFaultFields: Fields<ModelFaults> = {
  ...faultFields,
  cutAfterChunks: position,
  stallAfterChunks: position,
};
const fetchFaultFields: Fields<FetchFaults> = {
  ...faultFields,
  cutAfterBytes: position,
  stallAfterBytes: position,
  malformAtByte: position,
  status: is.integer(200, 599),
  headers: is.recordOf(is.text),
};

/** Adds faults to a model. A cut or stall of a call that does not stream loses the whole response. */
export function withFaults(model: LanguageModelV4, given: ModelFaults): LanguageModelV4 {
  readArgument("model", model, is.required(is.withFunctions("doGenerate", "doStream")));
  const faults = readOptions("withFaults()", given, modelFaultFields);
  let calls = 0;
  const strike = () => {
    const call = calls++;
    if (faults.failCalls?.includes(call)) throw faults.error ?? connectionError();
    return faults.onCalls?.includes(call) ?? true;
  };
  const fault = breakOf(faults, faults.cutAfterChunks, faults.stallAfterChunks);

  return {
    specificationVersion: "v4",
    provider: model.provider,
    modelId: model.modelId,
    supportedUrls: model.supportedUrls,
    async doGenerate(options: LanguageModelV4CallOptions) {
      const struck = strike();
      const result = await model.doGenerate(options);
      if (!struck || fault === undefined || fault.ending === "end") return result;
      if (fault.ending === "stall") return untilAborted(options.abortSignal);
      throw fault.error;
    },
    async doStream(options: LanguageModelV4CallOptions) {
      const struck = strike();
      const result = await model.doStream(options);
      if (!struck || fault === undefined) return result;
      return { ...result, stream: broken(result.stream, fault, options.abortSignal, onePart) };
    },
  };
}

/** Adds faults to a `fetch` function. */
export function faultyFetch(
  fetch: typeof globalThis.fetch,
  given: FetchFaults,
): typeof globalThis.fetch {
  readArgument("fetch", fetch, is.required(is.callback));
  const faults = readOptions("faultyFetch()", given, fetchFaultFields);
  let calls = 0;
  const fault = breakOf(faults, faults.cutAfterBytes, faults.stallAfterBytes);

  return async (input, init) => {
    const call = calls++;
    const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined);
    signal?.throwIfAborted();
    if (faults.failCalls?.includes(call)) throw faults.error ?? connectionError("fetch failed");
    if (!(faults.onCalls?.includes(call) ?? true)) return fetch(input, init);
    if (faults.status !== undefined) {
      const error = { message: `Injected status ${faults.status}.`, type: "injected_fault" };
      return Response.json({ error }, { status: faults.status, headers: faults.headers ?? {} });
    }
    const response = await fetch(input, init);
    let { body } = response;
    if (body === null) return response;
    if (faults.malformAtByte !== undefined) {
      body = body.pipeThrough(malform(faults.malformAtByte));
    }
    if (fault !== undefined) body = broken(body, fault, signal, someBytes);
    const { status, statusText, headers } = response;
    return new Response(body, { status, statusText, headers });
  };
}

/** Where and how a stream breaks. */
interface Break {
  readonly after: number;
  readonly ending: "error" | "end" | "stall";
  readonly error: unknown;
}

function breakOf(
  faults: Faults,
  cutAfter: number | undefined,
  stallAfter: number | undefined,
): Break | undefined {
  const error = faults.error ?? connectionError();
  if (cutAfter !== undefined && cutAfter <= (stallAfter ?? cutAfter)) {
    return { after: cutAfter, ending: faults.cutWith ?? "error", error };
  }
  return stallAfter === undefined ? undefined : { after: stallAfter, ending: "stall", error };
}

/** The part of a chunk before the break. */
type Measure<T> = (chunk: T, left: number) => { readonly chunk: T; readonly size: number };

function onePart<T>(chunk: T): { readonly chunk: T; readonly size: number } {
  return { chunk, size: 1 };
}

const someBytes: Measure<Uint8Array<ArrayBuffer>> = (chunk, left) => {
  const fitting = chunk.length <= left ? chunk : chunk.subarray(0, left);
  return { chunk: fitting, size: fitting.length };
};

/** The stream up to the break. */
function broken<T>(
  source: ReadableStream<T>,
  fault: Break,
  signal: AbortSignal | null | undefined,
  measure: Measure<T>,
): ReadableStream<T> {
  const reader = source.getReader();
  const released = new AbortController();
  let left = fault.after;

  return new ReadableStream<T>({
    async pull(controller) {
      if (left === 0) {
        // The result of cancelling the source does not matter.
        if (fault.ending !== "stall") reader.cancel().catch(() => {});
        if (fault.ending === "end") return controller.close();
        if (fault.ending === "error") return controller.error(fault.error);
        return untilAborted(signal, released.signal);
      }
      const { done, value } = await reader.read();
      if (done) return controller.close();
      const { chunk, size } = measure(value, left);
      left -= size;
      controller.enqueue(chunk);
    },
    cancel(reason) {
      released.abort();
      return reader.cancel(reason);
    },
  });
}

function malform(
  offset: number,
): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  let start = 0;
  return new TransformStream({
    transform(chunk, controller) {
      const copy = chunk.slice();
      copy[offset - start] = 0; // outside of the chunk it does nothing
      start += chunk.length;
      controller.enqueue(copy);
    },
  });
}

/** The error of `fetch` and its bodies when the connection closes. */
function connectionError(message = "terminated"): TypeError {
  const cause = Object.assign(new Error("other side closed"), { code: "ECONNRESET" });
  return new TypeError(message, { cause });
}
