import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  type McpServer,
  ProtocolError,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type { TaskRecord } from "../../contract/index.ts";
import { rootTask } from "../../protocol/index.ts";
import { publicError } from "../../server/index.ts";
import { contentOf } from "./content.ts";
import type { McpCall, Rested } from "./runs.ts";

/** The key of `_meta` under which a result names its task and session. */
const taskMeta = "io.rivulet/task";

/** The result of a task that has ended. */
export function finalResult(
  call: McpCall,
  { taskId: id, sessionId, status }: TaskRecord,
  reply: Pick<NonNullable<Rested["reply"]>, "content" | "structured"> | undefined,
): CallToolResult {
  const content = contentOf(reply?.content ?? [], call.addressOf);
  const note = status === "completed" ? [] : [{ type: "text" as const, text: `status: ${status}` }];
  const structured = reply?.structured;
  return {
    content: [...note, ...content],
    ...(typeof structured === "object" && structured !== null
      ? { structuredContent: structured as Record<string, unknown> }
      : {}),
    ...(status === "cancelled" && { isError: true }),
    _meta: { [taskMeta]: { task_id: id, session_id: sessionId } },
  };
}

/** The result of a task that has failed: why, as its log tells every reader. */
export async function failedResult(
  { services }: McpCall,
  { taskId }: Pick<TaskRecord, "taskId">,
): Promise<CallToolResult> {
  const { tree } = await services.trees.read(taskId);
  const { message, hint } = rootTask(tree)?.error ?? { message: "The task has failed." };
  const text = hint === undefined ? message : `${message} ${hint}`;
  return { content: [{ type: "text", text }], isError: true };
}

/** The result of the one call of a task, as the tool gave it. */
export async function toolResult(
  call: McpCall,
  { taskId, sessionId }: TaskRecord,
): Promise<CallToolResult> {
  const messages = await call.services.store.session(sessionId);
  const results = messages
    .filter(({ metadata }) => metadata?.taskId === taskId)
    .flatMap(({ content }) => content)
    .filter((block) => block.type === "tool_result");
  const { output = [], state = "error" } = results.at(-1) ?? {};
  return {
    content: contentOf(output, call.addressOf),
    ...(state !== "success" && { isError: true }),
    _meta: { [taskMeta]: { task_id: taskId, session_id: sessionId } },
  };
}

/** An error as the model of the client reads it. */
export function errorResult(thrown: unknown): CallToolResult {
  if (thrown instanceof ProtocolError) throw thrown;
  const { code, message: words, hint } = publicError(thrown);
  const full = hint === undefined ? words : `${words} ${hint}`;
  return {
    content: [{ type: "text", text: full }],
    isError: true,
    _meta: { "io.rivulet/error": code },
  };
}

/** What the client of a request can do. */
export function capabilitiesOf(
  { server }: McpServer,
  { mcpReq }: ServerContext,
): ClientCapabilities | undefined {
  const envelope = mcpReq.envelope as Readonly<Record<string, unknown>> | undefined;
  const declared = envelope?.[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined;
  return declared ?? server.getClientCapabilities();
}
