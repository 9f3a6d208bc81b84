import type { ElicitResult, InputRequiredResult } from "@modelcontextprotocol/client";
import type { Resumed, ToolContext } from "../agent/index.ts";
import { RivuletError } from "../base/error.ts";
import { isObject } from "../base/plain.ts";
import { textOf } from "../contract/index.ts";
import type { McpServer } from "./connect.ts";
import { inputOf, type Question, questionOf } from "./untrusted.ts";

/** Plain data with which a suspended call continues, stored with its question. */
export interface Waiting {
  /** The questions without an answer; a person gets the first. */
  readonly asked: readonly AskedQuestion[];
  /** The answers to the others, by key. */
  readonly responses: Readonly<Record<string, ElicitResult>>;
  /** The state that the server gets back with the answers; absent: the server asked while the call runs. */
  readonly requestState?: string;
  /** True: the call still runs and waits for the answer. */
  readonly isRunning?: boolean;
}
/** A question with the name under which the server expects its answer. */
export type AskedQuestion = Question & { readonly key: string };

/** The key of a question that a server asks while the call runs. */
export function keyOf({ message, form, url }: Question): string {
  return JSON.stringify([message, form, url]);
}

const maxState = 500_000;

/** The questions of a result that asks for input. */
export function waitingFor(
  server: McpServer,
  { inputRequests = {}, requestState }: InputRequiredResult,
): Waiting {
  if (requestState !== undefined && requestState.length > maxState)
    throw refused(server, "sent a request state that is too large");
  const asked = Object.entries(inputRequests).map(([key, { method, params }]) => {
    if (method !== "elicitation/create") throw refused(server, `asks for ${method}`);
    return { ...questionOf(server, params), key };
  });
  return { asked, responses: {}, ...(requestState !== undefined && { requestState }) };
}

/** Suspends a call with its first question; `problem` says why the last answer was not taken. */
export function suspendWith(
  server: McpServer,
  { suspend }: ToolContext,
  waiting: Waiting,
  problem?: string,
): never {
  const [question] = waiting.asked;
  const { message = "", url, form } = question ?? {};
  const link = url === undefined ? "" : ` Open ${url} and answer here when you are done.`;
  const again = problem === undefined ? "" : `${problem} `;
  return suspend(`${again}${server.name} asks: ${message}${link}`, {
    ...(form && { responseSchema: form }),
    resume: { ...waiting },
  });
}

/** A call with the answer that a person has given, or the reason why the answer does not fit. */
export function answered({ resume, answer }: Resumed): {
  readonly waiting: Waiting;
  readonly result?: ElicitResult;
  readonly problem?: string;
} {
  const waiting = resume as Waiting;
  const [question, ...asked] = waiting.asked;
  if (question === undefined) return { waiting };
  const result = resultOf(question, answer);
  if (typeof result === "string") return { waiting, problem: result };
  const responses = { ...waiting.responses, [question.key]: result };
  return { waiting: { ...waiting, asked, responses }, result };
}

/** The result for the server, or why the answer does not fit the form. */
function resultOf(
  { url, form }: Question,
  { decision, input, output = [] }: Resumed["answer"],
): ElicitResult | string {
  if (decision === "deny") return { action: "decline" };
  if (decision === "expire" || decision === "cancel") return { action: "cancel" };
  if (url !== undefined || form === undefined) return { action: "accept" };
  const fields = Object.entries(form.properties);
  const given = decision === "answer" ? readAnswer(form, textOf(output)) : (input ?? {});
  const defaults = fields.flatMap(([name, field]) =>
    "default" in field ? [[name, field.default] as const] : [],
  );
  const content = isObject(given) ? { ...Object.fromEntries(defaults), ...given } : given;
  const checked = inputOf(form)["~standard"].validate(content);
  const issues = "issues" in checked ? checked.issues : undefined;
  if (!issues)
    return { action: "accept", content: content as NonNullable<ElicitResult["content"]> };
  if (decision === "approve") return { action: "cancel" }; // a form that nobody has filled in
  const [issue] = issues;
  const place = issue?.path?.map(String).join(".") ?? "";
  return `The answer does not fit: ${[place, issue?.message].filter(Boolean).join(" ")}.`;
}

/** The content of an answer: a JSON object, or the value of the only field. */
function readAnswer(form: NonNullable<Question["form"]>, text: string): unknown {
  const parsed = parseJson(text);
  if (isObject(parsed)) return parsed;
  const names = Object.keys(form.properties);
  const [name = "", ...others] = form.required?.length === 1 ? form.required : names;
  if (others.length > 0) return text.trim() === "" ? {} : text;
  const type = form.properties[name]?.type;
  return { [name]: type === "string" ? text : (parsed ?? text) };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The error of a server that asks for something else than an answer of a person. */
export function refused({ name }: McpServer, problem: string): RivuletError {
  return new RivuletError("mcp_tool_error", `The MCP server ${name} ${problem}.`, {
    hint: "Only questions for people are supported.",
  });
}
