import {
  type CallToolResult,
  type ClientCapabilities,
  fromJsonSchema,
  type InputRequiredResult,
  type McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { z } from "zod";
import { toolBehind } from "../../agent/index.ts";
import { RivuletError } from "../../base/error.ts";
import type { Agent, Answer, Approval, TaskRecord, Tool } from "../../contract/index.ts";
import { badRequest, unknownAgent } from "../../server/index.ts";
import { waitingBelow } from "../root-task.ts";
import { progressOf } from "./progress.ts";
import { answersOf, inputRequestsOf, keysOf, textOf } from "./questions.ts";
import { type RequestState, sealState, stateKeyOf } from "./request-state.ts";
import { capabilitiesOf, errorResult, failedResult, finalResult, toolResult } from "./results.ts";
import {
  answerTask,
  cancelTask,
  findRoot,
  type McpCall,
  type Rested,
  type Standing,
  standingOf,
  startTask,
  steerTask,
  untilRest,
} from "./runs.ts";
import { taskResultOf, wantsTask } from "./tasks.ts";

/** The key of `_meta` under which a client may send an idempotency key. */
const keyMeta = "io.rivulet/idempotency-key";

const text = z.string().min(1);
const key = z
  .string()
  .min(1)
  .max(256)
  .optional()
  .describe("A name for this call. A repeated call with the same name finds its task again.");
const session = z
  .string()
  .min(1)
  .max(100)
  .optional()
  .describe("A name for the conversation. Calls with the same name continue it.");
const taskId = z.string().min(1).max(200).describe("The id that agent_start returned.");
const message = text.describe("What the agent is asked, complete in itself.");
const answer = z.strictObject({
  approval_id: text.describe("The id in `waiting` of agent_get."),
  decision: z.enum(["approve", "deny"]).optional().describe("For a tool call that needs approval."),
  answer: z.string().optional().describe("For a question."),
  input: z.record(z.string(), z.unknown()).optional().describe("Approves with another input."),
  reason: z.string().optional().describe("Why it is denied; the agent reads it."),
});

/** The tools that change nothing; every other tool needs the scope `write`. */
export const readingTools: ReadonlySet<string> = new Set(["agent_get"]);
/** The names that an agent's own tool cannot have; such an agent is reached with agent_start. */
export const ownTools: ReadonlySet<string> = new Set([
  ...["agent_start", "agent_get", "agent_update", "agent_cancel"],
]);

type Result = CallToolResult | InputRequiredResult;

/** Adds the tools of a server: four for tasks, and one for each agent. */
export function addTools(mcp: McpServer, callOf: (ctx: ServerContext) => McpCall): void {
  const run =
    <Args>(work: (call: McpCall, args: Args, ctx: ServerContext) => Promise<Result>) =>
    (args: Args, ctx: ServerContext): Promise<Result> =>
      work(callOf(ctx), args, ctx).catch(errorResult);
  mcp.registerTool(
    "agent_start",
    {
      description: "Starts an agent on a task and returns at once, with the id of the task.",
      inputSchema: z.strictObject({ agent: text, message, session, idempotency_key: key }),
    },
    run(async (call, args, ctx) => {
      const agent = call.services.agents.get(args.agent);
      if (agent === undefined) throw unknownAgent(args.agent, call.services.agents);
      const given = { ...args, key: args.idempotency_key ?? keyIn(ctx) };
      return shown(await standingOf(call, await startTask(call, agent, given)));
    }),
  );
  mcp.registerTool(
    "agent_get",
    {
      description:
        "Reads where a task stands: its status, its text, what it waits for, and its subagents.",
      inputSchema: z.strictObject({ task_id: taskId }),
      annotations: { readOnlyHint: true },
    },
    run(async (call, { task_id }) => shown(await standingOf(call, await findRoot(call, task_id)))),
  );
  mcp.registerTool(
    "agent_update",
    {
      description: "Answers what a task waits for, or sends a message to a task that runs.",
      inputSchema: z.strictObject({
        task_id: taskId,
        answers: z.array(answer).min(1).optional(),
        message: text.optional().describe("A message for the agent while it works."),
      }),
    },
    run(async (call, { task_id, answers: given = [], message: words }) => {
      const record = await findRoot(call, task_id);
      const waiting = given.length > 0 ? await waitingBelow(call, record.taskId) : [];
      const answers = given.map((one) => decided(one, waiting));
      if (answers.length === 0 && words === undefined)
        throw badRequest("The update is empty.", "Send `answers` or a `message`.");
      await answerTask(call, record, answers);
      if (words !== undefined) await steerTask(call, record, words);
      return shown(await standingOf(call, record, answers));
    }),
  );
  mcp.registerTool(
    "agent_cancel",
    {
      description: "Cancels a task and its subagents.",
      inputSchema: z.strictObject({ task_id: taskId, reason: z.string().max(256).optional() }),
      annotations: { idempotentHint: true },
    },
    run(async (call, { task_id, reason = "cancelled" }) => {
      const record = await findRoot(call, task_id);
      await cancelTask(call, record, reason);
      return shown({ task_id: record.taskId, session_id: record.sessionId, status: "cancelling" });
    }),
  );
}

/** Adds a tool that runs an agent and returns its answer. */
export function addAgentTool(
  mcp: McpServer,
  agent: Agent,
  callOf: (ctx: ServerContext) => McpCall,
): void {
  const { name, description = `Asks the agent ${name}.` } = agent;
  const inputSchema = z.strictObject({ message, session, idempotency_key: key });
  mcp.registerTool(name, { description, inputSchema }, (args, ctx) => {
    const start = { ...args, key: args.idempotency_key ?? keyIn(ctx) };
    return callAgent(mcp, callOf(ctx), agent, start, ctx).catch(errorResult);
  });
}

/** Adds a tool that is served as an agent; the client sends its own input. */
export function addOwnTool(
  mcp: McpServer,
  agent: Agent,
  { description, inputSchema, readOnly }: Tool,
  callOf: (ctx: ServerContext) => McpCall,
): void {
  const annotations = readOnly ? { annotations: { readOnlyHint: true } } : {};
  const schema = fromJsonSchema(inputSchema as Parameters<typeof fromJsonSchema>[0]);
  const config = { description, inputSchema: schema, ...annotations };
  mcp.registerTool(agent.name, config, (args, ctx) => {
    const start = { message: JSON.stringify(args ?? {}), key: keyIn(ctx) };
    return callAgent(mcp, callOf(ctx), agent, start, ctx).catch(errorResult);
  });
}

/** Starts a task, or continues the one that the request carries answers for, and waits until it rests. */
async function callAgent(
  mcp: McpServer,
  call: McpCall,
  agent: Agent,
  start: Parameters<typeof startTask>[2],
  ctx: ServerContext,
): Promise<Result> {
  const state = ctx.mcpReq.requestState<RequestState>();
  const capabilities = capabilitiesOf(mcp, ctx);
  if (state === undefined) {
    const record = await startTask(call, agent, start);
    if (wantsTask(capabilities) && !toolBehind(agent)) return taskResultOf(record);
    return restedResult(call, await follow(call, agent, record, ctx), capabilities);
  }
  if (state.tool !== agent.name) throw wrongState();
  const record = await findRoot(call, state.taskId);
  const waiting = await waitingBelow(call, record.taskId);
  const asked = new Map(
    Object.entries(state.asked).flatMap(([name, id]): [string, Approval][] => {
      const approval = waiting.find((one) => one.id === id);
      return approval ? [[name, approval]] : []; // answered by an earlier call
    }),
  );
  const answers = await answersOf(asked, ctx.mcpReq.inputResponses);
  if (isClosed(asked, ctx.mcpReq.inputResponses)) return waitingResult(call, record);
  await answerTask(call, record, answers);
  return restedResult(call, await follow(call, agent, record, ctx), capabilities);
}

function follow(
  call: McpCall,
  agent: Agent,
  record: TaskRecord,
  ctx: ServerContext,
): Promise<Rested> {
  const isOwn = toolBehind(agent) !== undefined;
  return untilRest(call, record, progressOf(ctx, record.taskId, isOwn));
}

/** Whether the person has closed one of the questions: the task waits, and the client is not asked again. */
function isClosed(
  asked: ReadonlyMap<string, Approval>,
  responses: Readonly<Record<string, unknown>> = {},
): boolean {
  return [...asked.keys()].some((name) => {
    const response = Object.hasOwn(responses, name) ? responses[name] : undefined;
    return (response as { readonly action?: unknown } | undefined)?.action === "cancel";
  });
}

/** The result of a task that rests; what it waits for becomes questions if the client can show them. */
async function restedResult(
  call: McpCall,
  { record, reply, error }: Rested,
  capabilities: ClientCapabilities | undefined,
): Promise<Result> {
  const { taskId: id, agentName: tool, status } = record;
  if (status === "failed") return failedResult(call, record);
  if (error) return errorResult(error);
  if (status === "suspended") {
    if (!canElicit(capabilities)) return waitingResult(call, record);
    const asked = keysOf(await waitingBelow(call, id));
    if (asked.size === 0) return waitingResult(call, record);
    const ids = Object.fromEntries([...asked].map(([name, approval]) => [name, approval.id]));
    const secret = await stateKeyOf(call.services.store);
    const state: RequestState = { tool, taskId: id, asked: ids };
    return {
      resultType: "input_required",
      inputRequests: inputRequestsOf(asked),
      requestState: sealState(secret, call.caller.userId, state),
    };
  }
  const agent = call.services.agents.get(tool);
  if (agent && toolBehind(agent)) return toolResult(call, record);
  return finalResult(call, record, reply);
}

async function waitingResult(call: McpCall, record: TaskRecord): Promise<CallToolResult> {
  const standing = await standingOf(call, record);
  const asked = (await waitingBelow(call, record.taskId)).map(
    (approval) => `- ${approval.id}: ${textOf(approval)}`,
  );
  const advice = `Task ${record.taskId} waits. Answer with agent_update, then read it with agent_get.`;
  const words = [advice, ...asked].join("\n");
  return { content: [{ type: "text", text: words }], structuredContent: standing };
}

function shown(standing: Partial<Standing>): CallToolResult {
  const structuredContent = { ...standing };
  return { content: [{ type: "text", text: JSON.stringify(standing) }], structuredContent };
}

function decided(given: z.infer<typeof answer>, waiting: readonly Approval[]): Answer {
  const approval = waiting.find(({ id }) => id === given.approval_id);
  if (approval === undefined)
    throw new RivuletError(
      "unknown_approval",
      `The task does not wait for ${JSON.stringify(given.approval_id.slice(0, 128))}.`,
      { hint: "Read what it waits for with agent_get." },
    );
  if (given.decision === "deny") return approval.deny(given.reason);
  if (given.answer !== undefined) return approval.answer(given.answer);
  if (given.input !== undefined) return approval.edit(given.input);
  if (given.decision === "approve") return approval.approve();
  throw badRequest("An answer has no decision.", "Send `decision`, `answer` or `input`.");
}

function keyIn({ mcpReq }: ServerContext): string | undefined {
  const given = mcpReq._meta?.[keyMeta];
  return typeof given === "string" && given !== "" ? given.slice(0, 256) : undefined;
}

function canElicit(capabilities: ClientCapabilities | undefined): boolean {
  const { elicitation } = capabilities ?? {};
  return elicitation !== undefined && (elicitation.form !== undefined || !elicitation.url);
}

function wrongState(): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, "Invalid or expired requestState", {
    reason: "invalid_request_state",
  });
}
