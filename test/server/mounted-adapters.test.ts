import { spawn } from "node:child_process";
import { resolve } from "node:path";
import { text } from "node:stream/consumers";
import { DefaultChatTransport, readUIMessageStream, type UIMessage } from "ai";
import { Hono } from "hono";
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { type AppOptions, createApp } from "../../src/server.ts";
import { scripted, tokens } from "./support/server.ts";

const authorization = { authorization: `Bearer ${tokens.ann}` };
const auth = { tokens: { [tokens.ann]: { userId: "ann" } } };

/** An app of an application, with adapters below a path. */
function mounted(adapters: AppOptions["adapters"]) {
  const { agent } = scripted(() => "Hello.");
  const options = { agents: [agent], auth, log: false, nativeRoutes: false } as const;
  const app = new Hono();
  app.get("/", (context) => context.text("The application."));
  app.mount("/ai", createApp({ ...options, ...(adapters && { adapters }) }).fetch);
  const fetch = (url: string | URL | Request, init?: RequestInit) =>
    Promise.resolve(app.fetch(new Request(url, init)));
  return {
    app,
    fetch,
    get: (path: string) => fetch(`http://app${path}`, { headers: authorization }),
  };
}

describe("an adapter that is mounted alone", () => {
  it("answers a chat of the AI SDK below its path, beside the application", async () => {
    const { fetch, get } = mounted(["ai-sdk"]);
    const transport = new DefaultChatTransport({
      ...{ api: "http://app/ai/api/chat", headers: authorization, fetch: fetch as never },
    });
    const message: UIMessage = { id: "m1", role: "user", parts: [{ type: "text", text: "Hi." }] };
    const stream = await transport.sendMessages({
      ...{ trigger: "submit-message", chatId: "c1", messageId: undefined, messages: [message] },
      abortSignal: undefined,
    });
    let last: UIMessage | undefined;
    for await (const shown of readUIMessageStream({ stream })) last = shown;
    expect(last?.parts.at(-1)).toMatchObject({ type: "text", text: "Hello." });
    expect(await (await get("/")).text()).toBe("The application.");
  });

  it("answers the client of OpenAI below its path", async () => {
    const { fetch } = mounted(["responses"]);
    const client = new OpenAI({
      ...{ baseURL: "http://app/ai/openai/v1", apiKey: tokens.ann, fetch: fetch as never },
    });
    const { output_text } = await client.responses.create({ model: "lead", input: "Hi." });
    expect(output_text).toBe("Hello.");
  });

  it("has no native route", async () => {
    const { get } = mounted(["ai-sdk", "responses", "ag-ui", "a2a"]);
    for (const path of ["/v1/agents", "/v1/sessions", "/v1/tasks/t", "/metrics", "/openapi.json"])
      expect((await get(`/ai${path}`)).status, path).toBe(404);
  });

  it.each([
    [{ adapters: [] }, "`adapters` is empty"],
    [{ adapters: ["ai-sdk"], page: true }, "need the native routes"],
  ] as const)("refuses %j", (options, message) => {
    const { agent } = scripted([]);
    const create = () => createApp({ agents: [agent], auth, nativeRoutes: false, ...options });
    expect(create).toThrow(message);
  });
});

describe("an address that an adapter does not have", () => {
  it("is an error in the form of its protocol", async () => {
    const { get, fetch } = mounted(["responses", "a2a"]);
    for (const path of ["/ai/openai/v1/nothing", "/ai/openai/v1/responses/a/b/c"]) {
      const response = await get(path);
      expect(response.status).toBe(404);
      expect(await response.json()).toMatchObject({
        error: { type: "invalid_request_error", message: expect.any(String), code: "not_found" },
      });
    }
    const wrong = await get("/ai/openai/v1/responses");
    expect(wrong.status).toBe(405);
    expect(await wrong.json()).toMatchObject({ error: { type: "invalid_request_error" } });
    const anonymous = await fetch("http://app/ai/openai/v1/nothing");
    expect(anonymous.status).toBe(401);
    expect(await anonymous.json()).toMatchObject({ error: { type: expect.any(String) } });
    const rpc = await get("/ai/a2a/lead/nothing");
    expect(await rpc.json()).toMatchObject({ jsonrpc: "2.0", error: { code: -32_600 } });
  });
});

it("answers 501 with the command that installs a missing package", async () => {
  const from = (path: string) => JSON.stringify(resolve(path));
  const program = `
    import { registerHooks } from "node:module";
    registerHooks({ resolve(name, context, next) {
      if (!name.startsWith("@a2a-js/")) return next(name, context);
      throw new Error("Cannot find package '@a2a-js/sdk'");
    } });
    const { HarnessAgent } = await import(${from("src/index.ts")});
    const { createApp } = await import(${from("src/server.ts")});
    const agent = new HarnessAgent({ name: "lead", store: "memory", filesystem: false, model: "openai:x" });
    const token = "0123456789abcdef";
    const app = createApp({ agents: [agent], adapters: ["a2a"], nativeRoutes: false, token, log: false });
    const response = await app.request("http://localhost/a2a/lead", {
      method: "POST", body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "SendMessage" }),
      headers: { authorization: "Bearer " + token, "content-type": "application/json" },
    });
    console.log(JSON.stringify({ status: response.status, body: await response.json() }));
    process.exit();`;
  const flags = ["--input-type=module", "--eval", program];
  const child = spawn(process.execPath, flags, { stdio: ["ignore", "pipe", "inherit"] });
  expect(JSON.parse(await text(child.stdout))).toMatchObject({
    status: 501,
    body: {
      jsonrpc: "2.0",
      error: { code: -32_603, message: expect.stringContaining("npm i @a2a-js/sdk") },
    },
  });
});
