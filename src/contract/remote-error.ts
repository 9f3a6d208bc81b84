import { type ErrorPlace, RivuletError } from "../base/error.ts";
import type { LogEvent } from "../protocol/index.ts";

/** The server claims something that it has no right to. */
export function forged(problem: string): RivuletError {
  return new RivuletError("remote_invalid", `The server may not do this: ${problem}.`, {
    hint: "Check that the address is that of a server that you trust.",
  });
}

/** The server sent an event that breaks the protocol. */
export function invalidEvent({ type, task_seq }: LogEvent, problem: string): RivuletError {
  const place = `${String(type).slice(0, 64)} ${String(task_seq).slice(0, 20)}`;
  return new RivuletError(
    "remote_invalid",
    `The server sent an invalid event (${place}): ${problem}.`,
    {
      hint: "Check the version of the other server, and the proxies before it.",
    },
  );
}

/** The server does not answer in time. */
export function silent(url: string, ms: number): RivuletError {
  const message = `${url} has not answered for ${ms} ms.`;
  return new RivuletError("unreachable", message, { retryable: true });
}

/** The server was out of reach for too long. */
export function serverLost(url: string, waitedMs: number, cause: RivuletError): RivuletError {
  const message = `${url} has been out of reach for ${waitedMs} ms: ${cause.message}`;
  return new RivuletError("remote_lost", message, {
    hint: "Check the other server, or raise `limits.lostAfterMs` of the subagent.",
    cause,
  });
}

/** The server has no more events, although a task goes on. */
export function endedEarly(taskId: string): RivuletError {
  const message = `The server has no more events, but task ${taskId} has not ended.`;
  return new RivuletError("remote_invalid", message, {
    hint: "Check that the address is that of a Rivulet server.",
  });
}

/** The server has deleted events that were not read. */
export function logExpired(): RivuletError {
  return new RivuletError("remote_log_expired", "The server no longer has all events.", {
    hint: "Keep the logs of the other server longer than its callers may be away.",
  });
}

/** The server sent more than a child may cost. */
export function tooManyBytes(maxBytes: number): RivuletError {
  return new RivuletError("remote_too_large", `The server sent more than ${maxBytes} bytes.`, {
    hint: "Raise `limits.maxBytes` of the subagent, or let it do less at a time.",
  });
}

/** The server sent too many events that bring nothing new. */
export function tooManyIgnored(maxBytes: number): RivuletError {
  const message = `The server sent more than ${maxBytes} bytes of events that bring nothing new.`;
  return new RivuletError("remote_too_large", message, {
    hint: "Check the version of the other server, and the proxies before it.",
  });
}

/** The place of an error is one in this tree. */
export function errorPlaced(event: LogEvent, where: ErrorPlace): LogEvent {
  if (!("task" in event) || event.task.error === undefined) return event;
  return { ...event, task: { ...event.task, error: { ...event.task.error, where } } } as LogEvent;
}
