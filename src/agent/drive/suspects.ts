import { after, type Clock, onAbort } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import type { Claim, Lease, Store, TaskRecord } from "../../contract/index.ts";
import { nextStep } from "../loop/next.ts";
import type { AgentSettings } from "../loop/settings.ts";
import { readTranscript } from "../loop/transcript.ts";

/** A conversation that lost this many owners without progress is a suspect: a process runs one of them at a time. */
const suspectLosses = 2;
/** After this many losses the tasks that ran are ended instead of run again. */
const poisonLosses = 5;
/** After this many losses not even that is tried. */
const maxLosses = 10;
/** How long a suspect keeps the other suspects of its process waiting. */
const turnMs = 30_000;

/** Whether a lease is on a conversation that may take its process down. */
export function isSuspect({ losses }: Lease): boolean {
  return losses >= suspectLosses;
}

/** Whether the running tasks of a conversation have to end. */
export function isPoisoned({ losses }: Lease): boolean {
  return losses >= poisonLosses;
}

/** The suspects that a process runs: one at a time, so that the others are not lost with it. */
export class SuspectQueue {
  #last: Promise<void> = Promise.resolve();
  #turns = 0;

  /** Whether no suspect runs or waits. */
  get isIdle(): boolean {
    return this.#turns === 0;
  }

  /** Resolves when it is the caller's turn, which lasts until the returned function is called, or 30 seconds. */
  async turn(clock: Clock, signal: AbortSignal): Promise<() => void> {
    const before = this.#last;
    const { promise, resolve: end } = Promise.withResolvers<void>();
    this.#last = promise;
    this.#turns += 1;
    void promise.then(() => {
      this.#turns -= 1;
    });
    const isStopped = new Promise<void>((resolve) => onAbort(signal, resolve));
    await Promise.race([before, isStopped]);
    if (signal.aborted) {
      end();
      throw signal.reason;
    }
    const cancelEnd = after(clock, turnMs, end);
    return () => {
      cancelEnd();
      end();
    };
  }
}

/** A lease, and a function to call when its conversation has made progress or has closed. */
export interface TakenLease {
  readonly lease: Lease;
  readonly endTurn?: () => void;
}

/** Acquires the lease of a conversation; a suspect's only when it is its turn. Undefined: another process has it. */
export async function takeLease(
  {
    store,
    id,
    suspects,
  }: { readonly store: Store; readonly id: string; readonly suspects: SuspectQueue },
  sessionId: string,
  { leaseMs, clock }: Pick<AgentSettings, "leaseMs" | "clock">,
  closing: AbortSignal,
): Promise<TakenLease | undefined> {
  const lease = await store.acquire(sessionId, id, leaseMs, suspectLosses - 1);
  if (lease) return { lease };
  if (await store.owner(sessionId)) return undefined;
  const endTurn = await suspects.turn(clock, closing);
  const suspect = await store.acquire(sessionId, id, leaseMs, maxLosses).catch((error: unknown) => {
    endTurn();
    throw error;
  });
  if (suspect && isSuspect(suspect)) return { lease: suspect, endTurn };
  endTurn();
  if (suspect) return { lease: suspect };
  if (await store.owner(sessionId)) return undefined;
  throw new RivuletError(
    "poison",
    `Session ${sessionId} took down more than ${maxLosses} processes, even while its tasks were ended.`,
    { hint: "Delete the session, or increase the memory of the process." },
  );
}

/**
 * Claims conversations without an owner that this process can run; of the suspects one, and only while none runs here.
 * The store must have `claim`.
 */
export async function claimLeases(
  {
    store,
    id,
    suspects,
  }: { readonly store: Store; readonly id: string; readonly suspects: SuspectQueue },
  limit: number,
  { leaseMs, clock }: Pick<AgentSettings, "leaseMs" | "clock">,
  claim: Omit<Claim, "maxLosses">,
  closing: AbortSignal,
): Promise<readonly TakenLease[]> {
  const ordinary = await store.claim?.(id, leaseMs, limit, {
    ...claim,
    maxLosses: suspectLosses - 1,
  });
  const taken = (ordinary ?? []).map((lease): TakenLease => ({ lease }));
  if (taken.length >= limit || !suspects.isIdle) return taken;
  const endTurn = await suspects.turn(clock, closing);
  const [suspect] = (await store.claim?.(id, leaseMs, 1, { ...claim, maxLosses })) ?? [];
  if (suspect === undefined || !isSuspect(suspect)) endTurn();
  if (suspect === undefined) return taken;
  return [...taken, isSuspect(suspect) ? { lease: suspect, endTurn } : { lease: suspect }];
}

/** The error of a task that took its process down again and again, with the step that it was at. */
export async function poison(
  store: Store,
  record: TaskRecord,
  { losses }: Lease,
): Promise<RivuletError> {
  const { messages } = await readTranscript(store, record);
  const step = nextStep(messages, record.agentName);
  const calls = step.type === "act" || step.type === "wait" ? step.calls : [];
  const names = [...new Set(calls.map(({ call }) => call.name))].join(", ");
  const doing = names === "" ? "before its next reply was stored" : `while it called ${names}`;
  return new RivuletError("poison", `The task took down ${losses} processes in a row ${doing}.`, {
    hint: "Fix what this step runs, or give the process more memory. Then retry the task.",
  });
}
