import { RivuletError } from "../../base/error.ts";
import { isObject } from "../../base/plain.ts";
import type { Answer, Approval, Block, Message } from "../../contract/index.ts";
import { mediaBlock } from "../foreign-media.ts";

/** A message of a page, as far as this server reads it. */
export interface UiMessage {
  readonly id: string;
  readonly role: "system" | "user" | "assistant";
  readonly parts: readonly Part[];
}
type Part = Readonly<Record<string, unknown>> & { readonly type: string };

const roles: ReadonlySet<unknown> = new Set(["system", "user", "assistant"]);

/** Reads the messages of a request; fields and parts that this server does not know are left out. */
export function readMessages(given: readonly Readonly<Record<string, unknown>>[]): UiMessage[] {
  return given.map(({ id, role, parts }, index) => {
    if (!roles.has(role))
      throw invalidMessage(
        `\`messages[${index}].role\` must be "system", "user" or "assistant".`,
        "Send the messages of `useChat`.",
      );
    if (!Array.isArray(parts))
      throw invalidMessage(
        `\`messages[${index}].parts\` must be an array.`,
        "Send UI messages, which have parts.",
      );
    const known = parts.filter((part) => isObject(part) && typeof part.type === "string");
    return {
      id: typeof id === "string" ? id : "",
      role: role as UiMessage["role"],
      parts: known as Part[],
    };
  });
}

function invalidMessage(message: string, hint: string): RivuletError {
  return new RivuletError("invalid_input", message, { hint });
}

/** The content of a message: its texts and files. */
function blocksOf({ parts }: UiMessage): readonly Block[] {
  return parts.flatMap((part): readonly Block[] => {
    const { type, text, url, mediaType } = part;
    if (type === "text" && typeof text === "string") return [{ type: "text", text }];
    if (type !== "file" || typeof url !== "string") return [];
    return [mediaBlock(url, typeof mediaType === "string" ? mediaType : "")];
  });
}

/** The messages as the input of a new session. */
export function inputOf(messages: readonly UiMessage[]): readonly Omit<Message, "id">[] {
  return messages.flatMap((message) => {
    const content = blocksOf(message);
    return content.length === 0 ? [] : [{ role: message.role, content }];
  });
}

/**
 * The answers that a page has put into the parts of the assistant's message: responses to approvals, decisions in the data
 * of approvals of subagents and questions, and outputs of its own tools.
 */
export function answersIn({ parts }: UiMessage, waiting: readonly Approval[]): readonly Answer[] {
  return parts.flatMap((part) => {
    const { state, approval, data, toolCallId, output, errorText } = part;
    const given = isObject(approval) ? approval : isObject(data) ? data : {};
    const asked = waiting.find(({ id }) => id === (given.id ?? given.approval_id));
    const answer = asked && answerOf(asked, given);
    if (answer) return [answer];
    const outside = waiting.find(({ kind, call }) => kind === "external" && call.id === toolCallId);
    if (outside === undefined) return [];
    if (state === "output-available") return [outside.answer(textOf(output))];
    if (state !== "output-error") return [];
    return [
      { ...outside.answer(textOf(errorText ?? "The call failed.")), state: "error" as const },
    ];
  });
}

/** The messages with a decision about an approval that a `data-approval` part shows: send them to answer it. */
export function withDecision<M extends { readonly parts: readonly unknown[] }>(
  messages: readonly M[],
  approvalId: string,
  decision: ApprovalDecision,
): M[] {
  const decided = (part: unknown): unknown =>
    isObject(part) && part.type === "data-approval" && part.id === approvalId
      ? { ...part, data: { ...(part.data as object), ...decision } }
      : part;
  return messages.map((message) => ({ ...message, parts: message.parts.map(decided) }));
}

/** A person's decision about an approval. */
export type ApprovalDecision =
  | { readonly decision: "approve" }
  | { readonly decision: "deny"; readonly reason?: string }
  | { readonly decision: "edit"; readonly input: unknown }
  | { readonly decision: "answer"; readonly output: string };

function answerOf(asked: Approval, given: Readonly<Record<string, unknown>>): Answer | undefined {
  const { approved, decision, reason, input, output } = given;
  if (approved === true || decision === "approve") return asked.approve();
  if (approved === false || decision === "deny")
    return asked.deny(typeof reason === "string" ? reason : undefined);
  if (decision === "edit") return asked.edit(input);
  return decision === "answer" ? asked.answer(textOf(output)) : undefined;
}

function textOf(output: unknown): string {
  return typeof output === "string" ? output : JSON.stringify(output ?? null);
}
