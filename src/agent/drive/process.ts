import { RivuletError } from "../../base/error.ts";
import type { Agent, Claim, RunOptions, StandardSchema, Store } from "../../contract/index.ts";
import { withoutChecks } from "../../store/index.ts";
import { FlushQueue } from "../events/flush-queue.ts";
import type { AgentSettings } from "../loop/settings.ts";
import type { OnModelCall, StandIn } from "../loop/task-run.ts";
import { Conversation } from "./conversation.ts";
import { shuttingDown } from "./hand-over.ts";
import { claimLeases, SuspectQueue, type TakenLease } from "./suspects.ts";

/** A call that waits in this process for its task. */
export interface Caller {
  readonly settings: AgentSettings;
  readonly options: RunOptions<StandardSchema | undefined>;
}

/** A conversation that this process has claimed. */
interface ClaimedConversation {
  readonly sessionId: string;
  readonly opening: Promise<Conversation>;
}

/** This process on one store: the conversations that it owns and the agents that it has. */
export class Process {
  readonly store: Store;
  readonly id = `process:${crypto.randomUUID()}`;
  /** Calls by the id of the task that they started: an owner here runs the task with the call's own settings. */
  readonly callers = new Map<string, Caller>();
  /** The agents of unfinished children, so that an answered child continues without its parent's tool. */
  readonly childAgents = new Map<string, Agent>();
  /** Why this process gave a conversation up, until it owns it again. */
  readonly failures = new Map<string, RivuletError>();
  /** The logs of all conversations here with events that wait for a step. */
  readonly flushes: FlushQueue;
  /** Called when this process has taken or released a conversation. */
  onOwned: (() => void) | undefined;
  /** Called with the request before each model call here, at any depth; must not throw. */
  onModelCall: OnModelCall | undefined;
  /** Takes the place of models and tools here, so that a recorded run is replayed. */
  standIn: StandIn | undefined;
  readonly #conversations = new Map<string, Promise<Conversation | undefined>>();
  readonly #owned = new Map<string, Conversation>();
  /** The conversations that took earlier processes down and wait for their turn. */
  readonly suspects = new SuspectQueue();
  readonly #closing = new AbortController();
  #canRun = true;

  constructor(store: Store) {
    this.store = withoutChecks(store);
    this.flushes = new FlushQueue({ isDurable: !store.memory, flushMs: store.flushMs });
  }

  /** The conversations that this process owns. */
  get conversations(): readonly string[] {
    return [...this.#owned.keys()];
  }

  /** The conversation, if this process owns it and is not about to release it. */
  owned(sessionId: string): Conversation | undefined {
    const conversation = this.#owned.get(sessionId);
    return conversation?.isOpen ? conversation : undefined;
  }

  /** Takes or shares the lease of a conversation, which the caller must `leave`; undefined if another process has it. */
  async enter(sessionId: string, settings: AgentSettings): Promise<Conversation | undefined> {
    for (;;) {
      this.#closing.signal.throwIfAborted();
      if (!this.#canRun) return undefined;
      const open = this.owned(sessionId);
      if (open) {
        open.hold(settings);
        return open;
      }
      const opening = this.#conversations.get(sessionId);
      if (opening === undefined) return this.#open(sessionId, settings);
      const opened = await opening.catch(() => undefined);
      if (opened === undefined) return undefined;
      if (!opened.isOpen) await opened.closed;
    }
  }

  /** Whether this process runs tasks; one that does not posts, enqueues and follows. */
  get canRun(): boolean {
    return this.#canRun;
  }

  /** Leaves all tasks on the store to other processes. */
  runNothing(): void {
    this.#canRun = false;
  }

  /**
   * Claims at most `limit` conversations without an owner, and opens those of which `settingsFor` knows the agent. The
   * caller must `leave` each. Undefined if the store cannot claim.
   */
  async claim(
    limit: number,
    terms: Pick<AgentSettings, "leaseMs" | "clock">,
    claim: Omit<Claim, "maxLosses">,
    settingsFor: (sessionId: string) => Promise<AgentSettings>,
  ): Promise<readonly ClaimedConversation[] | undefined> {
    if (this.store.claim === undefined) return undefined;
    const taken = await claimLeases(this, limit, terms, claim, this.#closing.signal);
    return taken.map((one) => ({
      sessionId: one.lease.sessionId,
      opening: this.#adopt(one, settingsFor),
    }));
  }

  async #adopt(
    taken: TakenLease,
    settingsFor: (sessionId: string) => Promise<AgentSettings>,
  ): Promise<Conversation> {
    const { sessionId } = taken.lease;
    try {
      const settings = await settingsFor(sessionId);
      // A lease that could be claimed is not that of a conversation here, which has not learned of it yet.
      const before = await this.#conversations.get(sessionId)?.catch(() => undefined);
      before?.lose(new RivuletError("fenced", "This process has claimed the session again."));
      await before?.closed;
      if (!this.#canRun) throw shuttingDown();
      return await this.#track(sessionId, Conversation.openWith(this, taken, settings));
    } catch (error) {
      taken.endTurn?.();
      await this.store.release(taken.lease).catch(() => {}); // a lease expires by itself
      throw error;
    }
  }

  #open(sessionId: string, settings: AgentSettings): Promise<Conversation | undefined> {
    const opening = Conversation.open(this, sessionId, settings, this.#closing.signal);
    return this.#track(sessionId, opening);
  }

  #track<Opened extends Conversation | undefined>(
    sessionId: string,
    opening: Promise<Opened>,
  ): Promise<Opened> {
    this.#conversations.set(sessionId, opening);
    const forget = () => {
      if (this.#conversations.get(sessionId) === opening) this.#conversations.delete(sessionId);
      this.#owned.delete(sessionId);
      if (this.#owned.size === 0) owners.delete(this);
      this.onOwned?.();
    };
    opening.then((conversation) => {
      if (conversation === undefined) return forget();
      this.#owned.set(sessionId, conversation);
      this.onOwned?.();
      releaseAtExit(this);
      this.failures.delete(sessionId);
      void conversation.closed.then(forget);
    }, forget);
    return opening;
  }

  /** Releases all leases when the process exits without waiting for that, so that the next process can continue. */
  releaseOnExit(): void {
    for (const conversation of this.#owned.values()) {
      try {
        conversation.releaseOnExit();
      } catch {
        // The lease expires by itself.
      }
    }
  }

  /** Starts nothing more, and releases each conversation between two steps; resolves when all are, or after the time. */
  async handOver(graceMs: number): Promise<void> {
    this.runNothing();
    const released = [...this.#conversations.values()].map(async (opening) => {
      const conversation = await opening.catch(() => undefined);
      conversation?.handOver.begin();
      await conversation?.closed;
    });
    const { promise: isLate, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, graceMs);
    await Promise.race([Promise.all(released), isLate]);
    clearTimeout(timer);
  }

  /** Stops all tasks at their last commit and releases their leases, so that another process can continue them. */
  async shutDown(): Promise<void> {
    this.#closing.abort(shuttingDown());
    const opened = await Promise.allSettled(this.#conversations.values());
    const open = opened.flatMap((result) =>
      result.status === "fulfilled" && result.value ? [result.value] : [],
    );
    for (const conversation of open) conversation.lose(shuttingDown());
    await Promise.all(open.map(({ closed }) => closed));
  }
}

/** The processes that own conversations, behind one listener. */
const owners = new Set<Process>();
let isListening = false;

function releaseAtExit(process: Process): void {
  owners.add(process);
  if (isListening) return;
  isListening = true;
  globalThis.process.once("exit", () => {
    for (const owner of owners) owner.releaseOnExit();
  });
}

const processes = new WeakMap<Store, Process>();

/** This process on a store. */
export function processOf(store: Store): Process {
  const process = processes.get(store) ?? new Process(store);
  processes.set(store, process);
  return process;
}
