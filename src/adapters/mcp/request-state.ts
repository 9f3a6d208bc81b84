import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { RivuletError } from "../../base/error.ts";
import { isObject } from "../../base/plain.ts";
import { firstWritten, type Store } from "../../contract/index.ts";

/** What a client carries from an answer that asks for input to the call that brings the input. */
export interface RequestState {
  readonly tool: string;
  readonly taskId: string;
  /** The approval behind the key of each question. */
  readonly asked: Readonly<Record<string, string>>;
}

/** No filesystem on a store has a prefix that begins with `~`. */
const path = "~/mcp-key";
const keyBytes = 32;

/** The secret key of a store, the same for all processes that share it, so that a person may answer after a restart. */
export function stateKeyOf(store: Store): Promise<Uint8Array> {
  return firstWritten(store, path, () => new Uint8Array(randomBytes(keyBytes)));
}

/** Seals a state for its user: the client can read it, and cannot change a character of it. */
export function sealState(
  key: Uint8Array,
  userId: string | undefined,
  { tool, taskId, asked }: RequestState,
): string {
  const body = Buffer.from(JSON.stringify([tool, taskId, asked])).toString("base64url");
  return `${body}.${tagOf(key, userId, body)}`;
}

/** Opens a sealed state; throws if it is not, character by character, one that was sealed for this user. */
export function openState(
  key: Uint8Array,
  userId: string | undefined,
  sealed: string,
): RequestState {
  const dot = sealed.indexOf(".");
  const body = sealed.slice(0, Math.max(dot, 0));
  // The texts are compared, not the bytes they decode to: the last character of base64url has unused bits.
  const given = Buffer.from(sealed.slice(dot + 1));
  const wanted = Buffer.from(tagOf(key, userId, body));
  if (dot < 0 || given.length !== wanted.length || !timingSafeEqual(given, wanted)) throw invalid();
  const [tool, taskId, asked] = JSON.parse(Buffer.from(body, "base64url").toString()) as unknown[];
  if (typeof tool !== "string" || typeof taskId !== "string" || !isObject(asked)) throw invalid();
  return { tool, taskId, asked: asked as RequestState["asked"] };
}

function tagOf(key: Uint8Array, userId: string | undefined, body: string): string {
  const text = JSON.stringify([userId ?? null, body]);
  return createHmac("sha256", key).update(text).digest("base64url");
}

function invalid(): RivuletError {
  return new RivuletError(
    "invalid_request_state",
    "The `requestState` is not one of this server.",
    {
      hint: "Send back the `requestState` of the last answer, unchanged and as the same user.",
    },
  );
}
