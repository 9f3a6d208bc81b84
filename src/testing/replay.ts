import { RivuletError } from "../base/error.ts";
import * as is from "../base/options.ts";
import { type Fields, readOptions } from "../base/options.ts";
import {
  keyOf,
  openRecording,
  type RecordedRequest,
  type RecordedResponse,
  type RecordingPlace,
} from "./recording.ts";
import { createRedactor, type Redactor, safePath, secretsIn, secretsOf } from "./secrets.ts";

/** The options of `recordReplay`. */
export type RecordReplayOptions = RecordingPlace & {
  /**
   * `"replay"` (the default) uses recordings only, never the network. `"record"` uses the network and replaces the
   * recordings. `"auto"` uses recordings, and the network for requests that are not recorded.
   */
  readonly mode?: "record" | "replay" | "auto";
  /** Makes the real requests; defaults to the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
  /** Further texts to mask. Fields and headers named like a secret are always masked. */
  readonly secrets?: readonly (string | undefined)[];
};

const optionFields: Fields<RecordReplayOptions> = {
  directory: is.name,
  file: is.name,
  mode: is.oneOf("record", "replay", "auto"),
  fetch: is.callback,
  secrets: is.listOf(is.or(is.text, "undefined", (value) => value === undefined)),
};

/** Response headers that are recorded; they hold no secrets. */
const keptHeaders = ["content-type", "retry-after", "retry-after-ms", "x-should-retry"];

/** The responses to one request and the index of the next; an entry is undefined until its body has ended. */
interface Track {
  responses: (RecordedResponse | undefined)[];
  /** The secrets of all its requests, which are masked in all its responses. */
  readonly secrets: Set<string>;
  next: number;
}

/**
 * Returns a `fetch` function for a provider that records real traffic and replays it exactly, without a network. It
 * identifies a request by method, path and body, so host and headers may change. A repeated request gets the next
 * recorded response. Incomplete responses are not recorded.
 */
export function recordReplay(given: RecordReplayOptions): typeof globalThis.fetch {
  const options = readOptions("recordReplay()", given, optionFields);
  const { mode = "replay", fetch = globalThis.fetch } = options;
  const recording = openRecording(options);
  const tracks = new Map<string, Promise<Track>>();
  /** Secrets from the options and from responses; later requests may contain them in any field. */
  const secrets = new Set((options.secrets ?? []).filter(isText));

  async function openTrack(key: string, request: RecordedRequest): Promise<Track> {
    const exchange = mode === "record" ? undefined : await recording.load(key, request);
    return { responses: [...(exchange?.responses ?? [])], secrets: new Set(), next: 0 };
  }

  return async (input, init) => {
    const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined);
    signal?.throwIfAborted();
    // A Request with the signal would leave a listener on it.
    const request = new Request(input, { ...init, signal: null });
    const body = await request.arrayBuffer();
    const carried = [...secretsOf(request), ...secretsIn(new Uint8Array(body))];
    const asked = describe(request, body, createRedactor([...secrets, ...carried]));
    const key = keyOf(asked);
    let opening = tracks.get(key);
    if (opening === undefined) {
      opening = openTrack(key, asked);
      tracks.set(key, opening);
    }
    const track = await opening;
    const slot = track.next++;
    const known = track.responses[slot];
    if (known !== undefined) return replayed(known, signal);
    if (mode === "replay") throw miss(asked, key, track, options);

    const response = await fetch(request.url, {
      ...init,
      method: request.method,
      headers: request.headers,
      ...(body.byteLength > 0 && { body }),
      ...(signal && { signal }),
    });
    return recorded(response, async (chunks) => {
      for (const secret of [...secretsOf(response), ...secretsIn(Buffer.concat(chunks))]) {
        secrets.add(secret);
      }
      for (const secret of carried) track.secrets.add(secret);
      const redactor = createRedactor([...secrets, ...track.secrets]);
      const { status } = response;
      const headers = headersOf(response);
      track.responses[slot] = { status, headers, chunks: chunks.map(encodeChunk) };
      track.responses = track.responses.map((ended) => ended && redacted(ended, redactor));
      const responses = track.responses.filter((ended) => ended !== undefined);
      const safe = redactor.json(asked) as RecordedRequest;
      await recording.save(key, { request: safe, responses });
    });
  };
}

function describe(request: Request, body: ArrayBuffer, redactor: Redactor): RecordedRequest {
  const text = Buffer.from(body).toString();
  const json = parseJson(text);
  return {
    method: request.method,
    path: redactor.text(safePath(request.url)),
    body: json === undefined ? redactor.text(text) : redactor.json(json),
  };
}

function isText(secret: string | undefined): secret is string {
  return secret !== undefined && secret !== "";
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function headersOf(response: Response): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name of keptHeaders) {
    const value = response.headers.get(name);
    if (value !== null) headers[name] = value;
  }
  return headers;
}

function redacted(response: RecordedResponse, redactor: Redactor): RecordedResponse {
  const headers = Object.entries(response.headers).map(([name, value]) => [
    name,
    redactor.text(value),
  ]);
  const chunks = redactor.chunks(response.chunks.map(decodeChunk)).map(encodeChunk);
  return { ...response, headers: Object.fromEntries(headers), chunks };
}

/** The live response; `onEnd` gets all chunks and settles before the reader sees the end. */
async function recorded(
  response: Response,
  onEnd: (chunks: readonly Uint8Array[]) => Promise<void>,
): Promise<Response> {
  if (response.body === null) {
    await onEnd([]);
    return response;
  }
  const reader = response.body.getReader();
  const chunks: Uint8Array[] = [];
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (done) {
        await onEnd(chunks);
        controller.close();
      } else {
        chunks.push(value.slice()); // the reader may reuse its buffer
        controller.enqueue(value);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
  return new Response(body, {
    status: response.status,
    statusText: response.statusText,
    headers: response.headers,
  });
}

/** A recorded response, one chunk per read; an abort ends it like a real one. */
function replayed(response: RecordedResponse, signal: AbortSignal | undefined): Response {
  const { status, headers, chunks } = response;
  if (chunks.length === 0) return new Response(null, { status, headers });
  let next = 0;
  let onAbort: () => void;
  const release = () => signal?.removeEventListener("abort", onAbort);
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      onAbort = () => controller.error(signal?.reason);
      signal?.addEventListener("abort", onAbort, { once: true });
    },
    pull(controller) {
      const chunk = chunks[next++];
      if (chunk !== undefined) return controller.enqueue(decodeChunk(chunk));
      release();
      controller.close();
    },
    cancel: release,
  });
  return new Response(body, { status, headers });
}

function encodeChunk(bytes: Uint8Array): string | { readonly base64: string } {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return { base64: Buffer.from(bytes).toString("base64") }; // binary data or an incomplete character
  }
}

function decodeChunk(chunk: string | { readonly base64: string }): Uint8Array {
  return typeof chunk === "string" ? Buffer.from(chunk) : Buffer.from(chunk.base64, "base64");
}

function miss(
  request: RecordedRequest,
  key: string,
  track: Track,
  options: RecordReplayOptions,
): RivuletError<"replay_miss"> {
  const recorded = track.responses.length;
  const times =
    recorded === 0
      ? "is not recorded"
      : `was made ${track.next} times, but recorded ${recorded} times`;
  const body = JSON.stringify(request.body);
  const excerpt = body.length > 300 ? `${body.slice(0, 300)}…` : body;
  return new RivuletError(
    "replay_miss",
    `${request.method} ${request.path} (${key.slice(0, 16)}) ${times}. Its body: ${excerpt}`,
    {
      hint: `Run once with mode: "record" or "auto" and network access to record it in ${options.file ?? options.directory}.`,
    },
  );
}
