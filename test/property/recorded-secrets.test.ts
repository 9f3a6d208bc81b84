import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, it } from "vitest";
import { isDeep } from "../../src/testing/deep.ts";
import { recordReplay } from "../../src/testing/replay.ts";
import "../support/seed-properties.ts";

const names = [
  ..."password passwd pwd passphrase secret client_secret clientSecret token access_token".split(
    " ",
  ),
  ..."refreshToken api_key apiKey x-api-key authorization credentials tokens user_password".split(
    " ",
  ),
];
const parameters = [...names, "auth", "code", "key", "sig", "user[password]"];

/** A place where a secret is under a name that says so. */
type Place = (name: string, secret: string) => { readonly json: unknown };
const places: readonly Place[] = [
  (name, secret) => ({ json: { [name]: secret } }),
  (name, secret) => ({ json: { deep: [{ [name]: [secret] }] } }),
  (name, secret) => ({ json: { [name]: { value: { inner: secret }, type: "x" } } }),
  (name, secret) => ({ json: { arguments: JSON.stringify({ [name]: secret }) } }),
  (name, secret) => ({ json: { text: JSON.stringify({ a: JSON.stringify({ [name]: secret }) }) } }),
  (name, secret) => ({
    json: { text: `see https://x.example/p?a=1&${name}=${encodeURIComponent(secret)} for it` },
  }),
  (_, secret) => ({
    json: { text: `postgres://user:${encodeURIComponent(secret)}@db.example/x is the address` },
  }),
];

/** How a body is written that holds a value. */
const bodies: readonly ((json: unknown) => string)[] = [
  (json) => JSON.stringify(json),
  (json) => JSON.stringify(json, null, 2),
  (json) => `event: message\ndata: {"type":"a"}\n\ndata: ${JSON.stringify(json)}\n\n`,
  (json) => `${JSON.stringify({ a: 1 })}\n${JSON.stringify(json)}\n`,
  (json) => new URLSearchParams({ payload: JSON.stringify(json), b: "2" }).toString(),
];

/** How a text says a secret that it does not name. */
const echoes: readonly ((secret: string) => string)[] = [
  () => "nothing",
  (secret) => `Incorrect: ${secret}.`,
  (secret) => JSON.stringify({ error: { message: `Incorrect: ${secret}.`, code: "invalid" } }),
  (secret) => `data: ${JSON.stringify({ delta: JSON.stringify({ said: secret }) })}\n\n`,
  (secret) => `moved to /x?q=${encodeURIComponent(secret)}`,
];

const letters = 'abcdefXYZ0123456789-_.~/+ é"\\';
const secretText = fc
  .string({ unit: fc.constantFrom(...letters), minLength: 5, maxLength: 40 })
  .map((text) => `q7${text.trim()}Z`);

const exchange = fc.record({
  secret: secretText,
  other: secretText,
  at: fc.constantFrom("request", "response", "form", "query", "header") as fc.Arbitrary<
    "request" | "response" | "form" | "query" | "header"
  >,
  name: fc.constantFrom(...names),
  parameter: fc.constantFrom(...parameters),
  place: fc.constantFrom(...places),
  body: fc.constantFrom(...bodies),
  echo: fc.constantFrom(...echoes),
  cuts: fc.integer({ min: 1, max: 50 }),
});
type Plan = typeof exchange extends fc.Arbitrary<infer T> ? T : never;

function request(
  { at, name, parameter, place, body }: Plan,
  secret: string,
): [string, RequestInit] {
  const url = "http://x.example/v1/x?a=1";
  const post = { method: "POST", headers: { "content-type": "text/plain" } };
  const said = { max_tokens: 5, note: "said" };
  switch (at) {
    case "request":
      return [url, { ...post, body: body({ said, held: place(name, secret).json }) }];
    case "form":
      return [url, { method: "POST", body: new URLSearchParams({ a: "1", [parameter]: secret }) }];
    case "query":
      return [`${url}&${new URLSearchParams({ [parameter]: secret })}`, {}];
    case "header":
      return [url, { headers: { "x-api-key": encodeURIComponent(secret) } }];
    case "response":
      return [url, { ...post, body: JSON.stringify({ ...said, note: secret }) }];
  }
}

it("no recording has a secret, and each replays with another one", async () => {
  const parent = await mkdtemp(join(tmpdir(), "rivulet-secrets-"));
  try {
    await fc.assert(
      fc.asyncProperty(exchange, async (plan) => {
        const { at, secret, other, name, place, body, echo, cuts } = plan;
        fc.pre(!secret.includes(other) && !other.includes(secret));
        const directory = await mkdtemp(join(parent, "one-"));
        const carried = at === "header" ? encodeURIComponent(secret) : secret;
        const answer =
          at === "response" ? `${body(place(name, secret).json)}\n${echo(secret)}` : echo(carried);
        const source: typeof fetch = async () => {
          const bytes = Buffer.from(answer);
          return new Response(
            new ReadableStream({
              start(controller) {
                for (let i = 0; i < bytes.length; i += cuts) {
                  controller.enqueue(bytes.subarray(i, i + cuts));
                }
                controller.close();
              },
            }),
          );
        };
        const recording = recordReplay({ directory, mode: "record", fetch: source });
        expect(await (await recording(...request(plan, secret))).text()).toBe(answer);

        const file = join(directory, (await readdir(directory))[0] as string);
        const text = await readFile(file, "utf8");
        const chunks = Object.values(
          JSON.parse(text) as Record<
            string,
            { responses: [{ chunks: (string | { base64: string })[] }] }
          >,
        )[0]?.responses[0].chunks.map((chunk) =>
          typeof chunk === "string" ? Buffer.from(chunk) : Buffer.from(chunk.base64, "base64"),
        );
        const all = [text, Buffer.concat(chunks ?? []).toString()].join("\n");
        for (const spelling of spellings(carried)) expect(all).not.toContain(spelling);

        // What only the response names is no matter of matching: the same request is made again.
        const again = at === "response" ? secret : other;
        const replay = recordReplay({ directory, fetch: () => Promise.reject(new Error("used")) });
        const replayed = await (await replay(...request(plan, again))).arrayBuffer();
        expect(replayed.byteLength).toBe(Buffer.byteLength(answer));
      }),
      { numRuns: isDeep ? 20_000 : 500 },
    );
  } finally {
    await rm(parent, { recursive: true });
  }
});

function spellings(secret: string): string[] {
  const once = JSON.stringify(secret).slice(1, -1);
  const twice = JSON.stringify(once).slice(1, -1);
  const form = new URLSearchParams({ a: secret }).toString().slice(2);
  return [
    secret,
    once,
    twice,
    JSON.stringify(twice).slice(1, -1),
    encodeURIComponent(secret),
    form,
  ];
}
