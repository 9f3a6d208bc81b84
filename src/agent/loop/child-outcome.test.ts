import { expect, it } from "vitest";
import type { ChildOutcome } from "../tool/context.ts";
import { childReport } from "./child-outcome.ts";

const child: ChildOutcome = {
  status: "completed",
  mode: "sync",
  taskId: "call_1",
  sessionId: "sub-1",
  agentKey: "agent:a:1",
  agentId: "a",
  cited: [],
};
const who = "agent_key: agent:a:1\nagent_id: a\nsession_id: sub-1";

it("says who it is and how it stands, and what it said, without its thoughts and calls", () => {
  const reply = {
    id: "m",
    role: "assistant",
    text: "Done.",
    content: [
      { type: "thinking", text: "hm" },
      { type: "text", text: "Done." },
      { type: "tool_use", id: "c", name: "x", input: {} },
    ],
  } as const;
  expect(childReport({ ...child, reply, label: "one" })).toEqual({
    header: `${who}\nstatus: ok\nlabel: one\nreply:\n`,
    said: [{ type: "text", text: "Done." }],
  });
});

it("names the task of one that goes on, and the error of one that failed", () => {
  expect(childReport({ ...child, status: "in_progress" }).header).toBe(
    `${who}\nstatus: accepted\ntask_id: call_1`,
  );
  expect(childReport({ ...child, status: "in_progress" }, "timeout_promoted").header).toBe(
    `${who}\nstatus: timeout_promoted\ntask_id: call_1`,
  );
  const error = { code: "x", message: "It broke.", retryable: false };
  expect(childReport({ ...child, status: "failed", error }).header).toBe(
    `${who}\nstatus: error\nerror: It broke.`,
  );
});
