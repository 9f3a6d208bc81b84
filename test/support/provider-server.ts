import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { LanguageModelV4 } from "@ai-sdk/provider";
import { framesOf, type ProviderKind, type ProviderTurn } from "./provider-frames.ts";

/** The answer to a request: a turn, an error status or nothing. */
export type ProviderReply =
  | ProviderTurn
  | { readonly status: number; readonly body: unknown; readonly headers?: Record<string, string> }
  | "hang";

/** Options of a provider's server. */
export interface ProviderOptions {
  readonly kind: ProviderKind;
  /** The reply to each request; the last one repeats. */
  readonly script: readonly ProviderReply[] | ((request: ProviderRequest) => ProviderReply);
  /** Ends the body of the first reply after this many bytes. */
  readonly cutAfterBytes?: number;
  /** Whether the connection breaks at the cut, or the body ends normally. */
  readonly cutBy?: "break" | "end";
}

/** A received request. */
export interface ProviderRequest {
  readonly index: number;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Readonly<Record<string, unknown>>;
}

/** A loopback server with a provider's API. */
export interface ProviderServer {
  readonly baseURL: string;
  readonly requests: readonly ProviderRequest[];
  /** The model of the real adapter for this server. */
  model(settings?: { modelId?: string; apiKey?: string }): LanguageModelV4;
  /** Resets the server with other options. */
  restart(options: Partial<ProviderOptions>): void;
  close(): Promise<void>;
}

/** Starts a server that plays a script with a provider's API. */
export async function startProvider(options: ProviderOptions): Promise<ProviderServer> {
  let current = options;
  let requests: ProviderRequest[] = [];

  async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = JSON.parse(await readText(incoming)) as Record<string, unknown>;
    const { url: path = "", headers } = incoming;
    const request = { index: requests.length, path, headers, body };
    requests.push(request);
    const { script, kind, cutAfterBytes, cutBy } = current;
    const reply = Array.isArray(script)
      ? (script[request.index] ?? script.at(-1))
      : (script as (request: ProviderRequest) => ProviderReply)(request);
    if (reply === "hang") return;
    if ("status" in reply) {
      response.writeHead(reply.status, { "content-type": "application/json", ...reply.headers });
      response.end(JSON.stringify(reply.body));
      return;
    }
    const bytes = Buffer.from(framesOf(kind, reply).join(""));
    response.writeHead(200, { "content-type": "text/event-stream" });
    if (request.index > 0 || cutAfterBytes === undefined) return void response.end(bytes);
    const sent = bytes.subarray(0, cutAfterBytes);
    if (cutBy === "end") return void response.end(sent);
    response.flushHeaders();
    response.write(sent, () => response.destroy());
  }

  const server = createServer((incoming, response) => {
    answer(incoming, response).catch((error: unknown) => response.destroy(error as Error));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const baseURL = `http://127.0.0.1:${port}/v1`;

  return {
    baseURL,
    get requests() {
      return requests;
    },
    model: ({ modelId = "test-model", apiKey = "test-key" } = {}) =>
      modelOf(options.kind, { baseURL, apiKey }, modelId),
    restart(changed) {
      current = { ...options, ...changed };
      requests = [];
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function modelOf(
  kind: ProviderKind,
  settings: { baseURL: string; apiKey: string },
  modelId: string,
): LanguageModelV4 {
  switch (kind) {
    case "openai":
      return createOpenAI(settings)(modelId);
    case "anthropic":
      return createAnthropic(settings)(modelId);
    case "openai-compatible":
      return createOpenAICompatible({ name: "loopback", includeUsage: true, ...settings })(modelId);
  }
}

async function readText(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
