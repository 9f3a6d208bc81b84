// The compiler checks these: `type` and `last` tell the fields of an agent event apart.
import { expectTypeOf, it } from "vitest";
import { z } from "zod";
import type { ErrorShape } from "../../src/base/error.ts";
import type { ToolResultState } from "../../src/contract/message.ts";
import {
  type AgentEvent,
  type Approval,
  isCallOf,
  type ReActAgent,
  type Reply,
  type Tool,
  type ToolCall,
  tool,
} from "../../src/index.ts";
import type { SourceRef } from "../../src/protocol/source.ts";
import type { GenerateReason, Progress, TaskMode } from "../../src/protocol/task.ts";
import type { Source } from "../../src/protocol.ts";

it("narrows agent events", () => {
  const check = (event: AgentEvent) => {
    expectTypeOf(event.text).toEqualTypeOf<string>();
    expectTypeOf(event.message.id).toEqualTypeOf<string>();
    expectTypeOf(event.source).toEqualTypeOf<Source | undefined>();
    switch (event.type) {
      case "reasoning":
      case "summary":
        expectTypeOf(event.thinking).toEqualTypeOf<string>();
        break;
      case "tool_call":
        expectTypeOf([event.name, event.callId]).toEqualTypeOf<string[]>();
        if (event.last) expectTypeOf(event.input).toEqualTypeOf<unknown>();
        else expectTypeOf(event.input).toEqualTypeOf<undefined>();
        break;
      case "tool_result":
        expectTypeOf([event.name, event.callId]).toEqualTypeOf<string[]>();
        if (event.last) expectTypeOf(event.state).toEqualTypeOf<ToolResultState>();
        else expectTypeOf(event.state).toEqualTypeOf<"running">();
        break;
      case "progress":
        expectTypeOf(event.progress).toEqualTypeOf<Progress>();
        break;
      case "child":
        expectTypeOf(event.phase).toEqualTypeOf<"started" | "promoted">();
        expectTypeOf(event.mode).toEqualTypeOf<TaskMode>();
        break;
      case "retry":
        expectTypeOf(event.attempt).toEqualTypeOf<number>();
        break;
      case "hint":
        break;
      case "approval":
        expectTypeOf(event.approval.id).toEqualTypeOf<string>();
        break;
      case "agent_result":
        if (event.status === "failed") expectTypeOf(event.error).toEqualTypeOf<ErrorShape>();
        else expectTypeOf(event.error).toEqualTypeOf<undefined>();
        break;
      default:
        expectTypeOf(event).toEqualTypeOf<never>();
    }
  };
  expectTypeOf(check).toBeFunction();
});

it("types the input of a tool's calls", () => {
  const book = tool({
    name: "book",
    description: "Books.",
    input: z.object({ people: z.number(), at: z.string().default("noon") }),
  });
  expectTypeOf(book).toEqualTypeOf<Tool<{ people: number; at?: string | undefined }>>();
  expectTypeOf(book).toExtend<Tool>();
  const check = (event: AgentEvent, call: ToolCall, approval: Approval) => {
    if (isCallOf(book, event)) {
      expectTypeOf(event.type).toEqualTypeOf<"tool_call">();
      expectTypeOf(event.input.people).toEqualTypeOf<number>();
      expectTypeOf(event.input.at).toEqualTypeOf<string | undefined>();
    }
    if (isCallOf(book, call)) expectTypeOf(call.input.people).toEqualTypeOf<number>();
    const { call: asked } = approval;
    if (isCallOf(book, asked)) expectTypeOf(asked.input.people).toEqualTypeOf<number>();
  };
  expectTypeOf(check).toBeFunction();
});

it("types `structured` by `generateReason`", () => {
  const check = (reply: Reply<{ n: number }>) => {
    expectTypeOf(reply.structured).toEqualTypeOf<{ n: number } | undefined>();
    if (reply.generateReason === "structured_output")
      expectTypeOf(reply.structured).toEqualTypeOf<{ n: number }>();
    else expectTypeOf(reply.structured).toEqualTypeOf<undefined>();
    expectTypeOf(reply.generateReason).toExtend<GenerateReason>();
  };
  expectTypeOf(check).toBeFunction();
  type Call = ReActAgent["call"];
  type Schema = z.ZodObject<{ n: z.ZodNumber }>;
  expectTypeOf<Awaited<ReturnType<Call>>>().toExtend<Reply<unknown>>();
  expectTypeOf<Schema>().not.toBeAny();
});

it("has a source on every event that a run yields", () => {
  const check = async (agent: ReActAgent) => {
    for await (const event of agent.run("Go.")) {
      expectTypeOf(event.source).toEqualTypeOf<SourceRef | undefined>();
    }
  };
  expectTypeOf(check).toBeFunction();
});
