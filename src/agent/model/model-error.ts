import { RivuletError } from "../../protocol/error.ts";
import { isRetryable, isRetryableStatus } from "../execution.ts";
import type { Failure } from "./failure.ts";
import { readFailure } from "./failure.ts";

/** How a model call can fail. */
export type ModelErrorCode =
  | "missing_api_key"
  | "unauthorized"
  | "rate_limited"
  | "context_overflow"
  | "content_filter"
  | "model_not_found"
  | "invalid_request"
  | "provider_error"
  | "stream_cut"
  | "stalled"
  | "timeout";

/** One kind of failure: how it is recognised, and what is said of it. The first that fits is the one. */
interface Kind {
  readonly code: ModelErrorCode;
  readonly fits: (failure: Failure) => boolean;
  /** Follows the model's name. */
  readonly says: string;
  readonly hint: string;
  readonly retryable?: (failure: Failure) => boolean;
  /** Leave out what the provider said: it may quote the key. */
  readonly discreet?: true;
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
    says: "does not accept the API key",
    hint: "Check that the key is right, is not expired and may use this model.",
    discreet: true,
  },
  {
    code: "rate_limited",
    fits: ({ status, words }) =>
      status === 429 || /\brate_limit|\binsufficient_quota\b|\bresource_exhausted\b/.test(words),
    says: "has had too many requests",
    hint: "Wait, lower the number of parallel calls, raise the limit with the provider, or name a fallback model.",
    // An empty account does not fill up by waiting.
    retryable: ({ words }) => !/\binsufficient_quota\b/.test(words),
  },
  {
    code: "context_overflow",
    fits: ({ words, status }) => status === 413 || overflow.test(words),
    says: "cannot take a prompt of this length",
    hint: "Shorten the conversation (compaction does it), the tool results or maxOutputTokens.",
  },
  {
    code: "content_filter",
    fits: ({ words }) => filtered.test(words),
    says: "refused the content",
    hint: "Change what is asked, or review the provider's content filter.",
  },
  {
    code: "model_not_found",
    fits: ({ name, status, words }) =>
      name === "AI_NoSuchModelError" || status === 404 || /\bmodel_not_found\b/.test(words),
    says: "was not found at the provider",
    hint: "Check the model's id, the base URL and that the key may use this model.",
  },
  {
    code: "provider_error",
    fits: ({ status }) => status === 402,
    says: "asks for payment",
    hint: "Check the balance of the provider's account.",
  },
  {
    code: "invalid_request",
    fits: ({ name, status }) =>
      status === 400 || status === 405 || status === 415 || status === 422 || refused.has(name),
    says: "does not accept the request",
    hint: "Check the options, the tools' schemas and the media of this call against what the model takes.",
  },
  {
    code: "provider_error",
    fits: ({ status, words }) =>
      (status !== undefined && isRetryableStatus(status)) ||
      /\boverloaded|\bserver_error\b|\binternal_error\b|\bunavailable\b/.test(words),
    says: "is in trouble at the provider",
    hint: "Try again later, or name a fallback model.",
    retryable: () => true,
  },
  {
    code: "stream_cut",
    fits: ({ network, streaming }) => network && streaming,
    says: "was cut off in the middle of its reply",
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
    fits: ({ name }) => unreadable.has(name),
    says: "sent something that cannot be read",
    hint: "Update the provider's package, or name a fallback model.",
    retryable: () => true,
  },
  {
    code: "provider_error",
    fits: () => true,
    says: "failed",
    hint: "The cause has what the provider said.",
    retryable: ({ error }) => isRetryable(error),
  },
];

const refused = new Set([
  "AI_InvalidPromptError",
  "AI_InvalidArgumentError",
  "AI_UnsupportedFunctionalityError",
]);
const unreadable = new Set([
  "AI_JSONParseError",
  "AI_TypeValidationError",
  "AI_InvalidResponseDataError",
  "AI_EmptyResponseBodyError",
  "AI_NoContentGeneratedError",
]);

// OpenAI and what speaks like it, Anthropic, Google, Amazon, Alibaba, xAI, Moonshot, llama.cpp; there is no common code.
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

/** What went wrong with a model, as an error to branch on; `streaming`: after the reply had begun. */
export function modelError(error: unknown, model: string, streaming: boolean): RivuletError {
  if (error instanceof RivuletError) return error;
  const failure = readFailure(error, streaming);
  const kind = kinds.find(({ fits }) => fits(failure)) as Kind;
  const said = kind.discreet ? "" : failure.message;
  return new RivuletError(kind.code, `${model} ${kind.says}${said === "" ? "" : `: ${said}`}.`, {
    retryable: kind.retryable?.(failure) ?? false,
    hint: kind.hint,
    cause: error,
  });
}

/** A reply that ended before the model had finished it. */
export function streamCut(model: string): RivuletError<"stream_cut"> {
  return new RivuletError("stream_cut", `${model} stopped in the middle of its reply.`, {
    retryable: true,
    hint: "Check the connection to the provider.",
  });
}

/** A reply that the provider itself gave up on. */
export function replyFailed(model: string): RivuletError<"provider_error"> {
  return new RivuletError("provider_error", `${model} could not finish its reply.`, {
    retryable: true,
    hint: "Try again later, or name a fallback model.",
  });
}

/** A model that has been silent for too long. */
export function stalled(model: string, ms: number): RivuletError<"stalled"> {
  return new RivuletError("stalled", `${model} was silent for ${ms / 1000} seconds.`, {
    retryable: true,
    hint: "Raise modelExecution.stallMs for a model that thinks in silence.",
  });
}

/** A model that has talked for too long. */
export function timedOut(model: string, ms: number): RivuletError<"timeout"> {
  return new RivuletError("timeout", `${model} took more than ${ms / 1000} seconds.`, {
    retryable: true,
    hint: "Raise modelExecution.timeoutMs.",
  });
}
