import type { Commit, Lease, Post, TaskRecord } from "../../../src/contract/store.ts";

/** The contents of a store in plain arrays. */
interface State {
  /** `seenAt` is the time at which a lease was first seen that ends too late for the clock. */
  owners: {
    sessionId: string;
    fence: number;
    held: boolean;
    until: number;
    ttlMs: number;
    losses: number;
    seenAt?: number | undefined;
  }[];
  /** `trimmed` is the number of trimmed events. */
  logs: { log: string; sessionId: string; texts: string[]; trimmed: number }[];
  /** `first` is the first record of the session. */
  sessions: { sessionId: string; first?: TaskRecord; messageIds: string[] }[];
  tasks: TaskRecord[];
  posts: { row: Post; taken: boolean }[];
}

type RejectionCode = "fenced" | "conflict" | "agent_busy" | "session_suspended" | "not_found";

class Rejected extends Error {
  readonly code: RejectionCode;
  constructor(code: RejectionCode) {
    super(code);
    this.code = code;
  }
}

/** A slow and simple store. It keeps only the texts of events and the ids of messages. */
export function modelStore(now: () => number) {
  let state: State = { owners: [], logs: [], sessions: [], tasks: [], posts: [] };

  const ownerOf = (sessionId: string) => state.owners.find((one) => one.sessionId === sessionId);
  /** The time that a lease is still live for: never more than its time to live, even if the clock was set back. */
  const leftMs = (sessionId: string) => {
    const owner = ownerOf(sessionId);
    if (!owner?.held) return 0;
    const { until, ttlMs } = owner;
    // A lease that ends later than that was granted before the clock was set back: it ends when it was seen for its time.
    if (until <= now() + ttlMs) {
      owner.seenAt = undefined;
      return until - now();
    }
    owner.seenAt = Math.min(owner.seenAt ?? now(), now());
    return owner.seenAt + ttlMs - now();
  };
  const isLive = (sessionId: string) => leftMs(sessionId) > 0;
  const isHidden = (sessionId: string) => {
    const { held = false, ttlMs = 0, losses = 0 } = ownerOf(sessionId) ?? {};
    return held && leftMs(sessionId) + ttlMs * losses > 0;
  };
  const held = (lease: Lease) => {
    const owner = ownerOf(lease.sessionId);
    return owner?.held && owner.fence === lease.fence ? owner : undefined;
  };
  const hasEnded = (task: Pick<TaskRecord, "status">) =>
    !["queued", "in_progress", "suspended"].includes(task.status);
  const rootSession = (sessionId: string, rootTaskId?: string) => {
    const root = rootTaskId ?? state.tasks.find((task) => task.sessionId === sessionId)?.rootTaskId;
    return state.tasks.find((task) => task.taskId === root)?.sessionId ?? sessionId;
  };

  function sessionOf(to: State, sessionId: string): State["sessions"][number] {
    const found = to.sessions.find((one) => one.sessionId === sessionId);
    if (found) return found;
    const created: State["sessions"][number] = { sessionId, messageIds: [] };
    to.sessions.push(created);
    return created;
  }

  function putTask(to: State, task: TaskRecord): void {
    const at = to.tasks.findIndex((one) => one.taskId === task.taskId);
    const old = to.tasks[at];
    if (old && hasEnded(old) && old.status !== task.status) throw new Rejected("conflict");
    if (old) to.tasks[at] = task;
    else to.tasks.push(task);
    sessionOf(to, task.sessionId).first ??= task;
  }

  function write(to: State, commit: Commit): void {
    for (const task of commit.tasks ?? []) {
      const owner = to.sessions.find((one) => one.sessionId === task.sessionId)?.first;
      const isBegun = task.taskId === commit.begins;
      if (isBegun && owner && owner.userId !== task.userId) throw new Rejected("not_found");
      putTask(to, task);
    }
    assertFirst(to, commit.begins);
    if (commit.events?.length) {
      let log = to.logs.find((one) => one.log === commit.log);
      if (log && log.sessionId !== commit.lease.sessionId) throw new Rejected("conflict");
      if (!log) {
        log = { log: commit.log, sessionId: commit.lease.sessionId, texts: [], trimmed: 0 };
        to.logs.push(log);
      }
      log.texts.push(...commit.events.map((event) => (event as { delta?: string }).delta ?? ""));
    }
    for (const append of commit.appends ?? []) {
      const session = sessionOf(to, append.sessionId);
      if (session.messageIds.length !== append.at) throw new Rejected("conflict");
      session.messageIds.push(...append.messages.map((message) => message.id));
    }
    for (const row of commit.posts ?? []) {
      if (!to.posts.some((post) => post.row.id === row.id)) to.posts.push({ row, taken: false });
    }
    for (const id of commit.taken ?? []) {
      const post = to.posts.find((one) => one.row.id === id);
      if (!post || post.taken) throw new Rejected("conflict");
      post.taken = true;
    }
  }

  /** Throws when the task's session has an earlier unfinished one. */
  function assertFirst({ tasks }: State, begins: string | undefined): void {
    if (begins === undefined) return;
    const at = tasks.findIndex((task) => task.taskId === begins);
    const begun = tasks[at];
    if (begun === undefined) throw new Rejected("conflict");
    const earlier = tasks.slice(0, at).filter((task) => task.sessionId === begun.sessionId);
    if (!hasEnded(begun) && !earlier.every(hasEnded)) throw new Rejected("agent_busy");
  }

  return {
    owner(sessionId: string): { leftMs: number } | undefined {
      return isLive(sessionId) ? { leftMs: leftMs(sessionId) } : undefined;
    },
    enqueue(record: TaskRecord, ifIdle: boolean): TaskRecord {
      const stored = state.tasks.find((task) => task.taskId === record.taskId);
      const inSession = state.tasks.filter((task) => task.sessionId === record.sessionId);
      const session = state.sessions.find((one) => one.sessionId === record.sessionId);
      const first = stored ?? session?.first;
      if (first && first.userId !== record.userId) throw new Rejected("not_found");
      if (stored) return stored;
      const open = inSession.filter((task) => !hasEnded(task));
      if (ifIdle && open.some((task) => task.status !== "suspended")) {
        throw new Rejected("agent_busy");
      }
      if (ifIdle && open.length > 0) throw new Rejected("session_suspended");
      putTask(state, record);
      return record;
    },
    acquire(
      sessionId: string,
      owner: string,
      ttlMs: number,
      maxLosses = Number.POSITIVE_INFINITY,
    ): Lease | undefined {
      if (isLive(sessionId)) return undefined;
      const old = ownerOf(sessionId);
      const losses = (old?.losses ?? 0) + (old?.held ? 1 : 0);
      if (losses > maxLosses) return undefined;
      const fence = (old?.fence ?? 0) + 1;
      const until = now() + ttlMs;
      state.owners = state.owners.filter((one) => one.sessionId !== sessionId);
      state.owners.push({ sessionId, fence, held: true, until, ttlMs, losses });
      return { sessionId, owner, fence, expiresAt: until, losses };
    },
    /** Returns the losses of a lease that holds. */
    renew(lease: Lease, ttlMs: number): number | undefined {
      const owner = held(lease);
      if (owner) Object.assign(owner, { until: now() + ttlMs, ttlMs, seenAt: undefined });
      return owner?.losses;
    },
    release(lease: Lease): void {
      const owner = held(lease);
      if (!owner) return;
      owner.held = false;
      owner.until = Math.min(owner.until, now());
    },
    /** Writes to a copy, which replaces the state if every part is valid. */
    commit(commit: Commit): void {
      if (!held(commit.lease)) throw new Rejected("fenced");
      const next = structuredClone(state);
      write(next, commit);
      const isProgress = commit.tasks?.some((task) => {
        const old = state.tasks.find(({ taskId }) => taskId === task.taskId);
        const isResting = hasEnded(task) || task.status === "suspended";
        const isFurther = task.committedOutput > (old?.committedOutput ?? 0);
        return isFurther || (isResting && old?.status !== task.status);
      });
      state = next;
      if (isProgress) Object.assign(ownerOf(commit.lease.sessionId) ?? {}, { losses: 0 });
    },
    deleteSession(sessionId: string): boolean {
      if (rootSession(sessionId) !== sessionId || isLive(sessionId)) throw new Rejected("conflict");
      const owner = ownerOf(sessionId);
      if (owner) Object.assign(owner, { held: false, until: 0, losses: 0 });
      const gone = state.tasks.filter(
        (task) => rootSession(task.sessionId, task.rootTaskId) === sessionId,
      );
      const taskIds = gone.map((task) => task.taskId);
      const sessionIds = [sessionId, ...gone.map((task) => task.sessionId)];
      const found = state.sessions.some((one) => sessionIds.includes(one.sessionId));
      state.tasks = state.tasks.filter((task) => !gone.includes(task));
      state.sessions = state.sessions.filter((one) => !sessionIds.includes(one.sessionId));
      state.posts = state.posts.filter(
        ({ row }) => !sessionIds.includes(row.sessionId) && !taskIds.includes(row.rootTaskId ?? ""),
      );
      state.logs = state.logs.filter((one) => one.sessionId !== sessionId);
      return found;
    },
    trim(log: string, through: number): void {
      const found = state.logs.find((one) => one.log === log);
      if (!found || through >= found.texts.length) throw new Rejected("conflict");
      found.trimmed = Math.max(found.trimmed, through + 1);
    },
    trimmed: (log: string) => state.logs.find((one) => one.log === log)?.trimmed ?? 0,
    post(row: Post): Post {
      const first = state.posts.find((post) => post.row.id === row.id);
      if (first) return first.row;
      state.posts.push({ row, taken: false });
      return row;
    },
    expired(): string[] {
      const work = state.tasks
        .filter((task) => task.status === "queued" || task.status === "in_progress")
        .map((task) => rootSession(task.sessionId, task.rootTaskId));
      for (const { row, taken } of state.posts) {
        if (taken || row.kind === "hint") continue;
        const session = rootSession(row.sessionId, row.rootTaskId);
        const inSession = state.tasks.filter((task) => task.sessionId === row.sessionId);
        const isWork =
          row.kind === "input"
            ? row.taskId === undefined && row.sessionId === session && inSession.every(hasEnded)
            : row.taskId !== undefined
              ? state.tasks.some((task) => task.taskId === row.taskId)
              : row.rootTaskId !== undefined
                ? state.tasks.some((task) => task.rootTaskId === row.rootTaskId)
                : inSession.length > 0;
        if (isWork) work.push(session);
      }
      const since = (sessionId: string) => ownerOf(sessionId)?.until ?? 0;
      return [...new Set(work)]
        .filter((sessionId) => !isHidden(sessionId))
        .sort()
        .sort((a, b) => since(a) - since(b));
    },
    posts: () => state.posts.filter((post) => !post.taken).map((post) => post.row),
    conversationOf: rootSession,
    log: (log: string) => state.logs.find((one) => one.log === log)?.texts ?? [],
    session: (id: string) => state.sessions.find((one) => one.sessionId === id)?.messageIds ?? [],
    sessions: () =>
      state.sessions
        .filter((session) => session.first?.parentSessionId === undefined)
        .map((session) => ({
          sessionId: session.sessionId,
          messages: session.messageIds.length,
        }))
        .reverse(),
    tasks: () => state.tasks,
  };
}

/** The model of a store. */
export type ModelStore = ReturnType<typeof modelStore>;
