import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { load } from "../../tools/peers/load.js";
import { children, type Start } from "./side.ts";
import { ride } from "./wheel.ts";

/** An event of pi, as far as the bench reads it. */
interface PiEvent {
  readonly type: string;
  readonly toolCallId?: string;
  readonly assistantMessageEvent?: { readonly partial?: unknown };
  readonly partialResult?: { readonly details: object };
}
interface PiAgent {
  subscribe(listener: (event: PiEvent) => void): void;
  prompt(text: string): Promise<void>;
}
interface PiCore {
  readonly Agent: new (options: object) => PiAgent;
}
interface PiStream {
  push(event: object): void;
  end(): void;
}
interface PiAi {
  createAssistantMessageEventStream(): PiStream;
  readonly Type: { Object(fields: object): object; String(): object };
}
interface PiContext {
  readonly messages: readonly { readonly role: string }[];
}

const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2, cost };
const scripted = { api: "scripted", provider: "scripted" };
const model = {
  ...scripted,
  ...{ id: "scripted", name: "scripted", baseUrl: "", reasoning: false, input: ["text"] },
  ...{ cost, contextWindow: 1e6, maxTokens: 1e6 },
};

/** pi, with its events as frames by hand, without the partial messages, as its own proxy sends them. */
export const start: Start = async ({ workload, tokens }) => {
  const core = (await load("@earendil-works/pi-agent-core")) as PiCore;
  const ai = (await load("@earendil-works/pi-ai")) as PiAi;
  const isNested = workload === "nested";

  function answer(isLead: boolean, context: PiContext): PiStream {
    const stream = ai.createAssistantMessageEventStream();
    const content: object[] = [];
    const partial = {
      ...{ role: "assistant", content, usage, stopReason: "stop", timestamp: Date.now() },
      ...{ ...scripted, model: "scripted" },
    };
    const finish = (reason: string) => {
      partial.stopReason = reason;
      stream.push({ type: "done", reason, message: partial });
      stream.end();
    };
    queueMicrotask(() => {
      stream.push({ type: "start", partial });
      if (isLead && !context.messages.some(({ role }) => role === "toolResult")) {
        for (const name of children) {
          const toolCall = { type: "toolCall", id: `c${name}`, name, arguments: { task: "go" } };
          const contentIndex = content.push(toolCall) - 1;
          stream.push({ type: "toolcall_start", contentIndex, partial });
          stream.push({ type: "toolcall_end", contentIndex, toolCall, partial });
        }
        finish("toolUse");
        return;
      }
      const block = { type: "text", text: "" };
      const at = { contentIndex: content.push(block) - 1, partial };
      stream.push({ type: "text_start", ...at });
      const push = (delta: string) => {
        block.text += delta;
        stream.push({ type: "text_delta", delta, ...at });
      };
      const end = () => {
        stream.push({ type: "text_end", content: block.text, ...at });
        finish("stop");
      };
      if (!isLead) return ride({ push, end }, tokens);
      push("all is done");
      end();
    });
    return stream;
  }

  function agentOf(isLead: boolean, tools: readonly object[]): PiAgent {
    const initialState = {
      systemPrompt: "bench",
      model,
      thinkingLevel: "off",
      tools,
      messages: [],
    };
    const streamFn = (_: unknown, context: PiContext) => answer(isLead, context);
    return new core.Agent({ initialState, streamFn, getApiKey: () => "x" });
  }

  function frameOf(event: PiEvent): object {
    const { type, assistantMessageEvent, partialResult, toolCallId } = event;
    if (assistantMessageEvent)
      return { type, event: { ...assistantMessageEvent, partial: undefined } };
    return partialResult ? { type, toolCallId, ...partialResult.details } : { type };
  }

  /** Each event of the child becomes an update of the tool: pi has no nested streams. */
  const subagent = (name: string) => ({
    ...{ name, label: name, description: name },
    parameters: ai.Type.Object({ task: ai.Type.String() }),
    async execute(_: string, __: object, ___: unknown, onUpdate?: (update: object) => void) {
      const child = agentOf(false, []);
      child.subscribe((event) =>
        onUpdate?.({ content: [], details: { child: name, event: frameOf(event) } }),
      );
      await child.prompt("go");
      return { content: [{ type: "text", text: "done" }], details: {} };
    },
  });

  const server = createServer(async (request, response) => {
    for await (const _ of request);
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
    response.flushHeaders();
    const agent = agentOf(isNested, isNested ? children.map(subagent) : []);
    agent.subscribe((event) => {
      response.write(`data: ${JSON.stringify(frameOf(event))}\n\n`);
    });
    await agent.prompt("go");
    response.end("data: [DONE]\n\n");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", 8_192, resolve));
  const { port } = server.address() as AddressInfo;
  const frames = { mark: '"text_delta"', field: '"delta":"', stream: '"child":"' };
  return { port, path: "/", headers: {}, body: {}, ...frames };
};
