import {
  AbstractChat,
  type ChatState,
  type ChatStatus,
  type ChatTransport,
  DefaultChatTransport,
  type UIMessage,
  type UIMessageChunk,
  uiMessageChunkSchema,
} from "ai";
import { expect } from "vitest";
import { rivuletChatTransport } from "../../../src/chat-transport.ts";

/** The state of a chat without a page. */
class State implements ChatState<UIMessage> {
  status: ChatStatus = "ready";
  error: Error | undefined = undefined;
  messages: UIMessage[] = [];
  pushMessage = (message: UIMessage) => this.#set([...this.messages, message]);
  popMessage = () => this.#set(this.messages.slice(0, -1));
  replaceMessage = (index: number, message: UIMessage) =>
    this.#set(this.messages.with(index, message));
  snapshot = <T>(thing: T): T => structuredClone(thing);

  #set(messages: UIMessage[]): void {
    this.messages = messages;
  }
}

/** The chat of `useChat`, without React. */
export class Chat extends AbstractChat<UIMessage> {
  constructor(options: Omit<ConstructorParameters<typeof AbstractChat<UIMessage>>[0], "state">) {
    super({ ...options, state: new State() });
  }
}

/** The two ways from a chat to a server: the adapter of the server, and our own protocol. */
export const transports = {
  adapter: (url: string, token: string): ChatTransport<UIMessage> =>
    new DefaultChatTransport<UIMessage>({
      api: `${url}/api/chat`,
      headers: { authorization: `Bearer ${token}` },
    }),
  protocol: (url: string, token: string): ChatTransport<UIMessage> =>
    rivuletChatTransport({ url, token, agent: "lead" }),
};

/** A transport that checks every chunk against the schema of the AI SDK and keeps it. */
export function checkedTransport(inner: ChatTransport<UIMessage>) {
  const chunks: UIMessageChunk[] = [];
  const checked = async (stream: ReadableStream<UIMessageChunk> | null) => {
    const { validate } = uiMessageChunkSchema();
    const check = new TransformStream<UIMessageChunk, UIMessageChunk>({
      async transform(chunk, controller) {
        const result = await validate?.(chunk);
        expect(result?.success, JSON.stringify(chunk)).toBe(true);
        chunks.push(chunk);
        controller.enqueue(chunk);
      },
    });
    return stream === null ? null : stream.pipeThrough(check);
  };
  const transport: ChatTransport<UIMessage> = {
    resumeStreamIsReplay: true,
    sendMessages: async (options) =>
      (await checked(await inner.sendMessages(options))) as ReadableStream<UIMessageChunk>,
    reconnectToStream: async (options) => checked(await inner.reconnectToStream(options)),
  };
  return { transport, chunks };
}

/** The texts of a message. */
export function textIn(message: UIMessage | undefined): string {
  return (message?.parts ?? [])
    .flatMap((part) => (part.type === "text" ? [part.text] : []))
    .join("");
}
