import { createHash } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { RivuletError } from "../base/error.ts";

/** Where recordings are stored: one file per request in a directory, or all in one file. */
export type RecordingPlace =
  | { readonly directory: string; readonly file?: never }
  | { readonly file: string; readonly directory?: never };

/** A recorded request, without secrets. */
export interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
}
/** A recorded response with its original chunks, as text where possible. */
export interface RecordedResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly chunks: readonly (string | { readonly base64: string })[];
}
/** A request and its responses, one for each time it was made. */
export interface Exchange {
  readonly request: RecordedRequest;
  readonly responses: readonly RecordedResponse[];
}

/** Reads and writes exchanges by key. */
export interface Recording {
  load(key: string, request: RecordedRequest): Promise<Exchange | undefined>;
  save(key: string, exchange: Exchange): Promise<void>;
}

/** The key of a request: a hash of method, path and body. */
export function keyOf(request: RecordedRequest): string {
  const { method, path, body } = request;
  return createHash("sha256")
    .update(JSON.stringify([method, path, body]))
    .digest("hex");
}

/** The last pending write; shared, because several providers may record into one file. */
let last: Promise<unknown> = Promise.resolve();

/** Runs writes one after another, because each rewrites the whole file. */
function inTurn<T>(work: () => Promise<T>): Promise<T> {
  const result = last.then(work);
  last = result.catch(() => {});
  return result;
}

/** Opens recordings; reads and writes files only when needed. */
export function openRecording(place: RecordingPlace): Recording {
  const fileOf = (key: string, request: RecordedRequest) =>
    place.file ?? join(place.directory, `${nameOf(request)}-${key.slice(0, 16)}.json`);

  return {
    load: (key, request) => inTurn(async () => (await readExchanges(fileOf(key, request)))[key]),
    save: (key, exchange) =>
      inTurn(async () => {
        const file = fileOf(key, exchange.request);
        const exchanges = { ...(await readExchanges(file)), [key]: exchange };
        await mkdir(dirname(file), { recursive: true });
        // A crash during a write must not leave an incomplete file.
        const part = `${file}.${process.pid}.part`;
        await writeFile(part, `${JSON.stringify(exchanges, null, 2)}\n`);
        await rename(part, file);
      }),
  };
}

async function readExchanges(file: string): Promise<Record<string, Exchange>> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw error;
  }
  try {
    return JSON.parse(text) as Record<string, Exchange>;
  } catch (cause) {
    throw new RivuletError("invalid_recording", `${file} is not a recording.`, {
      hint: "Delete the file and record it again.",
      cause,
    });
  }
}

/** A readable part of the file name. */
function nameOf({ method, path }: RecordedRequest): string {
  return `${method}${path}`
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 60);
}
