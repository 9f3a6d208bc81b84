import type { ChatTransport, UIMessage, UIMessageChunk } from "ai";
import { RivuletError } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import { readOptions } from "../../base/options.ts";
import {
  type ConnectOptions,
  connect,
  type RemoteRun,
  type RemoteServer,
} from "../../client/index.ts";
import type { Input, TaskRef } from "../../contract/index.ts";
import { isTerminal, type TaskEvent } from "../../protocol/index.ts";
import { publicAddress } from "../foreign-media.ts";
import { UiChunks } from "./link-chunks.ts";
import { answersIn, inputOf, readMessages, type UiMessage } from "./link-messages.ts";

/** Options of `rivuletChatTransport`. */
export interface ChatTransportOptions extends ConnectOptions {
  /** The address of the server. */
  readonly url: string;
  /** The name of the agent. */
  readonly agent: string;
  /** The model, by its name in the agent's `models`. */
  readonly model?: string;
}

/** A transport of `useChat` over the protocol of Rivulet. */
export interface RivuletChatTransport extends ChatTransport<UIMessage> {
  /** Cancels the answer of a chat that is being written, with its subagents; `stop()` of the chat only stops reading. */
  stop(chatId: string): Promise<void>;
}

/**
 * Connects `useChat` to an agent of a Rivulet server, which needs no adapter for it. A broken connection continues at the
 * next event, and the events of nested agents arrive as `data-task-event` parts.
 */
export function rivuletChatTransport(options: ChatTransportOptions): RivuletChatTransport {
  const { url, agent: name, model, ...rest } = options;
  readOptions("rivuletChatTransport()", { url, agent: name, model }, fields);
  const server = connect(url, rest);
  const agent = server.agent(name);
  const base = url.replace(/\/+$/, "");
  const chosen = model === undefined ? {} : { model };

  async function begin(sessionId: string, messages: readonly UiMessage[]): Promise<RemoteRun> {
    const input = inputOf(messages) as unknown as Input;
    const run = agent.run(input, { ...chosen, sessionId });
    await run.task;
    return run;
  }

  async function regenerate(chat: RemoteChat, messages: readonly UiMessage[]): Promise<RemoteRun> {
    const end = messages.findLastIndex(({ role }) => role === "user") + 1;
    const before = messages.slice(0, end).findLast(({ role }) => role === "assistant");
    const { next } = chat;
    if (before === undefined) return begin(next, messages.slice(0, end));
    const { sessionId } = await server.task(before.id).task;
    await server.sessions.fork(sessionId, { taskId: before.id, as: next });
    return begin(next, messages.slice(end - 1, end));
  }

  async function answer(sessionId: string, message: UiMessage): Promise<RemoteRun> {
    const answers = answersIn(message, await agent.approvals({ sessionId }));
    if (answers.length === 0)
      throw new RivuletError("invalid_input", "The chat does not wait for this answer.", {
        hint: "Send a message of the user, or answer an approval that is open.",
      });
    const run = agent.run(answers, { sessionId });
    await run.task;
    return run;
  }

  const stream = async (run: RemoteRun, signal: AbortSignal | undefined) => {
    const before = await run.before();
    return chunksOf(await run.task, base, before, run, signal);
  };

  return {
    resumeStreamIsReplay: true,
    async sendMessages({ chatId, messages: given, trigger, abortSignal }) {
      const messages = readMessages(given as unknown as readonly Record<string, unknown>[]);
      const chat = await findChat(server, chatId);
      const last = messages.at(-1);
      if (trigger === "regenerate-message")
        return stream(await regenerate(chat, messages), abortSignal);
      if (last?.role === "assistant")
        return stream(await answer(chat.sessionId, last), abortSignal);
      if (chat.isAtWork && last) {
        const run = server.task(chat.taskId ?? "");
        const [message] = inputOf([last]);
        if (message) await run.steer({ ...message, id: last.id });
        return silent(run, abortSignal);
      }
      const isNew = chat.taskId === undefined;
      return stream(
        await begin(chat.sessionId, isNew ? messages : messages.slice(-1)),
        abortSignal,
      );
    },
    async reconnectToStream({ chatId, abortSignal }) {
      const { taskId, isAtWork } = await findChat(server, chatId);
      if (taskId === undefined || !isAtWork) return null;
      return stream(server.task(taskId), abortSignal);
    },
    async stop(chatId) {
      const { taskId, isOver } = await findChat(server, chatId);
      if (taskId !== undefined && !isOver) await server.task(taskId).cancel("stopped");
    },
  };
}

const fields = {
  url: is.required(is.name, '"http://localhost:8080"'),
  agent: is.required(is.name, '"assistant"'),
  model: is.name,
};

/** The session that holds a chat. */
interface RemoteChat {
  readonly sessionId: string;
  /** The session of the next branch. */
  readonly next: string;
  /** The last root task; undefined before the first. */
  readonly taskId?: string;
  readonly isAtWork: boolean;
  readonly isOver: boolean;
}

/** Finds the session of a chat: the newest of its branches. */
async function findChat({ sessions }: RemoteServer, chatId: string): Promise<RemoteChat> {
  let found: RemoteChat | undefined;
  for (let branch = 0; ; branch++) {
    const sessionId = branch === 0 ? chatId : `${chatId}.${branch}`;
    const tasks = await sessions.tasks(sessionId).catch((error: unknown) => {
      if (error instanceof RivuletError && error.code === "not_found") return undefined;
      throw error;
    });
    const next = `${chatId}.${branch + 1}`;
    if (tasks === undefined) return found ?? { sessionId, next, isAtWork: false, isOver: true };
    const last = tasks.findLast((task) => task.sessionId === tasks.at(-1)?.sessionId);
    const { taskId, status = "completed" } = last ?? {};
    const isOver = isTerminal(status);
    const isAtWork = !isOver && status !== "suspended";
    found = { sessionId, next, isAtWork, isOver, ...(taskId !== undefined && { taskId }) };
  }
}

/** The chunks for the events of a run; those before it only tell where the message stands. */
function chunksOf(
  ref: TaskRef,
  base: string,
  before: readonly TaskEvent[],
  run: RemoteRun,
  signal: AbortSignal | undefined,
): ReadableStream<UIMessageChunk> {
  const chunks = new UiChunks(ref, (url) => publicAddress(base, url));
  for (const event of before) chunks.translate(event);
  return readable(run, signal, {
    first: chunks.start,
    translate: (event) => chunks.translate(event),
  });
}

/** Ends when a run rests, and shows nothing of it. */
function silent(run: RemoteRun, signal: AbortSignal | undefined): ReadableStream<UIMessageChunk> {
  return readable(run, signal, { last: { type: "finish" }, translate: () => [] });
}

interface Translation {
  readonly first?: UIMessageChunk;
  readonly last?: UIMessageChunk;
  readonly translate: (event: TaskEvent) => readonly UIMessageChunk[];
}

function readable(
  run: RemoteRun,
  signal: AbortSignal | undefined,
  { first, last, translate }: Translation,
): ReadableStream<UIMessageChunk> {
  const events = run[Symbol.asyncIterator]();
  const leave = () => void events.return?.();
  return new ReadableStream<UIMessageChunk>({
    start(controller) {
      if (first) controller.enqueue(first);
      signal?.addEventListener("abort", leave, { once: true });
    },
    async pull(controller) {
      for (;;) {
        // A run that failed has said so with its last event.
        const next = await events.next().catch(() => ({ done: true, value: undefined }) as const);
        if (next.done) {
          if (last) controller.enqueue(last);
          signal?.removeEventListener("abort", leave);
          controller.close();
          return;
        }
        const chunks = translate(next.value);
        for (const chunk of chunks) controller.enqueue(chunk);
        if (chunks.length > 0) return;
      }
    },
    cancel: leave,
  });
}
