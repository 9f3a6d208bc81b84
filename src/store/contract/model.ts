import type { Commit, Lease, Post, TaskRecord } from "../../protocol/store.ts";

/** What a store holds, as plainly as it can be said: lists, searched from the front. */
interface State {
  owners: { sessionId: string; fence: number; held: boolean; until: number }[];
  /** `trimmed` is how many of the texts may no longer be read. */
  logs: { log: string; sessionId: string; texts: string[]; trimmed: number }[];
  sessions: { sessionId: string; child?: boolean; messageIds: string[] }[];
  tasks: TaskRecord[];
  posts: { row: Post; taken: boolean }[];
}

class Refused extends Error {
  readonly code: "fenced" | "conflict";
  constructor(code: "fenced" | "conflict") {
    super(code);
    this.code = code;
  }
}

/** A store too slow to be wrong; events are known by their texts and messages by their ids. */
export function modelStore(now: () => number) {
  let state: State = { owners: [], logs: [], sessions: [], tasks: [], posts: [] };

  const ownerOf = (sessionId: string) => state.owners.find((one) => one.sessionId === sessionId);
  const isLive = (sessionId: string) => {
    const owner = ownerOf(sessionId);
    return owner?.held === true && owner.until > now();
  };
  const held = (lease: Lease) => {
    const owner = ownerOf(lease.sessionId);
    return owner?.held && owner.fence === lease.fence ? owner : undefined;
  };
  const hasEnded = (task: TaskRecord) =>
    !["queued", "in_progress", "suspended"].includes(task.status);
  const rootSession = (sessionId: string, rootTaskId?: string) => {
    const root = rootTaskId ?? state.tasks.find((task) => task.sessionId === sessionId)?.rootTaskId;
    return state.tasks.find((task) => task.taskId === root)?.sessionId ?? sessionId;
  };

  function write(to: State, commit: Commit): void {
    if (commit.events?.length) {
      let log = to.logs.find((one) => one.log === commit.log);
      if (log && log.sessionId !== commit.lease.sessionId) throw new Refused("conflict");
      if (!log) {
        log = { log: commit.log, sessionId: commit.lease.sessionId, texts: [], trimmed: 0 };
        to.logs.push(log);
      }
      log.texts.push(...commit.events.map((event) => (event as { delta?: string }).delta ?? ""));
    }
    const sessionOf = (sessionId: string) => {
      const found = to.sessions.find((one) => one.sessionId === sessionId);
      if (found) return found;
      const created: State["sessions"][number] = { sessionId, messageIds: [] };
      to.sessions.push(created);
      return created;
    };
    for (const task of commit.tasks ?? []) {
      const at = to.tasks.findIndex((one) => one.taskId === task.taskId);
      const old = to.tasks[at];
      if (old && hasEnded(old) && old.status !== task.status) throw new Refused("conflict");
      if (old) to.tasks[at] = task;
      else to.tasks.push(task);
      sessionOf(task.sessionId).child ??= task.parentSessionId !== undefined;
    }
    for (const append of commit.appends ?? []) {
      const session = sessionOf(append.sessionId);
      if (session.messageIds.length !== append.at) throw new Refused("conflict");
      session.messageIds.push(...append.messages.map((message) => message.id));
    }
    for (const row of commit.posts ?? []) {
      if (!to.posts.some((post) => post.row.id === row.id)) to.posts.push({ row, taken: false });
    }
    for (const id of commit.taken ?? []) {
      const post = to.posts.find((one) => one.row.id === id);
      if (!post || post.taken) throw new Refused("conflict");
      post.taken = true;
    }
  }

  return {
    acquire(sessionId: string, owner: string, ttlMs: number): Lease | undefined {
      if (isLive(sessionId)) return undefined;
      const fence = (ownerOf(sessionId)?.fence ?? 0) + 1;
      const until = now() + ttlMs;
      state.owners = state.owners.filter((one) => one.sessionId !== sessionId);
      state.owners.push({ sessionId, fence, held: true, until });
      return { sessionId, owner, fence, expiresAt: until };
    },
    renew(lease: Lease, ttlMs: number): boolean {
      const owner = held(lease);
      if (owner) owner.until = now() + ttlMs;
      return owner !== undefined;
    },
    release(lease: Lease): void {
      const owner = held(lease);
      if (!owner) return;
      owner.held = false;
      owner.until = Math.min(owner.until, now());
    },
    /** Writes to a copy, which becomes the state only if every part went well. */
    commit(commit: Commit): void {
      if (!held(commit.lease)) throw new Refused("fenced");
      const next = structuredClone(state);
      write(next, commit);
      state = next;
    },
    deleteSession(sessionId: string): boolean {
      if (rootSession(sessionId) !== sessionId || isLive(sessionId)) throw new Refused("conflict");
      const owner = ownerOf(sessionId);
      if (owner) Object.assign(owner, { held: false, until: Math.min(owner.until, now()) });
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
      if (!found || through >= found.texts.length) throw new Refused("conflict");
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
        const waits = state.tasks.some(
          (task) =>
            !hasEnded(task) &&
            (row.rootTaskId !== undefined
              ? task.rootTaskId === row.rootTaskId
              : rootSession(task.sessionId, task.rootTaskId) === session),
        );
        if (row.kind === "input" || waits) work.push(session);
      }
      const since = (sessionId: string) => ownerOf(sessionId)?.until ?? 0;
      return [...new Set(work)]
        .filter((sessionId) => !isLive(sessionId))
        .sort()
        .sort((a, b) => since(a) - since(b));
    },
    posts: () => state.posts.filter((post) => !post.taken).map((post) => post.row),
    log: (log: string) => state.logs.find((one) => one.log === log)?.texts ?? [],
    session: (id: string) => state.sessions.find((one) => one.sessionId === id)?.messageIds ?? [],
    sessions: () =>
      state.sessions
        .filter((session) => !session.child)
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
