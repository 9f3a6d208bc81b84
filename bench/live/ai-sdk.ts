import type { AddressInfo } from "node:net";
import { load } from "../../tools/peers/load.js";
import { liveModel } from "./model.ts";
import { children, type Start } from "./side.ts";

/** The parts of the AI SDK that its documentation uses for a chat server and for subagents. */
interface AiSdk {
  streamText(options: object): { readonly stream: object };
  toUIMessageStream(options: object): object;
  createUIMessageStreamResponse(options: object): Response;
  readUIMessageStream(options: object): AsyncIterable<unknown>;
  convertToModelMessages(messages: unknown): Promise<unknown>;
  isStepCount(count: number): unknown;
  tool(options: object): object;
  readonly ToolLoopAgent: new (
    options: object,
  ) => { stream(options: object): Promise<{ readonly stream: object }> };
}
interface Hono {
  readonly Hono: new () => {
    post(path: string, handle: (context: HonoContext) => Promise<Response>): void;
    readonly fetch: unknown;
  };
}
interface HonoContext {
  readonly req: { json(): Promise<{ readonly messages: unknown }> };
}
interface HonoServer {
  serve(options: object, onListen: () => void): { address(): AddressInfo };
}

/** `streamText` as its documentation serves it; a subagent is a tool that yields its whole message again and again. */
export const start: Start = async ({ workload, tokens }) => {
  const ai = (await load("ai")) as AiSdk;
  const { Hono } = (await load("hono")) as Hono;
  const { serve } = (await load("@hono/node-server")) as HonoServer;
  const { z } = (await load("zod")) as typeof import("zod");
  const isNested = workload === "nested";
  const text = () => liveModel({ kind: "text", ...(tokens !== undefined && { tokens }) });
  const subagent = (name: string) => {
    const agent = new ai.ToolLoopAgent({ model: text(), instructions: "bench" });
    return ai.tool({
      description: name,
      inputSchema: z.object({ prompt: z.string() }),
      async *execute(
        { prompt }: { readonly prompt: string },
        { abortSignal }: { readonly abortSignal: AbortSignal },
      ) {
        const { stream } = await agent.stream({ prompt, abortSignal });
        yield* ai.readUIMessageStream({ stream: ai.toUIMessageStream({ stream }) });
      },
      toModelOutput: () => ({ type: "text", value: "done" }),
    });
  };
  const tools = isNested ? Object.fromEntries(children.map((name) => [name, subagent(name)])) : {};
  const model = isNested ? liveModel({ kind: "lead", tools: children }) : text();
  const app = new Hono();
  app.post("/api/chat", async (context) => {
    const { messages: given } = await context.req.json();
    const messages = await ai.convertToModelMessages(given);
    const stopWhen = ai.isStepCount(5);
    const { stream } = ai.streamText({ model, instructions: "bench", messages, tools, stopWhen });
    return ai.createUIMessageStreamResponse({ stream: ai.toUIMessageStream({ stream }) });
  });
  const { promise, resolve } = Promise.withResolvers<void>();
  const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, resolve);
  await promise;
  const message = { id: "m1", role: "user", parts: [{ type: "text", text: "go" }] };
  const asked = { path: "/api/chat", headers: {}, body: { messages: [message] } };
  const frames = isNested
    ? {
        mark: '"tool-output-available"',
        field: '"text":"',
        stream: '"toolCallId":"',
        repeats: true,
      }
    : { mark: '"text-delta"', field: '"delta":"' };
  return { port: server.address().port, ...asked, ...frames };
};
