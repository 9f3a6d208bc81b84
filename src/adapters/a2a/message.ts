import { createHash } from "node:crypto";
import type { Message as A2aMessage, Part } from "@a2a-js/sdk";
import { RequestMalformedError } from "@a2a-js/sdk/errors";
import { isObject } from "../../base/plain.ts";
import {
  type Answer,
  type Approval,
  approvalIn,
  type Block,
  type MediaBlock,
} from "../../contract/index.ts";
import { subtreeOf, type Tree, waitingIn } from "../../protocol/index.ts";

/** The content of a message: data becomes JSON text. */
export function blocksOf({ parts }: A2aMessage): readonly Block[] {
  const blocks = parts.flatMap(blockOf);
  if (blocks.length === 0) throw new RequestMalformedError("message.parts has no content.");
  return blocks;
}

function blockOf({ content, mediaType, filename }: Part): readonly Block[] {
  switch (content?.$case) {
    case "text":
      return [{ type: "text", text: content.value }];
    case "data":
      return [{ type: "text", text: JSON.stringify(content.value) }];
    case "raw":
      return [
        {
          type: kindOf(mediaType),
          source: {
            data: Buffer.from(content.value).toString("base64"),
            mimeType: mediaType || "application/octet-stream",
          },
        },
      ];
    case "url": {
      const mimeType = mediaType || undefined;
      if (!/^https?:/.test(content.value))
        throw new RequestMalformedError(
          `The url of ${filename || "a part"} must be a web address.`,
        );
      return [
        { type: kindOf(mediaType), source: { url: content.value, ...(mimeType && { mimeType }) } },
      ];
    }
    default:
      return [];
  }
}

function kindOf(mediaType: string): MediaBlock["type"] {
  const [kind] = mediaType.split("/", 1);
  return kind === "image" || kind === "audio" || kind === "video" ? kind : "file";
}

/** The id of the task that a message starts: a message that is sent twice starts one task. */
export function taskIdFor(message: A2aMessage, agent: string, userId = ""): string {
  const { messageId, contextId, parts } = message;
  const text = JSON.stringify(["a2a", userId, agent, contextId, messageId, parts]);
  return `task_${createHash("sha256").update(text).digest("base64url").slice(0, 40)}`;
}

const yes = /^\s*(approve|approved|allow|yes|y|ok|okay)[\s.!]*$/i;
const no = /^\s*(deny|denied|reject|refuse|no|n)[\s.!]*$/i;

/**
 * The answers of a message to a task that waits. A data part answers one approval: `{ approval_id, decision, … }`, where
 * the id may be left out if one approval waits. A text answers all of them: `approve` and `deny` decide about calls, any
 * other text is the answer to a question or a call without a result, and denies a call with the text as the reason.
 */
export function answersIn(message: A2aMessage, tree: Tree, rootTaskId: string): readonly Answer[] {
  const waiting = subtreeOf(tree, rootTaskId).flatMap((task) =>
    waitingIn(task).map((state) => approvalIn(task, state, rootTaskId)),
  );
  const decisions = message.parts.flatMap(({ content }) =>
    content?.$case === "data" && isObject(content.value) ? [content.value] : [],
  );
  if (decisions.length > 0) return decisions.map((decision) => answerOf(decision, waiting));
  const text = message.parts
    .flatMap(({ content }) => (content?.$case === "text" ? [content.value] : []))
    .join("\n");
  if (text.trim() === "")
    throw new RequestMalformedError("The answer has neither a text nor a decision.");
  return waiting.map((approval) => {
    if (approval.kind === "question" || approval.kind === "external") return approval.answer(text);
    if (yes.test(text)) return approval.approve();
    return no.test(text) ? approval.deny() : approval.deny(text);
  });
}

/** Whether a message names approvals, none of which waits any more. */
export function isLateAnswer(message: A2aMessage): boolean {
  return message.parts.some(
    ({ content }) =>
      content?.$case === "data" &&
      isObject(content.value) &&
      typeof content.value.approval_id === "string" &&
      typeof content.value.decision === "string",
  );
}

function answerOf(given: Readonly<Record<string, unknown>>, waiting: readonly Approval[]): Answer {
  const { approval_id: id, decision, input, output, reason, always } = given;
  const only = waiting.length === 1 ? waiting[0] : undefined;
  const approval = id === undefined ? only : waiting.find((one) => one.id === id);
  if (approval === undefined) {
    const ids = waiting.map((one) => one.id).join(", ");
    throw new RequestMalformedError(`approval_id must be one of ${ids}.`);
  }
  switch (decision) {
    case "approve":
      return approval.approve(always === true ? { always } : {});
    case "deny":
      return approval.deny(typeof reason === "string" ? reason : undefined);
    case "edit":
      return approval.edit(input);
    case "answer":
      return approval.answer(typeof output === "string" ? output : JSON.stringify(output ?? ""));
    default:
      throw new RequestMalformedError(
        "decision must be one of approve, deny, edit (with input), answer (with output).",
      );
  }
}
