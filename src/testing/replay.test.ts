import { getEventListeners } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { recordReplay } from "./replay.ts";

const key = "sk-live-0123456789abcdef";
const offline: typeof fetch = () => Promise.reject(new Error("the network was used"));

let directory: string;
const closing: (() => Promise<unknown>)[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "rivulet-replay-"));
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
  await rm(directory, { recursive: true });
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += chunk;
  return text;
}

function inChunks(chunks: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  const rest = chunks.values();
  return new ReadableStream({
    pull(controller) {
      const { done, value } = rest.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
}

/** A chat completions server that replies "Hello n" to request n. */
function chatServer() {
  let requests = 0;
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
  return serve(async (request, response) => {
    const { stream } = JSON.parse(await bodyOf(request)) as { stream?: boolean };
    requests += 1;
    response.setHeader("set-cookie", "session=cookie-secret-value");
    response.setHeader("openai-organization", "org-secret-name");
    const base = { id: "c1", created: 0, model: "m" };
    if (!stream) {
      response.setHeader("content-type", "application/json");
      const message = { role: "assistant", content: `Hello ${requests}` };
      const choices = [{ index: 0, finish_reason: "stop", message }];
      response.end(JSON.stringify({ ...base, choices, usage }));
      return;
    }
    response.setHeader("content-type", "text/event-stream");
    const send = (choice: object) =>
      response.write(
        `data: ${JSON.stringify({ ...base, choices: [{ index: 0, ...choice }] })}\n\n`,
      );
    send({ delta: { role: "assistant", content: "Hel" } });
    await new Promise(setImmediate);
    send({ delta: { content: `lo ${requests}` } });
    send({ delta: {}, finish_reason: "stop" });
    response.end("data: [DONE]\n\n");
  });
}

const model = (baseURL: string, fetch: typeof globalThis.fetch, apiKey = key) =>
  createOpenAICompatible({ name: "local", baseURL, apiKey, fetch }).chatModel("m");

async function written(): Promise<string> {
  const names = await readdir(directory);
  return (await Promise.all(names.map((name) => readFile(join(directory, name), "utf8")))).join("");
}

describe("with a provider", () => {
  for (const place of ["directory", "file"] as const) {
    it(`replays what it recorded in a ${place}, offline, in order, with another key and host`, async () => {
      const where =
        place === "directory" ? { directory } : { file: join(directory, "deep", "all.json") };
      const url = await chatServer();
      const recording = model(url, recordReplay({ ...where, mode: "record" }));
      const live: string[] = [];
      for (let i = 0; i < 2; i++) {
        live.push(await streamText({ model: recording, prompt: "Hi" }).text);
        live.push((await generateText({ model: recording, prompt: "Hi" })).text);
      }
      expect(live).toEqual(["Hello 1", "Hello 2", "Hello 3", "Hello 4"]);

      const replaying = model(
        "https://elsewhere.example",
        recordReplay({ ...where, fetch: offline }),
        "another",
      );
      const again: string[] = [];
      for (let i = 0; i < 2; i++) {
        again.push(await streamText({ model: replaying, prompt: "Hi" }).text);
        again.push((await generateText({ model: replaying, prompt: "Hi" })).text);
      }
      expect(again).toEqual(live);
      await expect(generateText({ model: replaying, prompt: "Hi" })).rejects.toThrow(
        "was made 3 times, but recorded 2 times",
      );
    });
  }

  it("rejects an unknown request with a hint on how to record it", async () => {
    const replaying = model(
      "http://nowhere.example/v1",
      recordReplay({ directory, fetch: offline }),
    );
    const failure = generateText({ model: replaying, prompt: "Unheard of" });
    await expect(failure).rejects.toMatchObject({
      code: "replay_miss",
      retryable: false,
      message: expect.stringMatching(/^POST \/v1\/chat\/completions .*not recorded.*Unheard of/),
      hint: expect.stringContaining(directory),
    });
    expect(await readdir(directory)).toEqual([]);
  });

  it("records missing requests in auto mode, then needs no network", async () => {
    const url = await chatServer();
    const auto = model(url, recordReplay({ directory, mode: "auto" }));
    expect((await generateText({ model: auto, prompt: "a" })).text).toBe("Hello 1");
    expect((await generateText({ model: auto, prompt: "a" })).text).toBe("Hello 2");
    const later = model(url, recordReplay({ directory, mode: "auto", fetch: offline }));
    expect((await generateText({ model: later, prompt: "a" })).text).toBe("Hello 1");
    expect((await generateText({ model: later, prompt: "a" })).text).toBe("Hello 2");
    await expect(generateText({ model: later, prompt: "b" })).rejects.toThrow("network was used");
  });

  it("replaces recordings in record mode", async () => {
    const url = await chatServer();
    for (const text of ["Hello 1", "Hello 2"]) {
      const fresh = model(url, recordReplay({ directory, mode: "record" }));
      expect((await generateText({ model: fresh, prompt: "a" })).text).toBe(text);
    }
    const replaying = model(url, recordReplay({ directory, fetch: offline }));
    expect((await generateText({ model: replaying, prompt: "a" })).text).toBe("Hello 2");
  });

  it("records no key, cookie or organisation", async () => {
    const url = await chatServer();
    const recording = model(url, recordReplay({ directory, mode: "record" }));
    await streamText({ model: recording, prompt: "Hi" }).text;
    const text = await written();
    expect(text).toContain("Hel");
    for (const secret of [key, "cookie-secret-value", "org-secret-name", "Bearer"]) {
      expect(text).not.toContain(secret);
    }
  });
});

describe("recordings", () => {
  it("mask keys that the server echoes across chunks, and given texts", async () => {
    const named = 'pass"word\\ü';
    const text = `no such key ${key}; ${JSON.stringify(named)}; ${encodeURIComponent(named)} end`;
    const pieces = text.match(/.{1,7}/gu) ?? [];
    const source: typeof fetch = async () =>
      new Response(inChunks(pieces.map((piece) => Buffer.from(piece))), {
        status: 401,
        headers: { "retry-after": `7 ${key}` },
      });
    const options = { directory, secrets: [named, undefined, ""] };
    const ask = (fetch: typeof globalThis.fetch, apiKey: string) =>
      fetch(`http://x.example/v1/x?b=2&a=1&api_key=${apiKey}&key=${apiKey}`, {
        method: "POST",
        headers: { "x-api-key": apiKey, authorization: `Bearer ${apiKey}` },
        body: JSON.stringify({ text: `${named} and ${apiKey}`, auth: { accessToken: "t-1" } }),
      });
    const live = await (
      await ask(recordReplay({ ...options, mode: "record", fetch: source }), key)
    ).text();
    expect(live).toBe(text);

    const file = await written();
    for (const secret of [key, "t-1", named, JSON.stringify(named).slice(1, -1)]) {
      expect(file).not.toContain(secret);
    }
    expect(file).toContain('/v1/x?a=1&b=2"');
    const chunks = Object.values(
      JSON.parse(file) as Record<string, { responses: [{ chunks: string[] }] }>,
    )[0]?.responses[0].chunks;
    expect(chunks?.map((chunk) => Buffer.byteLength(chunk))).toEqual(
      pieces.map((piece) => Buffer.byteLength(piece)),
    );
    expect(chunks?.join("")).not.toContain(key);

    const replay = recordReplay({ ...options, fetch: offline });
    const again = await ask(replay, "sk-other-9876543210");
    expect(again.status).toBe(401);
    expect(again.headers.get("retry-after")).toBe("7 [redacted]");
    expect(await again.text()).toBe(
      live
        .replace(key, "*".repeat(key.length))
        .replace(JSON.stringify(named).slice(1, -1), (found) =>
          "*".repeat(Buffer.byteLength(found)),
        )
        .replace(encodeURIComponent(named), (found) => "*".repeat(found.length)),
    );
  });

  it("mask a secret of one response in all later exchanges, and replay", async () => {
    const token = "tok-0123456789";
    const source: typeof fetch = async (input) =>
      String(input).endsWith("/token")
        ? Response.json({ access_token: token, expires_in: 3600 }, { status: 201 })
        : new Response(`Welcome, ${token}.`);
    const talk = async (fetch: typeof globalThis.fetch) => {
      const form = new URLSearchParams({ client_secret: "s-1", scope: "all" });
      const granted = await fetch("http://x.example/token", { method: "POST", body: form });
      const { access_token } = (await granted.json()) as { access_token: string };
      const body = JSON.stringify({ note: `I am ${access_token}` });
      return (await fetch("http://x.example/me", { method: "POST", body })).text();
    };
    const live = await talk(recordReplay({ directory, mode: "record", fetch: source }));
    expect(live).toBe(`Welcome, ${token}.`);
    expect(await written()).not.toMatch(/tok-0|s-1/);
    expect(await talk(recordReplay({ directory, fetch: offline }))).toBe(
      `Welcome, ${"*".repeat(token.length)}.`,
    );
  });

  it("keep the original chunks, including binary data and split characters", async () => {
    const chunks = [
      Buffer.from("\ufeffdata: ü"),
      Buffer.from("ü").subarray(0, 1),
      Buffer.from("ü").subarray(1),
      Buffer.from([0xff, 0x00, 0x80]),
    ];
    const source: typeof fetch = async () => new Response(inChunks(chunks));
    const read = async (response: Response) => {
      const seen: Buffer[] = [];
      for await (const chunk of response.body ?? []) seen.push(Buffer.from(chunk));
      return seen;
    };
    const url = "http://x.example/";
    expect(
      await read(await recordReplay({ directory, mode: "record", fetch: source })(url)),
    ).toEqual(chunks);
    expect(await read(await recordReplay({ directory, fetch: offline })(url))).toEqual(chunks);
  });

  it("identify a request by value, regardless of key order, host and headers", async () => {
    const source: typeof fetch = async () => Response.json({ ok: true });
    const post = (fetch: typeof globalThis.fetch, url: string, body: string) =>
      fetch(new Request(url, { method: "POST", body }));
    const recording = recordReplay({ directory, mode: "record", fetch: source });
    await (await post(recording, "http://a.example/p", '{"a":1,"b":{"c":2,"d":3}}')).text();
    const replay = recordReplay({ directory, fetch: offline });
    const again = await post(replay, "https://b.example/p", '{"b":{"d":3,"c":2},"a":1}');
    expect(await again.json()).toEqual({ ok: true });
    for (const other of ['{"a":2,"b":{"c":2,"d":3}}', "not JSON", ""]) {
      await expect(post(replay, "http://a.example/p", other)).rejects.toThrow("not recorded");
    }
    await expect(post(replay, "http://a.example/q", '{"a":1}')).rejects.toThrow("not recorded");
  });

  it("keep everything when several providers record into one file", async () => {
    const file = join(directory, "all.json");
    const source: typeof fetch = async (input) => new Response(String(input));
    const urls = Array.from({ length: 20 }, (_, i) => `http://x.example/${i}`);
    const read = async (fetch: typeof globalThis.fetch, url: string) => (await fetch(url)).text();
    const record = () => recordReplay({ file, mode: "record", fetch: source });
    await Promise.all(urls.map((url) => read(record(), url)));
    const replay = recordReplay({ file, fetch: offline });
    expect(await Promise.all(urls.map((url) => read(replay, url)))).toEqual(urls);
    expect(await readdir(directory)).toEqual(["all.json"]);
  });

  it("include a response without a body", async () => {
    const source: typeof fetch = async () => new Response(null, { status: 204 });
    await recordReplay({ directory, mode: "record", fetch: source })("http://x.example/");
    const again = await recordReplay({ directory, fetch: offline })("http://x.example/");
    expect([again.status, again.body]).toEqual([204, null]);
  });

  it("leave out incomplete exchanges", async () => {
    let respond: ServerResponse | undefined;
    const url = await serve((_, response) => {
      respond = response;
      response.write("half");
    });
    const recording = recordReplay({ directory, mode: "record" });
    const cut = await recording(url);
    const reading = cut.text();
    respond?.destroy();
    await expect(reading).rejects.toThrow("terminated");
    const left = await recording(url);
    await left.body?.cancel();
    expect(await readdir(directory)).toEqual([]);
  });

  it("reject a file that is not a recording", async () => {
    const file = join(directory, "all.json");
    await writeFile(file, "{");
    await expect(recordReplay({ file })("http://x.example/")).rejects.toMatchObject({
      code: "invalid_recording",
      message: `${file} is not a recording.`,
    });
  });
});

describe("an abort", () => {
  const source: typeof fetch = async () =>
    new Response(inChunks([Buffer.from("a"), Buffer.from("b")]));

  it("rejects the request and ends a replayed body", async () => {
    const url = "http://x.example/";
    await (await recordReplay({ directory, mode: "record", fetch: source })(url)).text();
    const replay = recordReplay({ directory, fetch: offline });
    await expect(replay(url, { signal: AbortSignal.abort("early") })).rejects.toBe("early");

    const abort = new AbortController();
    const reader = (await replay(url, { signal: abort.signal })).body?.getReader();
    expect((await reader?.read())?.value).toEqual(Buffer.from("a"));
    abort.abort("enough");
    await expect(reader?.read()).rejects.toBe("enough");
    expect(getEventListeners(abort.signal, "abort")).toEqual([]);
  });

  it("leaves no listener on an unused signal", async () => {
    const { signal } = new AbortController();
    const url = "http://x.example/";
    const recording = recordReplay({ directory, mode: "record", fetch: source });
    await (await recording(url, { signal })).text();
    await (await recording(url, { signal })).text();
    const replay = recordReplay({ directory, fetch: offline });
    expect(await (await replay(url, { signal })).text()).toBe("ab");
    await (await replay(url, { signal })).body?.cancel();
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });
});
