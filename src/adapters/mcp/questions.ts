import type { ElicitRequestFormParams, InputRequests } from "@modelcontextprotocol/server";
import { fromJsonSchema } from "@modelcontextprotocol/server";
import { isObject } from "../../base/plain.ts";
import type { Answer, Approval } from "../../contract/index.ts";
import { questionForm } from "../question-form.ts";

type Form = ElicitRequestFormParams["requestedSchema"];
type Fields = Readonly<Record<string, unknown>>;

/** The form of a question that names no schema of its own. */
const textForm: Form = {
  type: "object",
  properties: { answer: { type: "string", title: "Answer" } },
  required: ["answer"],
};
const decisionForm: Form = {
  type: "object",
  properties: {
    decision: { type: "string", title: "Decision", enum: ["approve", "deny"] },
    reason: { type: "string", title: "Reason", description: "What the agent is told." },
  },
  required: ["decision"],
};

/** The approvals of a task by the keys under which a client is asked: the name of the call that waits. */
export function keysOf(waiting: readonly Approval[]): ReadonlyMap<string, Approval> {
  const keys = new Map<string, Approval>();
  for (const approval of waiting) {
    const name = approval.call.name === "" ? approval.kind : approval.call.name;
    let key = name;
    for (let n = 2; keys.has(key); n++) key = `${name}_${n}`;
    keys.set(key, approval);
  }
  return keys;
}

/** The questions of a task, as the requests that a client shows to its user. */
export function inputRequestsOf(asked: ReadonlyMap<string, Approval>): InputRequests {
  return Object.fromEntries(
    [...asked].map(([key, approval]) => [
      key,
      {
        method: "elicitation/create" as const,
        params: { message: textOf(approval), requestedSchema: formOf(approval) },
      },
    ]),
  );
}

const maxShown = 4_000;

/** What a person is asked, with the agent that asks and the call that it wants to make. */
export function textOf({ kind, path, call, message = "" }: Approval): string {
  const asker = path === undefined ? "" : `${path.split("/").slice(1).join("/") || path}: `;
  const shown = call.name === "" ? "" : `${call.name}(${JSON.stringify(call.input)})`;
  if (isQuestion(kind)) {
    const { question } = isObject(call.input) ? call.input : { question: undefined };
    const asked = typeof question === "string" ? question : message;
    return `${asker}${asked === "" ? `${shown} waits for its result.` : asked}`.slice(0, maxShown);
  }
  const words = message === "" ? "Continue?" : message;
  return `${asker}${shown === "" ? words : `${words} ${shown}`}`.slice(0, maxShown);
}

function isQuestion(kind: Approval["kind"]): boolean {
  return kind === "question" || kind === "external";
}

function formOf(approval: Approval): Form {
  if (!isQuestion(approval.kind)) return decisionForm;
  return (questionForm(approval) as Form | undefined) ?? textForm;
}

/**
 * The answer to an approval in the response of a client; undefined if there is none: the person has closed the question,
 * or the content does not fit its form.
 */
async function answerOf(approval: Approval, response: unknown): Promise<Answer | undefined> {
  if (!isObject(response)) return undefined;
  const { action, content } = response;
  if (action === "decline") return approval.deny();
  if (action !== "accept" || !isObject(content)) return undefined;
  const form = formOf(approval);
  const { issues } = await fromJsonSchema(form as never)["~standard"].validate(content);
  if (issues) return undefined;
  if (form === decisionForm) return decisionOf(approval, content);
  return approval.answer(form === textForm ? String(content.answer) : JSON.stringify(content));
}

function decisionOf(approval: Approval, { decision, reason }: Fields): Answer {
  if (decision === "approve") return approval.approve();
  return approval.deny(typeof reason === "string" && reason !== "" ? reason : undefined);
}

/** The answers in the responses of a client, by key. */
export async function answersOf(
  asked: ReadonlyMap<string, Approval>,
  responses: Fields | undefined,
): Promise<readonly Answer[]> {
  const answers = [...asked].map(([key, approval]) =>
    responses !== undefined && Object.hasOwn(responses, key)
      ? answerOf(approval, responses[key])
      : undefined,
  );
  return (await Promise.all(answers)).filter((answer) => answer !== undefined);
}
