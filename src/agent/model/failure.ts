import { isBrokenConnection } from "../execution.ts";

/** What can be read from whatever a provider threw or streamed as its error. */
export interface Failure {
  readonly error: unknown;
  readonly name: string;
  readonly status: number | undefined;
  /** Every code, type and message in it, in lower case: providers agree on no field. */
  readonly words: string;
  /** What the provider said, short and without anything that looks like a key. */
  readonly message: string;
  /** Whether the connection broke, or never was. */
  readonly network: boolean;
  /** Whether the reply had begun. */
  readonly streaming: boolean;
}

type Fields = Readonly<Record<string, unknown>>;

const longestMessage = 300;
const longestBody = 4_000;
const deepest = 5;

/** Reads an error of any shape: AI SDK errors of any version, error frames, network errors, strings. */
export function readFailure(error: unknown, streaming: boolean): Failure {
  const fields = fieldsOf(error);
  const words: string[] = [];
  gather(error, words, 0);
  return {
    error,
    name: textOf(fields.name),
    status: statusOf(fields),
    words: words.join("\n").toLowerCase(),
    message: presentable(messageOf(error)),
    network: isBrokenConnection(error),
    streaming,
  };
}

/** The wait that a provider asked for in its response's headers, if it did. */
export function retryAfterMs(error: unknown, now: number): number | undefined {
  const headers = fieldsOf(fieldsOf(error).responseHeaders);
  const milliseconds = Number.parseFloat(textOf(headers["retry-after-ms"]));
  if (milliseconds >= 0) return milliseconds;
  const header = textOf(headers["retry-after"]);
  if (/^\d+(\.\d+)?$/.test(header)) return Number.parseFloat(header) * 1000;
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

// Where providers and the AI SDK put what went wrong.
const telling = ["code", "type", "status", "reason", "message", "responseBody"];
const nested = ["error", "data", "cause", "details", "innererror"];

function gather(value: unknown, words: string[], depth: number): void {
  if (depth > deepest) return;
  if (typeof value === "string") words.push(value.slice(0, longestBody));
  if (Array.isArray(value)) for (const entry of value) gather(entry, words, depth + 1);
  const fields = fieldsOf(value);
  for (const key of telling) {
    if (typeof fields[key] === "string") words.push(fields[key].slice(0, longestBody));
  }
  for (const key of nested) if (fields[key] !== undefined) gather(fields[key], words, depth + 1);
}

function statusOf(fields: Fields, depth = 0): number | undefined {
  for (const value of [fields.statusCode, fields.status, fields.code]) {
    if (typeof value === "number" && value >= 400 && value < 600) return value;
  }
  if (depth < deepest) {
    for (const key of nested) {
      const status = statusOf(fieldsOf(fields[key]), depth + 1);
      if (status !== undefined) return status;
    }
  }
  return frameStatuses.get(textOf(fields.type));
}

// An error within a stream has a kind in place of a status; these are Anthropic's, which others have taken up.
const frameStatuses: ReadonlyMap<string, number> = new Map([
  ["invalid_request_error", 400],
  ["authentication_error", 401],
  ["billing_error", 402],
  ["permission_error", 403],
  ["not_found_error", 404],
  ["request_too_large", 413],
  ["rate_limit_error", 429],
  ["api_error", 500],
  ["timeout_error", 504],
  ["overloaded_error", 529],
]);

function messageOf(error: unknown): string {
  if (typeof error === "string") return error;
  const fields = fieldsOf(error);
  return textOf(fields.message) || textOf(fieldsOf(fields.error).message);
}

/** One line, not long, with no full stop of its own; keys and tokens blotted out, wherever they are quoted. */
function presentable(message: string): string {
  const line = message
    .replace(/\s+/g, " ")
    .replace(/\b(bearer|basic)\s+[\w.~+/=*-]+/gi, "$1 [hidden]")
    .replace(/([?&](?:key|api[-_]?key|token)=)[^&\s]+/gi, "$1[hidden]")
    .replace(/\b(?:sk|pk|rk|gsk|xai|key|ghp|hf|r8|AIza)[-_]?[\w*-]{12,}/g, "[hidden]")
    .trim();
  const short = line.length > longestMessage ? `${line.slice(0, longestMessage)}…` : line;
  return short.replace(/[.\s]+$/, "");
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
