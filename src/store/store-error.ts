import { RivuletError } from "../protocol/error.ts";

/** The commit's lease is not the current one of its conversation. */
export function fenced(sessionId: string): RivuletError<"fenced"> {
  return new RivuletError("fenced", `The lease on conversation ${sessionId} no longer holds.`, {
    hint: "Another owner may have taken over: stop writing and acquire the conversation again.",
  });
}

/** What a write expected to find is not what the store holds. */
export function conflict(message: string): RivuletError<"conflict"> {
  return new RivuletError("conflict", message, { hint: "Reread, then decide again." });
}

/** A list was asked to go on from something that is not in it. */
export function invalidCursor(cursor: string): RivuletError<"invalid_cursor"> {
  return new RivuletError("invalid_cursor", `${cursor} is not in this list.`, {
    hint: "Pass the id of the last entry of the page before.",
  });
}

/** A log was asked for events that it has forgotten. */
export function cursorExpired(log: string, through: number): RivuletError<"cursor_expired"> {
  return new RivuletError(
    "cursor_expired",
    `The events of log ${log} up to ${through} are no longer kept.`,
    { hint: "Begin with the log's snapshot and read on after it." },
  );
}

/** The store was used after `close()`. */
export function storeClosed(): RivuletError<"store_closed"> {
  return new RivuletError("store_closed", "The store is closed.", {
    hint: "Close a store only after everything that uses it has ended.",
  });
}
