import * as is from "../../base/options.ts";
import type { Route } from "../../server/index.ts";

const stream = { status: 200, type: "text/event-stream", description: "A UI message stream." };
const handler = () => import("./handler.ts");

/** The routes of the AI SDK's `DefaultChatTransport`. A chat is a session, and a UI message of the assistant is a task. */
export const aiSdkRoutes: readonly Route[] = [
  {
    method: "POST",
    path: "/api/chat",
    needs: "write",
    summary: "AI SDK: send a message, regenerate an answer, or answer approvals.",
    body: {
      id: is.required(is.name, '"chat-1"'),
      messages: is.required(is.listOf(is.record), "[…]"),
      trigger: is.oneOf("submit-message", "regenerate-message"),
      agent: is.name,
      model: is.name,
    },
    ignoresUnknown: true,
    returns: stream,
    isStream: true,
    handle: async (call) => (await handler()).sendMessages(call),
  },
  {
    method: "GET",
    path: "/api/chat/:id/stream",
    needs: "read",
    summary: "AI SDK: follow the answer that is being written; 204 if there is none.",
    ignoresUnknown: true,
    returns: stream,
    isStream: true,
    handle: async (call) => (await handler()).resumeStream(call),
  },
  {
    method: "POST",
    path: "/api/chat/:id/stop",
    needs: "write",
    summary: "AI SDK: cancel the answer that is being written, and its subagents.",
    body: {},
    ignoresUnknown: true,
    returns: { status: 200, description: "`{ stopped }`: whether there was one." },
    handle: async (call) => (await handler()).stop(call),
  },
];
