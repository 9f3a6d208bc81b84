import type { EncodedCommit } from "./commit-encoding.ts";

/** The facts about a log that the owner of its conversation keeps. */
export interface KnownLog {
  readonly number: number;
  /** The number of the last event. */
  last: number;
  /** When this process first wrote it. */
  readonly since: number;
}

interface Owned {
  readonly fence: number;
  readonly logs: Map<string, KnownLog>;
}

/** The ends of the logs that this process writes, as long as it holds their leases: nobody else can move them. */
export class KnownLogs {
  readonly #owned = new Map<string, Owned>();
  readonly #all = new Map<string, KnownLog>();

  /** The number of the last event of a log that this process writes. */
  lastOf(log: string): number | undefined {
    return this.#all.get(log)?.last;
  }

  get({ lease, log }: Pick<EncodedCommit, "lease" | "log">): KnownLog | undefined {
    const owned = this.#owned.get(lease.sessionId);
    return owned?.fence === lease.fence ? owned.logs.get(log) : undefined;
  }

  /** Notes the end of a log. */
  set(
    { lease, log }: Pick<EncodedCommit, "lease" | "log">,
    end: Pick<KnownLog, "number" | "last">,
  ): void {
    const { sessionId, fence } = lease;
    let owned = this.#owned.get(sessionId);
    if (owned?.fence !== fence) {
      this.forget(sessionId);
      owned = { fence, logs: new Map() };
      this.#owned.set(sessionId, owned);
    }
    const known = { ...end, since: owned.logs.get(log)?.since ?? performance.now() };
    owned.logs.set(log, known);
    this.#all.set(log, known);
  }

  /** Forgets the logs of a conversation: its lease was released, or somebody else may have written. */
  forget(conversation: string): void {
    for (const log of this.#owned.get(conversation)?.logs.keys() ?? []) this.#all.delete(log);
    this.#owned.delete(conversation);
  }
}
