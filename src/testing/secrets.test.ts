import { describe, expect, it } from "vitest";
import { createRedactor, safePath, secretsOf } from "./secrets.ts";

describe("secrets", () => {
  it("are found in headers, cookies and addresses", () => {
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

  it("are dropped from an address, whose query is sorted", () => {
    expect(safePath("http://x.example/p?z=1&sig=s&a=2&accessToken=t&key=k")).toBe("/p?a=2&z=1");
    expect(safePath("http://x.example/p?api-key=k")).toBe("/p");
  });

  it("are taken out of fields named like one, and out of no other", () => {
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
      tokens: "d",
    });
  });

  it("are blanked whole when one holds another", () => {
    const { chunks, text } = createRedactor(["inner", "outer-inner-outer"]);
    const blanked = chunks([Buffer.from("outer-in"), Buffer.from("ner-outer inner")]);
    expect(blanked.map(String)).toEqual(["********", "********* *****"]);
    expect(text("outer-inner-outer inner")).toBe("[redacted] [redacted]");
  });
});
