import { RivuletError } from "../base/error.ts";
import * as is from "../base/options.ts";
import { describe, type Field, type Fields } from "../base/options.ts";
import type {
  AgentEvent,
  AttachOptions,
  Budget,
  Origin,
  OutsideTool,
  RunOptions,
  StreamOptions,
  Via,
} from "./agent.ts";

const limits: Fields<Budget> = {
  tokens: is.amount,
  agents: is.count,
  cost: is.amount,
  wallMs: is.amount,
  iterations: is.amount,
};
/** The rule for a budget. */
export const budgetField: Field = is.options(limits);

/** The rule for the id of a session. */
export const sessionIdField: Field = {
  fits: (value) =>
    isSegment(value, "invalid_session_id", "A session id", "Omit it to start a new session."),
  expected: "a session id",
};
/** The rule for the id of a user; any id becomes the name of a directory in `namespaceDirectory`. */
export const userIdField: Field = {
  fits: (value) =>
    typeof value === "string" && /^[^\p{Cc}]{1,256}$/u.test(value) && value.isWellFormed(),
  expected: "1 to 256 characters without control characters",
  schema: { type: "string", minLength: 1, maxLength: 256 },
};
/** The rule for the id of an agent. */
export const agentIdField: Field = {
  fits: (value) =>
    isSegment(value, "invalid_agent_id", "`agentId`", 'Pass `agentId: "researcher"`.'),
  expected: "the id of an agent",
};
/** The rule for the label of a child. */
export const labelField: Field = {
  fits: (value) => typeof value === "string" && /^(?! )[^\p{Cc}]{1,64}(?<! )$/u.test(value),
  expected: "1 to 64 characters on one line, without spaces around them",
};
/** The rule for an agent, of this package or not. */
export const agentField: Field = {
  ...is.withFunctions("run"),
  expected: "an agent, such as a ReActAgent",
};

/** Throws if a value cannot be one segment of a path such as `session/agent/agent`. */
function isSegment(value: unknown, code: string, what: string, hint: string): boolean {
  if (typeof value === "string" && /^[^/]{1,128}$/s.test(value)) return true;
  const message = `${what} must have 1 to 128 characters and no slash, got ${describe(value)}.`;
  throw new RivuletError(code, message, { hint });
}

const taskId: Field = {
  fits: (value) => typeof value === "string" && /^[\w~-]{1,128}$/.test(value),
  expected: "1 to 128 letters, digits, `_`, `-` and `~`",
};
const metadata: Field = {
  fits: (value) => is.data.fits(value) && JSON.stringify(value).length <= 16_384,
  expected: "an object of plain data, with at most 16384 characters of JSON",
};
const until = is.oneOf("root", "tree");
const viaFields: Fields<Via> = {
  stores: is.required({
    fits: (value) =>
      Array.isArray(value) &&
      value.length <= 16 &&
      value.every((id) => typeof id === "string" && /^[\w-]{1,64}$/.test(id)),
    expected: "an array of at most 16 ids of stores",
    schema: { type: "array", items: { type: "string" }, maxItems: 16 },
  }),
  depth: is.required(is.integer(0, 1_000)),
};
/** The rule for the origin of a call from another server. */
export const originFields: Fields<Origin> = {
  traceparent: {
    fits: (value) =>
      typeof value === "string" && /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/.test(value),
    expected: "a W3C trace context, 00-<trace id>-<span id>-<flags>",
  },
  via: is.options(viaFields),
  bodyHash: is.name,
};

const outsideToolFields: Fields<OutsideTool> = {
  name: is.required(is.name, '"locate"'),
  description: is.text,
  parameters: is.data,
};
/** The rule for tools that the caller executes. */
export const outsideToolsField: Field = is.listOf(is.options(outsideToolFields));

/** The rules for the options of `call` and `run`, whatever agent takes them. */
export const callFields: Fields<Omit<RunOptions, "context">> = {
  sessionId: sessionIdField,
  taskId,
  userId: userIdField,
  signal: is.signal,
  output: is.anything,
  until,
  onBusy: is.oneOf("queue", "fail"),
  onSuspended: is.oneOf("fail", "deny"),
  hooks: { ...is.list, example: "[audit]" },
  budget: budgetField,
  model: is.name,
  priority: is.integer(-1, 1),
  outsideTools: outsideToolsField,
  origin: is.options(originFields),
  metadata,
  onWait: is.callback,
};

const eventTypes: Readonly<Record<AgentEvent["type"], true>> = {
  reasoning: true,
  tool_call: true,
  progress: true,
  tool_result: true,
  child: true,
  retry: true,
  hint: true,
  summary: true,
  approval: true,
  agent_result: true,
};

/** The rules for the options that `stream` adds to those of `run`. */
export const viewFields: Fields<Omit<StreamOptions, keyof RunOptions>> = {
  types: is.listOf(is.oneOf(...Object.keys(eventTypes))),
  incremental: is.flag,
  chunks: is.flag,
};

/** The rules for the target of `attach`. */
export const targetFields = { sessionId: is.name, taskId: is.name };
/** The rules for the query of `approvals`. */
export const approvalsFields = {
  sessionId: is.required(is.name, '"my-session"'),
  userId: userIdField,
};
/** The rules for the options of `attach`. */
export const attachFields: Fields<AttachOptions> = {
  userId: userIdField,
  after: is.integer(-1),
  until,
};
/** The rules for the options of `events`. */
export const eventsFields = { after: is.integer(-1), until };
