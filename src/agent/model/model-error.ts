import { RivuletError } from "../../base/error.ts";
import { isBrokenConnection, isRetryable, isRetryableStatus } from "../base/execution.ts";

/** A kind of failure; the first kind that fits applies. */
interface Kind {
  readonly code: string;
  readonly fits: (failure: Failure) => boolean;
  readonly says: string;
  readonly hint: string;
  readonly retryable?: (failure: Failure) => boolean;
  /** Omits the provider's message, which may quote the key. */
  readonly hidesMessage?: true;
}

const kinds: readonly Kind[] = [
  {
    code: "missing_api_key",
    fits: ({ name }) => name === "AI_LoadAPIKeyError" || name === "AI_LoadSettingError",
    says: "has no API key",
    hint: "Set the environment variable that the provider names, or pass the key to its create function.",
  },
  {
    code: "unauthorized",
    fits: ({ status, words }) =>
      status === 401 || status === 403 || /\bapi_key_invalid\b|\binvalid_api_key\b/.test(words),
    says: "rejected the API key",
    hint: "Check that the key is correct, has not expired and may use this model.",
    hidesMessage: true,
  },
  {
    code: "rate_limited",
    fits: ({ status, words }) =>
      status === 429 || /\brate_limit|\binsufficient_quota\b|\bresource_exhausted\b/.test(words),
    says: "received too many requests",
    hint: "Wait, make fewer parallel calls, raise the limit with the provider, or add a fallback model.",
    // Waiting does not refill an account.
    retryable: ({ words }) => !/\binsufficient_quota\b/.test(words),
  },
  {
    code: "context_overflow",
    fits: ({ words, status }) => status === 413 || overflow.test(words),
    says: "does not accept a prompt of this length",
    hint: "Shorten the conversation (for example with compaction) or the tool results, or lower `modelOptions.maxOutputTokens`.",
  },
  {
    code: "content_filter",
    fits: ({ words }) => filtered.test(words),
    says: "refused the content",
    hint: "Rephrase the request, or review the provider's content filter.",
  },
  {
    code: "model_not_found",
    fits: ({ name, status, words }) =>
      name === "AI_NoSuchModelError" || status === 404 || /\bmodel_not_found\b/.test(words),
    says: "does not exist at the provider",
    hint: "Check the model's id, the base URL and that the key may use this model.",
  },
  {
    code: "provider_error",
    fits: ({ status }) => status === 402,
    says: "requires payment",
    hint: "Check the balance of your account at the provider.",
  },
  {
    code: "invalid_request",
    fits: ({ name, status }) =>
      [400, 405, 415, 422].includes(status ?? 0) || requestErrors.test(name),
    says: "rejected the request",
    hint: "Check that the model supports the options, tool schemas and media of this call.",
  },
  {
    code: "provider_error",
    fits: ({ status, words }) =>
      (status !== undefined && isRetryableStatus(status)) ||
      /\boverloaded|\bserver_error\b|\binternal_error\b|\bunavailable\b/.test(words),
    says: "is unavailable",
    hint: "Try again later, or add a fallback model.",
    retryable: () => true,
  },
  {
    code: "stream_cut",
    fits: ({ network, streaming }) => network && streaming,
    says: "lost the connection during its reply",
    hint: "Check the connection to the provider.",
    retryable: () => true,
  },
  {
    code: "provider_error",
    fits: ({ network }) => network,
    says: "cannot be reached",
    hint: "Check the connection and the base URL of the provider.",
    retryable: () => true,
  },
  {
    code: "provider_error",
    fits: ({ name }) => responseErrors.test(name),
    says: "sent an invalid response",
    hint: "Update the provider's package, or add a fallback model.",
    retryable: () => true,
  },
  {
    code: "provider_error",
    fits: () => true,
    says: "failed",
    hint: "See the error's `cause`.",
    retryable: ({ error }) => isRetryable(error),
  },
];

const requestErrors = /^AI_(InvalidPrompt|InvalidArgument|UnsupportedFunctionality)Error$/;
const responseErrors =
  /^AI_(JSONParse|TypeValidation|InvalidResponseData|EmptyResponseBody|NoContentGenerated)Error$/;
// The wordings of OpenAI, Anthropic, Google, Amazon, Alibaba, xAI, Moonshot and llama.cpp; there is no common code.
const overflow = new RegExp(
  [
    "context_length_exceeded|request_too_large|exceed_context_size",
    "maximum context length|context window|context limit|context size|context length of",
    "prompt is too long|input is too long|maximum prompt length|too many (input |total )?tokens",
    "exceeds the maximum number of tokens|model token limit|reduce the length of the (messages|prompt|input)",
    "range of input length",
  ].join("|"),
);
const filtered =
  /\bcontent_?filter|content management policy|content_policy_violation|responsibleaipolicyviolation|data_?inspection_?failed|prompt was blocked|\bprohibited_content\b/;

/** Converts an error of a provider; `streaming`: the reply had begun. */
export function modelError(error: unknown, model: string, streaming: boolean): RivuletError {
  if (error instanceof RivuletError) return error;
  const failure = readFailure(error, streaming);
  const kind = kinds.find(({ fits }) => fits(failure)) as Kind;
  const message = kind.hidesMessage ? "" : failure.message;
  return new RivuletError(kind.code, `${model} ${kind.says}${message && `: ${message}`}.`, {
    retryable: kind.retryable?.(failure) ?? false,
    hint: kind.hint,
    cause: error,
  });
}

/** A reply that ended before the model finished it. */
export function streamCut(model: string): RivuletError {
  const hint = "Check the connection to the provider.";
  return transient("stream_cut", `${model} stopped in the middle of its reply.`, hint);
}

/** A reply that the provider ended with an error. */
export function replyFailed(model: string): RivuletError {
  const hint = "Try again later, or add a fallback model.";
  return transient("provider_error", `${model} could not finish its reply.`, hint);
}

/** A reply that was silent for longer than `stallMs`. */
export function stalled(model: string, ms: number): RivuletError {
  const hint = "Raise `modelExecution.stallMs` for a model that thinks for long without output.";
  return transient("stalled", `${model} sent nothing for ${ms / 1000} seconds.`, hint);
}

/** A reply that took longer than `timeoutMs`. */
export function timedOut(model: string, ms: number): RivuletError {
  const hint = "Raise `modelExecution.timeoutMs`.";
  return transient("timeout", `${model} took more than ${ms / 1000} seconds.`, hint);
}

function transient(code: string, message: string, hint: string): RivuletError {
  return new RivuletError(code, message, { retryable: true, hint });
}

interface Failure {
  readonly error: unknown;
  readonly name: string;
  readonly status: number | undefined;
  /** Every code, type and message in lower case, because providers use different fields. */
  readonly words: string;
  /** The provider's message, shortened and without keys. */
  readonly message: string;
  readonly network: boolean;
  readonly streaming: boolean;
}

type Fields = Readonly<Record<string, unknown>>;

const maxMessage = 300;
const maxBody = 4_000;
const maxNesting = 5;

function readFailure(error: unknown, streaming: boolean): Failure {
  const fields = fieldsOf(error);
  const words: string[] = [];
  gather(error, words, 0);
  return {
    error,
    name: textOf(fields.name),
    status: statusOf(fields),
    words: words.join("\n").toLowerCase(),
    message: toSafeLine(
      textOf(error) || textOf(fields.message) || textOf(fieldsOf(fields.error).message),
    ),
    network: isBrokenConnection(error),
    streaming,
  };
}

/** The wait that the response headers of a provider ask for. */
export function retryAfterMs(error: unknown, now: number): number | undefined {
  const headers = fieldsOf(fieldsOf(error).responseHeaders);
  const milliseconds = Number.parseFloat(textOf(headers["retry-after-ms"]));
  if (milliseconds >= 0) return milliseconds;
  const header = textOf(headers["retry-after"]);
  if (/^\d+(\.\d+)?$/.test(header)) return Number.parseFloat(header) * 1000;
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

// The fields in which providers and the AI SDK describe errors.
const descriptive = ["code", "type", "status", "reason", "message", "responseBody"];
const nested = ["error", "data", "cause", "details", "innererror"];

function gather(value: unknown, words: string[], depth: number): void {
  if (depth > maxNesting) return;
  if (typeof value === "string") words.push(value.slice(0, maxBody));
  if (Array.isArray(value)) for (const entry of value) gather(entry, words, depth + 1);
  const fields = fieldsOf(value);
  for (const key of descriptive) {
    if (typeof fields[key] === "string") words.push(fields[key].slice(0, maxBody));
  }
  for (const key of nested) if (fields[key] !== undefined) gather(fields[key], words, depth + 1);
}

function statusOf(fields: Fields, depth = 0): number | undefined {
  for (const value of [fields.statusCode, fields.status, fields.code]) {
    if (typeof value === "number" && value >= 400 && value < 600) return value;
  }
  if (depth < maxNesting) {
    for (const key of nested) {
      const status = statusOf(fieldsOf(fields[key]), depth + 1);
      if (status !== undefined) return status;
    }
  }
  return frameStatuses.get(textOf(fields.type));
}

// Errors within a stream have a type instead of a status; these are Anthropic's, which other providers use too.
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

/** One short line without a final full stop; keys and tokens are hidden. */
function toSafeLine(message: string): string {
  const line = message
    .replace(/\s+/g, " ")
    .replace(/\b(bearer|basic)\s+[\w.~+/=*-]+/gi, "$1 [hidden]")
    .replace(/([?&](?:key|api[-_]?key|token)=)[^&\s]+/gi, "$1[hidden]")
    .replace(/\b(?:sk|pk|rk|gsk|xai|key|ghp|hf|r8|AIza)[-_]?[\w*-]{12,}/g, "[hidden]")
    .trim();
  const short = line.length > maxMessage ? `${line.slice(0, maxMessage)}…` : line;
  return short.replace(/[.\s]+$/, "");
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
