import { jsonSchema, type ToolContext, ToolFailure, tool } from "../../agent/index.ts";
import { RivuletError } from "../../base/error.ts";
import type { SessionInfo, Store, Tool } from "../../contract/index.ts";
import { messageText } from "../context/message-text.ts";
import type { IsolationScope } from "../filesystem/path.ts";
import { readCursor } from "../memory/cursor.ts";
import { withoutContent } from "../memory/forget.ts";
import { frameFile, memoryTexts, oneLine } from "../prompts.ts";
import { sessionsOf } from "../session.ts";

const defaultResults = 10;
const maxResults = 50;
const maxFound = 200;
const maxTitle = 100;
const defaultMessages = 20;
const maxCharacters = 20_000;

/** Whose sessions the tools show: the user's own with this agent, or only the current one. */
export interface SessionToolsOptions {
  readonly store: Store;
  readonly agentId: string;
  readonly scope: IsolationScope;
}

/** Creates the tools that list, search and read earlier sessions of the same user. */
export function sessionTools({ store, agentId, scope }: SessionToolsOptions): readonly Tool[] {
  const sessionsFor = ({ userId }: ToolContext) =>
    sessionsOf(store, userId === undefined ? {} : { userId });
  const isShown = ({ sessionId, ...info }: SessionInfo, context: ToolContext) =>
    info.agentId === agentId && (scope !== "session" || sessionId === context.sessionId);
  const number = (description: string) => ({
    ...{ type: "integer", minimum: 1, maximum: maxResults, description },
  });

  async function find(sessionId: string, context: ToolContext): Promise<SessionInfo | undefined> {
    const userId = context.userId ?? null;
    const [info] = await store.sessions({ userId, sessionId, limit: 1 });
    return info && isShown(info, context) ? info : undefined;
  }

  async function hiddenIn(info: SessionInfo): Promise<ReadonlySet<number>> {
    return new Set((await readCursor(store, agentId, info)).cursor.hidden);
  }

  const search = tool({
    name: "session_search",
    description:
      "Searches the messages of your conversations with this user, including this one, word for word.",
    input: jsonSchema<{ query: string; limit?: number }>({
      type: "object",
      properties: {
        query: { type: "string", description: "Words that a message must all contain." },
        limit: number(`Defaults to ${defaultResults}.`),
      },
      required: ["query"],
      additionalProperties: false,
    }),
    idempotent: true,
    readOnly: true,
    async execute({ query, limit = defaultResults }, context) {
      const found = await sessionsFor(context).search(query, { limit: maxFound });
      const hidden = new Map<string, ReadonlySet<number> | undefined>();
      const lines: string[] = [];
      for (const { sessionId, index, role, excerpt } of found) {
        if (!hidden.has(sessionId)) {
          const info = await find(sessionId, context);
          hidden.set(sessionId, info && (await hiddenIn(info)));
        }
        const left = hidden.get(sessionId);
        if (left === undefined || left.has(index)) continue;
        const [message] = await store.session(sessionId, index, 1);
        if (!message || messageText(message) === undefined) continue; // a note of the harness
        lines.push(`${sessionId}, message ${index}, ${role}: ${excerpt}`);
        if (lines.length === limit) break;
      }
      if (lines.length === 0) return memoryTexts.noMessage;
      return frameFile("sessions", "search", lines.join("\n"));
    },
  });

  const list = tool({
    name: "session_list",
    description: "Lists your conversations with this user, the newest first.",
    input: jsonSchema<{ limit?: number; before?: string }>({
      type: "object",
      properties: {
        limit: number(`Defaults to ${defaultResults}.`),
        before: { type: "string", description: "The last session_id of the page before." },
      },
      additionalProperties: false,
    }),
    idempotent: true,
    readOnly: true,
    async execute({ limit = defaultResults, before }, context) {
      const page = { limit: maxFound, ...(before !== undefined && { before }) };
      const sessions = await sessionsFor(context).list(page);
      const shown = sessions.filter((info) => isShown(info, context)).slice(0, limit);
      if (shown.length === 0) return memoryTexts.noSession;
      const lines = shown.map(({ sessionId, title = "", messages, updatedAt }) => {
        const time = new Date(updatedAt).toISOString().slice(0, 16).replace("T", " ");
        return `${sessionId}: ${time} UTC, ${messages} messages, ${JSON.stringify(oneLine(title, maxTitle))}`;
      });
      return frameFile("sessions", "list", lines.join("\n"));
    },
  });

  const history = tool({
    name: "session_history",
    description: "Reads messages of one of your conversations with this user.",
    input: jsonSchema<{ session_id: string; from?: number; limit?: number }>({
      type: "object",
      properties: {
        session_id: { type: "string", description: "As session_list and session_search name it." },
        from: {
          ...{ type: "integer", minimum: 0 },
          description: "The number of the first message; defaults to the last messages.",
        },
        limit: number(`How many messages; defaults to ${defaultMessages}.`),
      },
      required: ["session_id"],
      additionalProperties: false,
    }),
    idempotent: true,
    readOnly: true,
    async execute({ session_id, from, limit = defaultMessages }, context) {
      const info = await find(session_id, context);
      if (!info) throw unknownSession(session_id);
      const hidden = await hiddenIn(info);
      const first = from ?? Math.max(0, info.messages - limit);
      const messages = await sessionsFor(context)
        .read(session_id, { from: first, limit })
        .catch((error: unknown) => {
          throw error instanceof RivuletError ? unknownSession(session_id) : error;
        });
      const lines: string[] = [];
      let room = maxCharacters;
      for (const [at, message] of messages.entries()) {
        const shown = hidden.has(first + at) ? withoutContent(message) : message;
        const text = messageText(shown);
        if (text === undefined) continue;
        const line = `message ${first + at}, ${text}`;
        if (line.length > room && lines.length > 0) break;
        room -= line.length;
        lines.push(line);
      }
      const path = `${session_id}, ${info.messages} messages`;
      return frameFile("session", path, lines.join("\n\n"));
    },
  });
  return [search, list, history];
}

function unknownSession(id: string): ToolFailure {
  return new ToolFailure("unknown_session", memoryTexts.unknownSession(oneLine(id, maxTitle)));
}
