import { describe, expect, it } from "vitest";
import { createRedactor, safePath, secretsIn, secretsOf } from "./secrets.ts";

describe("secrets", () => {
  it("are found in headers, cookies and URLs", () => {
    const request = new Request("http://x.example/?key=in-the-query&alt=sse-is-no-secret", {
      headers: {
        authorization: "Bearer in-authorization",
        "x-goog-api-key": "in-a-header",
        "ocp-apim-subscription-key": "in-another",
        cookie: "a=in-a-cookie; b=in-a-second==",
        "x-api-key": "short",
        "x-stainless-lang": "javascript",
      },
    });
    expect(secretsOf(request).sort()).toEqual([
      "in-a-cookie",
      "in-a-header",
      "in-a-second==",
      "in-another",
      "in-authorization",
      "in-the-query",
    ]);
  });

  it("are removed from a URL, whose query is sorted", () => {
    expect(safePath("http://x.example/p?z=1&sig=s&a=2&accessToken=t&key=k")).toBe("/p?a=2&z=1");
    expect(safePath("http://x.example/p?api-key=k")).toBe("/p");
  });

  it("are masked only in fields named like a secret", () => {
    const { json } = createRedactor([]);
    expect(
      json({
        max_tokens: 5,
        tools: [{ authorization: "a", server: { clientSecret: "b", url: "c" } }],
        properties: { password: { type: "string" } },
        tokens: "d",
      }),
    ).toEqual({
      max_tokens: 5,
      tools: [{ authorization: "[redacted]", server: { clientSecret: "[redacted]", url: "c" } }],
      properties: { password: { type: "string" } },
      tokens: "[redacted]",
    });
  });

  it("are masked completely when one contains another", () => {
    const { chunks, text } = createRedactor(["inner", "outer-inner-outer"]);
    const blanked = chunks([Buffer.from("outer-in"), Buffer.from("ner-outer inner")]);
    expect(blanked.map(String)).toEqual(["********", "********* *****"]);
    expect(text("outer-inner-outer inner")).toBe("[redacted] [redacted]");
  });

  it("are masked in forms, URLs and JSON inside a text, even short ones", () => {
    const { text, json } = createRedactor([]);
    expect(text("grant_type=x&client_secret=a&code=b&user%5Bpassword%5D=c")).toBe(
      "grant_type=x&client_secret=[redacted]&code=[redacted]&user%5Bpassword%5D=[redacted]",
    );
    expect(text("at db://me:pw@host/x and /p?a=1&api_key=k, or #access_token=t")).toBe(
      "at db://me:[redacted]@host/x and /p?a=1&api_key=[redacted] or #access_token=[redacted]",
    );
    expect(
      json({ arguments: '{"passwd": "x", "tokens": ["y"], "secret": {"kind": "z"}, "a": "b"}' }),
    ).toEqual({
      arguments:
        '{"passwd": "[redacted]", "tokens": ["[redacted]"], "secret": {"kind": "[redacted]"}, "a": "b"}',
    });
    expect(text('name="file"\r\n\r\nx; name="api_key"\r\n\r\nabc\r\n--')).toBe(
      'name="file"\r\n\r\nx; name="api_key"\r\n\r\n[redacted]\r\n--',
    );
  });

  it("do not include values that only look like one", () => {
    const ordinary = [
      { max_tokens: 5, usage: { total_tokens: 7, prompt_tokens: 3, tokens: 4, token: null } },
      { author: "Ada Lovelace", error: { code: "invalid_request", type: "auth" }, key: "value" },
      { arguments: '{"text":"my password is what I forgot","code":"let x=1; y=2"}' },
      { logprobs: { content: [{ token: "Hello world", logprob: -0.1, bytes: [72] }] } },
      { logprobs: { tokens: ["Hello", " world"], token_logprobs: [-0.1, -0.2] } },
      { token: { id: 5, text: "Hello world", logprob: -0.1, special: false } },
      { type: "thinking", thinking: "Well.", signature: "EqQBCkYIBRgCKkAx" },
      { properties: { api_key: { type: "string", description: "A key." } }, required: ["api_key"] },
      { text: "https://x.example/a:b@c?q=1&page=2#part and a=b, mail me@x.example" },
    ];
    const { json, chunks } = createRedactor([]);
    for (const value of ordinary) {
      const bytes = Buffer.from(`data: ${JSON.stringify(value)}\n\n`);
      expect(json(value)).toEqual(value);
      expect(chunks([bytes]).map(String)).toEqual([String(bytes)]);
      expect(secretsIn(bytes)).toEqual([]);
    }
  });

  it("of digits are masked without breaking JSON numbers", () => {
    const { json, chunks } = createRedactor(["123456"]);
    const value = { pin: 123456, created: 1234567, text: "is 123456" };
    expect(json(value)).toEqual({ pin: "[redacted]", created: 1234567, text: "is [redacted]" });
    expect(JSON.parse(String(chunks([Buffer.from(JSON.stringify(value))])[0]))).toEqual({
      pin: 999999,
      created: 1234567,
      text: "is 999999",
    });
  });
});
