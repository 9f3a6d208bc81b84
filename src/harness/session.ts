import { RivuletError } from "../protocol/error.ts";
import type { Message } from "../protocol/message.ts";
import type { SearchMatch, SessionInfo, Store } from "../protocol/store.ts";
import { exportSession } from "./session-export.ts";

/** The sessions of a store, as one user or the operator sees them. Another user's session is as good as none. */
export interface Sessions {
  /** Newest first, at most 50 unless `limit` says otherwise; `before` is the last id of the page before. */
  list(page?: {
    readonly limit?: number;
    readonly before?: string;
  }): Promise<readonly SessionInfo[]>;
  /** The messages from index `from` on; rejects with `session_not_found`. */
  read(
    sessionId: string,
    part?: { readonly from?: number; readonly limit?: number },
  ): Promise<readonly Message[]>;
  /** Messages that have all the words, the best first, at most 20 unless `limit` says otherwise. */
  search(text: string, page?: { readonly limit?: number }): Promise<readonly SearchMatch[]>;
  /** Forgets a session with all that its agents' children did. False when there is none; `conflict` while it is driven. */
  delete(sessionId: string): Promise<boolean>;
  /** Lines of JSON: a `SessionExportHeader`, then the messages; throws `session_not_found`. */
  export(sessionId: string): AsyncIterable<string>;
}

/** The sessions of a store: those of one user, or everybody's when no user is named. */
export function sessionsOf(store: Store, scope?: { readonly userId: string }): Sessions {
  if (scope !== undefined && typeof scope.userId !== "string") {
    throw new RivuletError("invalid_user", "The user whose sessions these are has no id.", {
      hint: "Leave the second argument out to see everybody's sessions.",
    });
  }
  const user = scope && { userId: scope.userId };

  async function find(sessionId: string): Promise<SessionInfo | undefined> {
    const [info] = await store.sessions({ ...user, sessionId, limit: 1 });
    return info;
  }

  return {
    list: ({ limit = 50, before } = {}) =>
      store.sessions({ ...user, limit, ...(before !== undefined && { before }) }),
    async read(sessionId, { from, limit } = {}) {
      if ((await find(sessionId)) === undefined) throw sessionNotFound(sessionId);
      return store.session(sessionId, from, limit);
    },
    search: (text, { limit = 20 } = {}) => store.search({ ...user, text, limit }),
    async delete(sessionId) {
      if ((await find(sessionId)) === undefined) return false;
      return store.deleteSession(sessionId);
    },
    async *export(sessionId) {
      const info = await find(sessionId);
      if (info === undefined) throw sessionNotFound(sessionId);
      yield* exportSession(store, info);
    },
  };
}

function sessionNotFound(sessionId: string): RivuletError<"session_not_found"> {
  return new RivuletError("session_not_found", `There is no session ${sessionId}.`, {
    hint: "list() gives the ids of all sessions.",
  });
}
