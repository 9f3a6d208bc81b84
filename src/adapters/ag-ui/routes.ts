import * as is from "../../base/options.ts";
import type { Route } from "../../server/index.ts";

/** The routes of AG-UI: `new HttpAgent({ url: "…/agui/assistant" })`. A thread is a session. */
export const agUiRoutes: readonly Route[] = [
  {
    method: "POST",
    path: "/agui/:agent",
    needs: "write",
    summary: "AG-UI: run an agent, resume an interrupted run, or join one that runs.",
    body: {
      threadId: is.required(is.name, '"thread-1"'),
      runId: is.required(is.name, '"run-1"'),
      messages: is.required(is.listOf(is.record), "[…]"),
      tools: is.listOf(is.record),
      resume: is.listOf(is.record),
    },
    ignoresUnknown: true,
    returns: { status: 200, type: "text/event-stream", description: "The events of the run." },
    isStream: true,
    handle: async (call) => (await import("./handler.ts")).runAgent(call),
  },
  {
    method: "POST",
    path: "/agui/:agent/stop",
    needs: "write",
    summary: "AG-UI: cancel the run of a thread, and its subagents.",
    body: { threadId: is.required(is.name, '"thread-1"') },
    ignoresUnknown: true,
    returns: { status: 200, description: "`{ stopped }`: whether there was one." },
    handle: async (call) => (await import("./handler.ts")).stopRun(call),
  },
];
