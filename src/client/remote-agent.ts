import { captureCaller, RivuletError } from "../base/error.ts";
import { createIds } from "../base/id.ts";
import * as is from "../base/options.ts";
import { type Field, type Fields, readArgument, readOptions } from "../base/options.ts";
import { isObject } from "../base/plain.ts";
import {
  type Agent,
  type AgentEvent,
  type Answer,
  type Approval,
  type AttachOptions,
  type AttachTarget,
  agentEventsOf,
  approvalOf,
  approvalsFields,
  attachFields,
  callFields,
  type Input,
  type OutputOf,
  type RemoteLink,
  type Reply,
  type RunOptions,
  remoteLink,
  type StandardSchema,
  type StreamOptions,
  targetFields,
  viewFields,
} from "../contract/index.ts";
import { NativeLink } from "./native-link.ts";
import { type Followed, RemoteRun, refOf, type StartedBody, type TaskBody } from "./remote-run.ts";
import { isNamed, type Server } from "./request.ts";
import { withoutSecrets } from "./safe-link.ts";

/** An option that has no meaning on a server. */
function local(reason: string): Field {
  return {
    fits() {
      throw new RivuletError("cannot_cross", reason, {
        hint: "Leave the option out, or run the agent in this process.",
      });
    },
    expected: "absent",
  };
}

const userId = local("`userId` comes from the token, so a remote call cannot pass it.");
const runFields: Fields<RunOptions> = {
  ...callFields,
  userId,
  origin: local("`origin` is for the server that runs the task."),
  context: local("`context` holds live values, which cannot cross to a server."),
  hooks: local("`hooks` are functions, which cannot cross to a server."),
};
const streamFields: Fields<StreamOptions> = { ...runFields, ...viewFields };

const ids = createIds();

/** An approval as the server lists it. */
export interface ApprovalBody {
  readonly approval_id: string;
  readonly kind: Approval["kind"];
  readonly task_id: string;
  readonly root_task_id: string;
  readonly path?: string;
  readonly call: Approval["call"];
  readonly message?: string;
  readonly response_schema?: Approval["responseSchema"];
  readonly expires_at?: number;
}

/** An agent on a server. */
export class RemoteAgent implements Agent {
  readonly name: string;
  /** A parent runs the agent as a child on its server. */
  readonly [remoteLink]: RemoteLink;
  readonly #server: Server;

  constructor(server: Server, name: string) {
    this.#server = server;
    this.name = readArgument("name", name, is.required(is.name, '"assistant"'));
    this[remoteLink] = withoutSecrets(new NativeLink(server, name), () => server.secrets);
  }

  /** Starts a task on the server, or continues the session's unfinished one. */
  run<S extends StandardSchema | undefined = undefined>(
    input?: Input,
    options: RunOptions<S> = {},
  ): RemoteRun<OutputOf<S>> {
    return this.#start(input, readOptions("run()", options, runFields));
  }

  /** Runs the same way and yields agent events. */
  stream<S extends StandardSchema | undefined = undefined>(
    input?: Input,
    options: StreamOptions<S> = {},
  ): AsyncIterable<AgentEvent> {
    const read = readOptions("stream()", options, streamFields);
    return agentEventsOf(this.#start(input, read), this, read);
  }

  /** Runs the same way and resolves to the reply. */
  async call<S extends StandardSchema | undefined = undefined>(
    input?: Input,
    options: RunOptions<S> = {},
  ): Promise<Reply<OutputOf<S>>> {
    return this.#start(input, readOptions("call()", options, runFields)).result();
  }

  /** Lists the approvals that wait in a session, at any depth. */
  async approvals(query: { sessionId: string; userId?: string }): Promise<readonly Approval[]> {
    const { sessionId } = readOptions("approvals()", query, { ...approvalsFields, userId });
    const path = `/v1/sessions/${encodeURIComponent(sessionId)}/approvals`;
    const { approvals } = await this.#server.json<{ approvals: ApprovalBody[] }>("GET", path);
    return approvals.map(approvalFrom);
  }

  /** Follows a task that exists and starts none. */
  attach(target: AttachTarget, options: AttachOptions = {}): RemoteRun<unknown> {
    const to = readOptions("attach()", target, targetFields as Fields<AttachTarget>);
    const { after = -1, until = "root" } = readOptions("attach()", options, {
      ...attachFields,
      userId,
    });
    const server = this.#server;
    return new RemoteRun({
      server,
      agentName: this.name,
      until,
      addCaller: captureCaller(),
      followed: find(server, to, after),
    });
  }

  #start<S extends StandardSchema | undefined>(
    input: Input,
    options: RunOptions<S>,
  ): RemoteRun<OutputOf<S>> {
    const { signal, output, onWait, until = "root" } = options;
    const followed = this.#post(input, options);
    return new RemoteRun<OutputOf<S>>({
      ...{ server: this.#server, agentName: this.name, until, followed },
      addCaller: captureCaller(),
      ...(output && { output }),
      ...(signal && { signal }),
      ...(onWait && { onWait }),
    });
  }

  async #post(input: Input, options: RunOptions<StandardSchema | undefined>): Promise<Followed> {
    const { sessionId, signal, output, onBusy, onSuspended, budget, model, metadata } = options;
    const { taskId = ids.next("task"), outsideTools, priority } = options;
    const { answers, messages } = split(input);
    const body = {
      agent: this.name,
      ...(messages !== undefined && { input: messages, task_id: taskId }),
      ...(metadata && { metadata }),
      ...(answers.length > 0 && { answers }),
      ...(sessionId !== undefined && { session_id: sessionId }),
      ...(onBusy && { on_busy: onBusy }),
      ...(onSuspended && { on_suspended: onSuspended }),
      ...(budget && { budget }),
      ...(model !== undefined && { model }),
      ...(priority !== undefined && { priority }),
      ...(outsideTools && { outside_tools: outsideTools }),
      ...(output && { output: jsonSchemaOf(output) }),
    };
    if (signal?.aborted) throw cancelledBefore(signal);
    const server = this.#server;
    // The task id makes a repeated start the same start; an answer has no such id.
    const send = "task_id" in body ? server.json.bind(server) : server.once.bind(server);
    const task = await send<StartedBody>("POST", "/v1/tasks", body);
    const isNew = "task_id" in body && isNamed(task.id, taskId);
    const after = isNew ? -1 : task.starting_after;
    return { ref: refOf(task), after, answered: after };
  }
}

/** Finds the task to attach to. */
export async function find(
  server: Server,
  { sessionId, taskId }: AttachTarget,
  after: number,
): Promise<Followed> {
  const id = taskId ?? (await newestTask(server, sessionId ?? ""));
  const task = await server.json<TaskBody>("GET", `/v1/tasks/${encodeURIComponent(id)}`);
  const { status, last_sequence_number: last } = task;
  const suspendedAt = status === "suspended" ? last : undefined;
  return { ref: refOf(task), after, answered: -1, suspendedAt };
}

async function newestTask(server: Server, sessionId: string): Promise<string> {
  const path = `/v1/sessions/${encodeURIComponent(sessionId)}?limit=1`;
  const { tasks } = await server.json<{ tasks: { id: string }[] }>("GET", path);
  const newest = tasks.at(-1);
  if (newest) return newest.id;
  throw new RivuletError("not_found", `Session ${sessionId} has no task.`, {
    hint: "Start a task with `run`.",
  });
}

/** The approval that a server shows. */
export function approvalFrom(body: ApprovalBody): Approval {
  const { approval_id: approvalId, kind, task_id: taskId, root_task_id: rootTaskId } = body;
  const { path, call, message, response_schema: responseSchema, expires_at } = body;
  return approvalOf(
    { taskId, rootTaskId, path: path ?? "", depth: path === undefined ? 0 : 1 },
    call,
    {
      type: "suspension",
      callId: call.id,
      kind: kind === "tool_call" ? "approval" : kind,
      approvalId,
      ...(message !== undefined && { reason: message }),
      ...(responseSchema && { responseSchema }),
      ...(expires_at !== undefined && { expiresAt: expires_at }),
    },
  );
}

/** The answers and the messages of an input, as plain data. */
function split(input: Input): { answers: readonly Answer[]; messages: unknown } {
  const isList = Array.isArray(input);
  const entries = (isList ? input : [input]).map((entry: unknown, index) =>
    readEntry(entry, isList ? `input[${index}]` : "input"),
  );
  const answers = entries.filter(isAnswer);
  const messages = entries.filter((entry) => !isAnswer(entry));
  if (isList) return { answers, messages: messages.length > 0 ? messages : undefined };
  return { answers, messages: messages[0] };
}

function isAnswer(entry: unknown): entry is Answer {
  return isObject(entry) && entry.type === "answer";
}

function readEntry(entry: unknown, place: string): unknown {
  const read = isObject(entry) && "role" in entry ? messageIn(entry) : entry;
  checkPlain(read, place, 100);
  return read;
}

/** A reply of another agent has more fields, which are no part of a message. */
function messageIn({ id, role, name, content, metadata }: Readonly<Record<string, unknown>>) {
  return { id, role, name, content, metadata };
}

/** Throws for a value that JSON would drop or change silently. */
function checkPlain(value: unknown, place: string, levels: number): void {
  if (typeof value === "function" || typeof value === "symbol" || typeof value === "bigint")
    throw notPlain(place, `a ${typeof value}`);
  if (typeof value !== "object" || value === null) return;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (!Array.isArray(value) && prototype !== Object.prototype && prototype !== null)
    throw notPlain(place, "an instance of a class");
  if (levels === 0) throw notPlain(place, "nested more than 100 levels deep");
  for (const [key, field] of Object.entries(value))
    checkPlain(field, `${place}.${key}`, levels - 1);
}

function notPlain(place: string, kind: string): RivuletError {
  return new RivuletError("invalid_input", `\`${place}\` must be plain JSON, got ${kind}.`, {
    hint: "Functions and live values cannot cross to a server. Pass plain data.",
  });
}

type Converter = { readonly input: (options: { readonly target: string }) => unknown };

/** The JSON Schema of an output schema, which the server uses. */
function jsonSchemaOf(schema: StandardSchema): unknown {
  const standard: { vendor?: string; jsonSchema?: Converter } = schema["~standard"] ?? {};
  try {
    if (standard.jsonSchema) return standard.jsonSchema.input({ target: "draft-2020-12" });
  } catch (cause) {
    throw notConvertible(standard.vendor, cause);
  }
  throw notConvertible(standard.vendor);
}

function notConvertible(vendor = "This library", cause?: unknown): RivuletError {
  const message = `${vendor} cannot convert the \`output\` schema to JSON Schema.`;
  return new RivuletError("schema_unsupported", message, {
    hint: "Use a schema library with Standard JSON Schema, such as zod 4.2 or later.",
    cause,
  });
}

function cancelledBefore({ reason }: AbortSignal): RivuletError {
  const message = "The call was cancelled before its task began.";
  return new RivuletError("cancelled", message, { cause: reason });
}
