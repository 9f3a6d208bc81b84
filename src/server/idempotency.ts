import { createHash } from "node:crypto";
import { RivuletError } from "../base/error.ts";
import { isObject } from "../base/plain.ts";
import type { TaskRecord } from "../contract/index.ts";
import type { StartBody } from "./tasks.ts";

/** The id of the task of a key. The same key of the same user always names the same task, so nothing is remembered. */
export function taskIdOf(
  { agent, idempotency_key: given }: StartBody,
  userId = "",
): string | undefined {
  if (given === undefined) return undefined;
  const text = JSON.stringify([userId, agent, given]);
  return `task_${createHash("sha256").update(text).digest("base64url").slice(0, 40)}`;
}

/** A hash of what a request starts, however its JSON is written. */
export function hashOf(body: StartBody): string {
  const { stream: _, cancel_on_disconnect: __, via: ___, ...started } = body;
  const sorted = (value: unknown) =>
    isObject(value) ? Object.fromEntries(Object.entries(value).sort(byName)) : value;
  const text = JSON.stringify(started, (_name, value: unknown) => sorted(value));
  return createHash("sha256").update(text).digest("base64url");
}

function byName([one]: readonly [string, unknown], [other]: readonly [string, unknown]): number {
  return one < other ? -1 : 1;
}

/** Throws if the task was started with the same key and another body. */
export function checkBody({ taskId, origin }: TaskRecord, body: StartBody): void {
  const { idempotency_key: given } = body;
  const { bodyHash } = origin ?? {};
  if (given === undefined || bodyHash === undefined || bodyHash === hashOf(body)) return;
  throw new RivuletError("conflict", `Task ${taskId} was started with this key and another body.`, {
    hint: "Send the same body, or choose another `idempotency_key`.",
  });
}
