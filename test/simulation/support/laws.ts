import type { Commit, Lease, Post, Store, TaskRecord } from "../../../src/contract/store.ts";
import { StreamCheck } from "../../../src/protocol/check/check.ts";
import { isTerminal } from "../../../src/protocol/task.ts";
import { logTranscriptProblems } from "../../support/log-matches-transcript.ts";

/** After this many losses without progress a conversation may be judged poison. */
const poisonLosses = 5;

/** The facts that the laws use about the machine that acts. */
export interface Actor {
  readonly name: string;
  /** Since when nothing has kept the machine from renewing its leases. */
  readonly soundSince: () => number;
}

interface Ownership {
  readonly fence: number;
  readonly actor: Actor;
  readonly takenAt: number;
  readonly ttlMs: number;
  readonly isReleased: boolean;
}

/** The laws of a simulation, checked at every operation that reaches the database. */
export class Laws {
  readonly problems: string[] = [];
  readonly seen: Record<string, number> = {};
  readonly #store: Store;
  readonly #now: () => number;
  readonly #owners = new Map<string, Ownership>();
  readonly #losses = new Map<string, number>();
  readonly #streams = new Map<string, StreamCheck>();
  readonly #records = new Map<string, TaskRecord>();
  readonly #results = new Set<string>();
  readonly #posts = new Map<string, Post>();
  /** The tasks with a cancel, and the number of acquisitions of their conversation when it was stored. */
  readonly #cancelled = new Map<string, number>();
  readonly #acquisitions = new Map<string, number>();

  constructor(store: Store, now: () => number) {
    this.#store = store;
    this.#now = now;
  }

  blame(problem: string): void {
    this.problems.push(`${this.#now()}: ${problem}`);
  }

  count(what: string): void {
    this.seen[what] = (this.seen[what] ?? 0) + 1;
  }

  /** A lease was given: its last owner must have released it or have been unable to renew it. */
  acquired({ sessionId, fence, losses }: Lease, actor: Actor, ttlMs: number): void {
    const before = this.#owners.get(sessionId);
    this.#acquisitions.set(sessionId, (this.#acquisitions.get(sessionId) ?? 0) + 1);
    if (before && !before.isReleased) {
      this.count("taken over");
      this.#losses.set(sessionId, (this.#losses.get(sessionId) ?? 0) + 1);
      const since = before.actor.soundSince();
      if (since < before.takenAt || this.#now() - since > before.ttlMs)
        this.blame(
          `${actor.name} has taken ${sessionId} from ${before.actor.name}, which was well`,
        );
    }
    if (before && fence <= before.fence) this.blame(`the fence of ${sessionId} does not grow`);
    const expected = this.#losses.get(sessionId) ?? 0;
    if (losses !== expected) this.blame(`${sessionId} has ${losses} losses instead of ${expected}`);
    this.#owners.set(sessionId, { fence, actor, takenAt: this.#now(), ttlMs, isReleased: false });
  }

  /** A process has ended after it handed its work over: what it owns is lost, unless it could not tell the database. */
  ended(actor: Actor, patienceMs: number): void {
    if (this.#now() - actor.soundSince() < patienceMs) return;
    for (const [sessionId, owner] of this.#owners)
      if (owner.actor === actor && !owner.isReleased)
        this.blame(`${actor.name} has ended and not released ${sessionId}`);
  }

  released({ sessionId, fence }: Lease): void {
    const owner = this.#owners.get(sessionId);
    if (owner?.fence === fence) this.#owners.set(sessionId, { ...owner, isReleased: true });
  }

  posted(rows: readonly Post[]): void {
    for (const post of rows) {
      if (this.#posts.has(post.id)) continue;
      this.#posts.set(post.id, post);
      const { taskId } = post;
      if (post.kind !== "cancel" || taskId === undefined || post.ifQueued) continue;
      const record = this.#records.get(taskId);
      if (record && isTerminal(record.status)) continue;
      const root = this.#records.get(record?.rootTaskId ?? taskId)?.sessionId ?? post.sessionId;
      this.#cancelled.set(taskId, this.#acquisitions.get(root) ?? 0);
    }
  }

  /** An owner has asked for a commit, which may be refused. */
  asked({ lease }: Commit, actor: Actor): void {
    const owner = this.#owners.get(lease.sessionId);
    if (owner?.fence === lease.fence && owner.isReleased)
      this.blame(`${actor.name} commits to ${lease.sessionId}, which it has released`);
  }

  /** A commit is written. */
  async committed(commit: Commit, actor: Actor): Promise<void> {
    const { lease, log, events = [], tasks = [], appends = [], taken = [], posts = [] } = commit;
    this.count("commits");
    const owner = this.#owners.get(lease.sessionId);
    if (owner?.fence !== lease.fence)
      this.blame(
        `${actor.name} has written ${lease.sessionId} although ${owner?.actor.name} owns it`,
      );
    const check = this.#streams.get(log) ?? new StreamCheck();
    this.#streams.set(log, check);
    for (const event of events) {
      const problem = check.next(event as Parameters<StreamCheck["next"]>[0]);
      if (problem) this.blame(`${log}: ${problem.rule}: ${problem.message}`);
    }
    for (const record of tasks) this.#recorded(record, lease.sessionId);
    const messages = appends.flatMap((append) => append.messages);
    for (const block of messages.flatMap(({ content }) => content)) {
      if (block.type !== "tool_result") continue;
      if (this.#results.has(block.id)) this.blame(`call ${block.id} has a second result`);
      this.#results.add(block.id);
    }
    this.posted(posts);
    const ids = new Set(messages.map(({ id }) => id));
    for (const id of taken) {
      const { kind, message, taskId = "" } = this.#posts.get(id) ?? {};
      if (kind !== "hint" || message === undefined || id.startsWith("done:")) continue;
      this.count("steered");
      if (!ids.has(message.id) && !isTerminal(this.#records.get(taskId)?.status ?? "queued"))
        this.blame(`${actor.name} has dropped ${id} of ${taskId}`);
    }
    const problems = await logTranscriptProblems(this.#store, log);
    for (const problem of problems) this.blame(problem);
  }

  #recorded(record: TaskRecord, conversation: string): void {
    const { taskId, status, committedOutput, error } = record;
    const before = this.#records.get(taskId);
    this.#records.set(taskId, record);
    const rests = status !== "in_progress" && status !== "queued";
    if (error?.code === "poison" && before?.error?.code !== "poison") {
      this.count("poison");
      if ((this.#losses.get(conversation) ?? 0) < poisonLosses)
        this.blame(
          `${taskId} was judged poison after ${this.#losses.get(conversation) ?? 0} losses`,
        );
    }
    if (committedOutput > (before?.committedOutput ?? 0) || (rests && before?.status !== status))
      this.#losses.set(conversation, 0);
    if (isTerminal(status)) this.count(status);
    else if (status === "suspended") this.count("suspended");
  }

  enqueued(record: TaskRecord): void {
    if (!this.#records.has(record.taskId)) this.#records.set(record.taskId, record);
  }

  /** A machine runs a tool or asks a model for a task. */
  works(taskId: string, what: string, actor: Actor, callId?: string): void {
    if (callId !== undefined && this.#results.has(callId))
      this.blame(`${actor.name} runs ${what} ${callId} again, whose result is recorded`);
    const record = this.#records.get(taskId);
    const conversation = this.#records.get(record?.rootTaskId ?? "")?.sessionId ?? "";
    const posted = this.#cancelled.get(taskId);
    const owner = this.#owners.get(conversation);
    if (posted === undefined || owner?.actor !== actor) return;
    if ((this.#acquisitions.get(conversation) ?? 0) > posted)
      this.blame(
        `${actor.name} runs ${what} for ${taskId}, which was cancelled before it took over`,
      );
  }
}
