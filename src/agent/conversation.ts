import { RivuletError, rivuletErrorOf } from "../protocol/error.ts";
import type { Commit, Lease, Store } from "../protocol/store.ts";
import { attend } from "./attend.ts";
import type { Drive } from "./drive.ts";
import { logRoom } from "./log-room.ts";
import { LogWriter } from "./log-writer.ts";
import type { AgentSettings } from "./settings.ts";
import { failLostTasks } from "./undriven.ts";

/** How long a conversation stays with a process that has died. */
const leaseMs = 10_000;
/** How often a process looks whether another one's lease has ended. */
const pollMs = 250;

/** Whose conversations these are: one per process, so that two processes never take each other's lease for their own. */
const owner = `process:${crypto.randomUUID()}`;

// Conversations that this process drives right now, by store and root session.
const open = new WeakMap<Store, Map<string, Promise<Conversation>>>();

// Stores on which this process begins nothing new.
const closing = new WeakSet<Store>();

function shuttingDown(): RivuletError {
  return new RivuletError("shutting_down", "This process is shutting down.", {
    retryable: true,
    hint: "The work is stored: another process, or this one after its restart, goes on with it.",
  });
}

/** Who enters a conversation, and how. */
export interface Entry {
  /** The agent of the root session. */
  readonly settings: AgentSettings;
  readonly sessionId: string;
  readonly onBusy: "queue" | "fail";
  readonly signal: AbortSignal;
  /** What becomes of tasks whose process was lost, when this opens the conversation; they go on by default. */
  readonly lostTasks?: "resume" | "fail";
}

/**
 * A root session with all its descendants, driven by this process: one lease, and one writer for each root task's log.
 * Every driven task enters it and leaves it; the last to leave releases the lease.
 */
export class Conversation {
  readonly store: Store;
  readonly sessionId: string;
  /** The agent of the root session: it knows the agents of all the others. */
  readonly settings: AgentSettings;
  /** The tasks that are driven right now, by their id. */
  readonly drives = new Map<string, Drive>();
  /** Called when background work of the root session has ended. */
  onDelivery: (() => void) | undefined;
  /** Called when a root task could go on that nobody in this process has taken up. */
  onRootWaiting: ((taskId: string) => void) | undefined;
  readonly #logs = new Map<string, LogWriter>();
  /** Aborts everything that is driven here once the right to write is lost. */
  readonly lost = new AbortController();
  #lease: Lease;
  #inside = 1;
  #renewal: ReturnType<typeof setInterval>;
  #unwatch = () => {};
  #attending: Promise<void> | undefined;
  #isAskedAgain = false;

  private constructor({ settings }: Entry, lease: Lease) {
    this.store = settings.store;
    this.sessionId = lease.sessionId;
    this.settings = settings;
    this.#lease = lease;
    this.#renewal = setInterval(() => void this.#renew(), leaseMs / 3);
    this.#renewal.unref?.();
  }

  /**
   * Opens the conversation, or enters the one that is open already. While another process drives it, waits for its
   * lease to end, or fails when it may not wait.
   */
  static async enter(entry: Entry): Promise<Conversation> {
    const { settings, sessionId } = entry;
    if (closing.has(settings.store)) throw shuttingDown();
    const here = open.get(settings.store) ?? new Map<string, Promise<Conversation>>();
    open.set(settings.store, here);
    for (;;) {
      const known = here.get(sessionId);
      if (known === undefined) {
        const opening = Conversation.#open(entry);
        here.set(sessionId, opening);
        opening.catch(() => here.get(sessionId) === opening && here.delete(sessionId));
        return opening;
      }
      const conversation = await known;
      // Entering happens here and now, before anything can close it.
      if (conversation.#inside > 0) {
        conversation.hold();
        return conversation;
      }
      await conversation.#closing;
    }
  }

  /** The conversation as this process drives it; undefined when it does not. */
  static async find(store: Store, sessionId: string): Promise<Conversation | undefined> {
    const conversation = await open
      .get(store)
      ?.get(sessionId)
      ?.catch(() => undefined);
    return conversation && conversation.#inside > 0 ? conversation : undefined;
  }

  /**
   * Ends the work of this process on a store: nothing new begins, and what runs stops where it was last written, with
   * its lease released, so that another process can go on with it.
   */
  static async shutDown(store: Store): Promise<void> {
    closing.add(store);
    const opened = await Promise.allSettled(open.get(store)?.values() ?? []);
    await Promise.all(
      opened.map(async (one) => {
        if (one.status === "rejected" || one.value.#inside === 0) return;
        const conversation = one.value;
        conversation.hold();
        conversation.lost.abort(shuttingDown());
        const driven = [...conversation.drives.values()].map(({ ended }) => ended);
        await Promise.allSettled(driven);
        await conversation.leave();
        await conversation.#closed.promise;
      }),
    );
  }

  static async #open(entry: Entry): Promise<Conversation> {
    const { settings, sessionId, onBusy, signal } = entry;
    const { store, clock } = settings;
    for (;;) {
      const lease = await store.acquire(sessionId, owner, leaseMs);
      if (lease) return Conversation.#begin(entry, lease);
      if (onBusy === "fail") {
        throw new RivuletError("agent_busy", `Another process drives session ${sessionId}.`, {
          retryable: true,
          hint: 'Post to its inbox, read its log, or call with onBusy: "queue" to wait for it.',
        });
      }
      await clock.sleep(pollMs, signal).catch((cause: unknown) => {
        throw new RivuletError("cancelled", "Cancelled while another process drove the session.", {
          cause,
        });
      });
    }
  }

  static async #begin(entry: Entry, lease: Lease): Promise<Conversation> {
    const conversation = new Conversation(entry, lease);
    const { store, sessionId } = conversation;
    try {
      // Before anybody can enter, so that whatever is unfinished has nobody who works on it.
      if (entry.lostTasks === "fail") await failLostTasks(conversation);
    } catch (error) {
      await conversation.leave();
      throw error;
    }
    conversation.#unwatch = store.watch({ inbox: sessionId }, () => void conversation.attend());
    void conversation.attend();
    return conversation;
  }

  /** Enters it once more, from within. */
  hold(): void {
    this.#inside += 1;
  }

  /**
   * Looks after what is left here: tasks that lost their process, answers and cancels that nobody is there to take.
   * Called when there may be something new; asked while it looks, it looks once more.
   */
  attend(): Promise<void> {
    if (this.#attending !== undefined) {
      this.#isAskedAgain = true;
      return this.#attending;
    }
    if (this.#inside === 0 || this.lost.signal.aborted) return Promise.resolve();
    this.hold();
    this.#attending = this.#attend();
    return this.#attending;
  }

  async #attend(): Promise<void> {
    try {
      do {
        this.#isAskedAgain = false;
        await attend(this);
      } while (this.#isAskedAgain);
    } catch {
      // The store failed: whoever writes will hear of it, and what is left is found again later.
    } finally {
      this.#attending = undefined;
      await this.leave();
    }
  }

  /** Resolves when nothing of a tree is driven here any more. */
  async quiet(rootTaskId: string): Promise<void> {
    for (;;) {
      await this.#attending;
      const driven = [...this.drives.values()].filter(
        ({ record }) => record.rootTaskId === rootTaskId,
      );
      if (driven.length === 0) return;
      await Promise.allSettled(driven.map(({ ended }) => ended));
    }
  }

  #closing: Promise<void> | undefined;
  readonly #closed = Promise.withResolvers<void>();

  /** The last to leave writes what is left and releases the lease. */
  async leave(): Promise<void> {
    this.#inside -= 1;
    if (this.#inside > 0) {
      // Whoever looks for what is left leaves soon; what is driven may take its time.
      if (this.drives.size === 0) await this.#attending;
      return;
    }
    this.#closing = this.#close();
    await this.#closing;
  }

  async #close(): Promise<void> {
    clearInterval(this.#renewal);
    this.#unwatch();
    // The outcome stands: whoever had something to write was told, and a lease ends by itself.
    await Promise.allSettled([...this.#logs.values()].map((log) => log.flush()));
    await this.store.release(this.#lease).catch(() => {});
    open.get(this.store)?.delete(this.sessionId);
    this.#closed.resolve();
  }

  /** The one writer of a root task's log. */
  log(rootTaskId: string): LogWriter {
    const known = this.#logs.get(rootTaskId);
    if (known) return known;
    const room = logRoom(this.store, rootTaskId);
    const writer = new LogWriter(rootTaskId, (step) => this.#commit(step), room);
    this.#logs.set(rootTaskId, writer);
    return writer;
  }

  async #commit(step: Omit<Commit, "lease">): Promise<void> {
    if (this.lost.signal.aborted) throw this.lost.signal.reason;
    try {
      await this.store.commit({ ...step, lease: this.#lease });
    } catch (thrown) {
      const error = rivuletErrorOf(thrown, "store_failed");
      // What was not written must not be shown as if it were: everything driven here ends, nothing more is written.
      this.lost.abort(error);
      throw error;
    }
  }

  async #renew(): Promise<void> {
    try {
      const [lease] = await this.store.renew([this.#lease], leaseMs);
      if (lease) this.#lease = lease;
      else
        this.lost.abort(new RivuletError("fenced", "Another owner has taken this session over."));
    } catch {
      // The store may be back before the lease ends; a commit will tell.
    }
  }
}
