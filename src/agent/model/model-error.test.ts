import { APICallError, JSONParseError, LoadAPIKeyError, NoSuchModelError } from "@ai-sdk/provider";
import { describe, expect, it } from "vitest";
import { RivuletError } from "../../base/error.ts";
import { modelError } from "./model-error.ts";

function api(statusCode: number | undefined, message: string, body?: unknown): Error {
  return new APICallError({
    message,
    url: "https://provider.example",
    requestBodyValues: { secret: "in the cause only" },
    ...(statusCode !== undefined && { statusCode }),
    ...(body !== undefined && { responseBody: JSON.stringify(body), data: body }),
  });
}
const openai = (message: string, code: string) => ({ error: { message, code, type: "x" } });

// Errors of providers: [name, error, code, retryable].
const cases: readonly (readonly [string, unknown, string, boolean])[] = [
  [
    "no key",
    new LoadAPIKeyError({ message: "OpenAI API key is missing." }),
    "missing_api_key",
    false,
  ],
  ["401", api(401, "Incorrect API key provided"), "unauthorized", false],
  ["403", api(403, "Forbidden"), "unauthorized", false],
  [
    "Google's bad key",
    api(400, "API key not valid.", {
      error: { code: 400, status: "INVALID_ARGUMENT", details: [{ reason: "API_KEY_INVALID" }] },
    }),
    "unauthorized",
    false,
  ],
  ["429", api(429, "Rate limit reached, too many tokens per minute"), "rate_limited", true],
  [
    "no money",
    api(429, "You exceeded your current quota", openai("You exceeded", "insufficient_quota")),
    "rate_limited",
    false,
  ],
  ["Anthropic's frame", { type: "rate_limit_error", message: "Slow down" }, "rate_limited", true],
  [
    "OpenAI's overflow",
    api(400, "…", openai("maximum context length is 128000 tokens", "context_length_exceeded")),
    "context_overflow",
    false,
  ],
  [
    "OpenAI's newer overflow",
    api(400, "Your input exceeds the context window of this model."),
    "context_overflow",
    false,
  ],
  [
    "Anthropic's overflow",
    api(400, "prompt is too long: 210000 tokens > 200000 maximum"),
    "context_overflow",
    false,
  ],
  [
    "Anthropic's other overflow",
    api(400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    "context_overflow",
    false,
  ],
  [
    "Anthropic's large request",
    api(413, "Request exceeds the maximum size"),
    "context_overflow",
    false,
  ],
  [
    "Google's overflow",
    api(
      400,
      "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    ),
    "context_overflow",
    false,
  ],
  [
    "Alibaba's overflow",
    api(400, "Range of input length should be [1, 129024]"),
    "context_overflow",
    false,
  ],
  [
    "llama.cpp's overflow",
    api(500, "the request exceeds the available context size"),
    "context_overflow",
    false,
  ],
  [
    "a frame with an overflow",
    { message: "This model's maximum context length is 4096 tokens", code: 400 },
    "context_overflow",
    false,
  ],
  [
    "too large maxOutputTokens",
    api(400, "max_tokens is too large: 99999. This model supports at most 16384 completion tokens"),
    "invalid_request",
    false,
  ],
  [
    "Azure's filter",
    api(400, "The response was filtered", openai("filtered", "content_filter")),
    "content_filter",
    false,
  ],
  [
    "Alibaba's filter",
    api(400, "x", openai("inappropriate content", "data_inspection_failed")),
    "content_filter",
    false,
  ],
  [
    "no such model",
    new NoSuchModelError({ modelId: "x", modelType: "languageModel" }),
    "model_not_found",
    false,
  ],
  ["404", api(404, "The model `gpt-9` does not exist"), "model_not_found", false],
  ["402", api(402, "Insufficient Balance"), "provider_error", false],
  ["400", api(400, "Invalid value for 'temperature'"), "invalid_request", false],
  ["500", api(500, "Internal error"), "provider_error", true],
  ["408", api(408, "Timeout"), "provider_error", true],
  ["overloaded", { type: "overloaded_error", message: "Overloaded" }, "provider_error", true],
  [
    "a frame of the AI SDK",
    { message: "x", statusCode: 503, isRetryable: true, data: {} },
    "provider_error",
    true,
  ],
  [
    "connection refused",
    new APICallError({
      message: "Cannot connect to API: ",
      url: "x",
      requestBodyValues: {},
      isRetryable: true,
      cause: Object.assign(new Error(), { code: "ECONNREFUSED" }),
    }),
    "provider_error",
    true,
  ],
  ["fetch failed", new TypeError("fetch failed"), "provider_error", true],
  ["nonsense", new JSONParseError({ text: "{", cause: new Error() }), "provider_error", true],
  ["a string", "boom", "provider_error", false],
  ["nothing", null, "provider_error", false],
  [
    "something that says it passes",
    Object.assign(new Error("x"), { isRetryable: true }),
    "provider_error",
    true,
  ],
];

describe("modelError", () => {
  for (const [name, error, code, retryable] of cases) {
    it(`recognises ${name} as ${code}`, () => {
      const mapped = modelError(error, "openai gpt-5", false);
      expect(mapped).toMatchObject({ code, retryable, cause: error });
      expect(mapped.message).toMatch(/^openai gpt-5 [^\n]+\.$/);
      expect(mapped.hint).toMatch(/\S/);
    });
  }

  it("distinguishes a connection that breaks before the reply from one that breaks within it", () => {
    const broken = Object.assign(new TypeError("terminated"), {
      cause: { code: "UND_ERR_SOCKET" },
    });
    expect(modelError(broken, "m", false)).toMatchObject({ code: "provider_error" });
    expect(modelError(broken, "m", true)).toMatchObject({ code: "stream_cut", retryable: true });
  });

  it("never shows an API key", () => {
    const key = "sk-proj-abcdefghijklmnop";
    for (const status of [400, 401, 500]) {
      for (const said of [
        `Incorrect API key provided: ${key}.`,
        `Authorization: Bearer ${key}`,
        `GET /v1?key=${key}`,
      ]) {
        expect(modelError(api(status, said), "m", false).message).not.toContain(key);
      }
    }
  });

  it("shortens the provider's message", () => {
    expect(modelError(api(400, "x\n".repeat(5_000)), "m", false).message.length).toBeLessThan(400);
  });

  it("returns a RivuletError unchanged and handles circular errors", () => {
    const ours = new RivuletError("script_exhausted", "No turn left.");
    expect(modelError(ours, "m", false)).toBe(ours);
    const circle: Record<string, unknown> = { name: "Error", message: "round" };
    circle.cause = circle;
    circle.error = circle;
    expect(modelError(circle, "m", false)).toMatchObject({ code: "provider_error" });
  });
});
