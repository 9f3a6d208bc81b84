import { RivuletError } from "../base/error.ts";

/** The lease is no longer the newest one of its conversation. */
export function fenced(sessionId: string): RivuletError<"fenced"> {
  return new RivuletError("fenced", `The lease on conversation ${sessionId} no longer holds.`, {
    hint: "Another process took over. Stop writing, or acquire the conversation again.",
  });
}

/** The store differs from what a write expects. */
export function conflict(message: string): RivuletError<"conflict"> {
  return new RivuletError("conflict", message, { hint: "Read the current state and try again." });
}

/** The results for the entries before the first one that throws; throws itself when that is the first entry. */
export function upToError<Entry, Result>(
  entries: readonly Entry[],
  work: (entry: Entry) => Result,
): Result[] {
  const results: Result[] = [];
  try {
    for (const entry of entries) results.push(work(entry));
  } catch (error) {
    if (results.length === 0) throw error;
  }
  return results;
}

/** A list has no entry with the id of the cursor. */
export function invalidCursor(cursor: string): RivuletError<"invalid_cursor"> {
  return new RivuletError("invalid_cursor", `${cursor} is not in this list.`, {
    hint: "Pass the id of the last entry of the previous page.",
  });
}

/** The requested events of a log were trimmed. */
export function cursorExpired(log: string, through: number): RivuletError<"cursor_expired"> {
  return new RivuletError(
    "cursor_expired",
    `The events of log ${log} up to ${through} were trimmed.`,
    {
      hint: "Start with the snapshot of the log and read the events after it. The option `retention` of the store says how long ended logs keep their events.",
    },
  );
}

/** A call came after `close()`. */
export function storeClosed(): RivuletError<"store_closed"> {
  return new RivuletError("store_closed", "The store is closed.", {
    hint: "Close the store after the last call that uses it.",
  });
}
