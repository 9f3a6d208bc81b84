import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Commit, Lease, Post, Store, TaskRecord } from "../../src/contract/store.ts";
import type { TaskStatus } from "../../src/protocol/task.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { type StillClock, stillClock } from "../../src/testing/store-contract/fixture.ts";
import {
  childRecord,
  deltas,
  ids,
  message,
  numberOf,
  postRow,
  range,
  record,
  textOfEvent,
} from "../../src/testing/store-contract/samples.ts";
import { createMemoryStore, createSqliteStore } from "./support/create-store.ts";
import { type ModelStore, modelStore } from "./support/model.ts";

// Few ids, so that random commands collide.
const roots = ["sess_1", "sess_2"] as const;
const sessions = [...roots, "sub-1"] as const;
const logs = ["task_1", "task_2"] as const;
const statuses: readonly TaskStatus[] = [
  "queued",
  "in_progress",
  "suspended",
  "completed",
  "cancelled",
];
const unfinished = statuses.slice(0, 3);
const templates: readonly TaskRecord[] = [
  record(),
  record({ taskId: "task_2", sessionId: "sess_2" }),
  record({ taskId: "task_3" }),
  childRecord(),
];

const session = fc.constantFrom(...sessions);
const ttlMs = fc.integer({ min: 0, max: 50 });
/** Sometimes the clock is set back. */
const advanceMs = fc.oneof(
  { arbitrary: fc.integer({ min: 1, max: 40 }), weight: 4 },
  fc.constantFrom(-1, -30, -5_000),
);
/** An index from the newest lease: mostly one of the two that may still hold. */
const lease = fc.oneof({ arbitrary: fc.nat(1), weight: 4 }, fc.nat(20));
const postId = fc.nat(4).map((n) => `post_${n}`);
const post: fc.Arbitrary<Post> = fc
  .record({
    id: postId,
    kind: fc.constantFrom("answer", "hint", "input", "cancel"),
    sessionId: session,
    rootTaskId: fc.option(fc.constantFrom(...logs), { nil: undefined }),
    taskId: fc.option(fc.constantFrom("task_1", "task_3", "call_1"), { nil: undefined, freq: 2 }),
  })
  .map(({ rootTaskId, taskId, ...rest }) =>
    postRow({
      ...rest,
      ...(rootTaskId !== undefined && { rootTaskId }),
      ...(taskId !== undefined && { taskId }),
    }),
  );
const task = fc
  .tuple(fc.constantFrom(...templates), fc.constantFrom(...statuses), fc.nat(3))
  .map(([template, status, committedOutput]) => ({ ...template, status, committedOutput }));
/** `off` is the distance of an append from the valid index: mostly 0. */
const append = fc.record({
  sessionId: session,
  off: fc.oneof({ arbitrary: fc.constant(0), weight: 6 }, fc.constantFrom(-1, 1)),
  count: fc.nat(2),
});

const commit = fc.record({
  lease,
  log: fc.constantFrom(...logs),
  events: fc.nat(3),
  appends: fc.array(append, { maxLength: 2 }),
  tasks: fc.array(task, { maxLength: 2 }),
  begins: fc.option(fc.constantFrom("task_1", "task_2", "task_3", "call_1"), {
    nil: undefined,
    freq: 2,
  }),
  posts: fc.array(post, { maxLength: 1 }),
  taken: fc.oneof({ arbitrary: fc.constant([]), weight: 3 }, fc.array(postId, { maxLength: 2 })),
});
type CommitPlan = typeof commit extends fc.Arbitrary<infer C> ? C : never;

const command = fc.oneof(
  fc.record({
    type: fc.constant("acquire" as const),
    sessionId: fc.constantFrom(...roots),
    owner: fc.constantFrom("a", "b"),
    ttlMs,
    maxLosses: fc.constantFrom(undefined, undefined, 0, 1, 2),
  }),
  fc.record({
    type: fc.constant("renew" as const),
    leases: fc.array(lease, { maxLength: 3 }),
    ttlMs,
  }),
  fc.record({ type: fc.constant("release" as const), lease }),
  fc.record({ type: fc.constant("advance" as const), ms: advanceMs }),
  fc.record({
    type: fc.constant("post" as const),
    posts: fc.array(post, { minLength: 1, maxLength: 2 }),
  }),
  fc.record({
    type: fc.constant("enqueue" as const),
    task: fc.constantFrom(...templates.filter(({ parentTaskId }) => parentTaskId === undefined)),
    userId: fc.constantFrom(undefined, undefined, "ann"),
    ifIdle: fc.boolean(),
  }),
  fc.record({ type: fc.constant("delete" as const), sessionId: session }),
  fc.record({
    type: fc.constant("trim" as const),
    log: fc.constantFrom(...logs),
    through: fc.nat(12),
  }),
  {
    arbitrary: fc.record({
      type: fc.constant("commit" as const),
      commits: fc.array(commit, { minLength: 1, maxLength: 3 }),
    }),
    weight: 5,
  },
);
type Command = typeof command extends fc.Arbitrary<infer C> ? C : never;

async function codeOf(attempt: () => unknown): Promise<string> {
  try {
    return `done: ${await attempt()}`;
  } catch (error) {
    return String((error as { code?: unknown }).code ?? error);
  }
}

/** A store may write fewer commits of a list than it could. */
async function commitAll(store: Store, commits: readonly Commit[]): Promise<void> {
  const [first, ...following] = commits;
  if (first === undefined) return;
  const written = await store.commit(first, following);
  await commitAll(store, commits.slice(written));
}

/** Runs commands on the store and the model, and compares results and contents after each. */
async function compare(
  store: Store,
  model: ModelStore,
  clock: StillClock,
  commands: readonly Command[],
): Promise<void> {
  /** Pairs, because a store may skip fences. */
  const granted: { real: Lease; model: Lease }[] = [];
  const pick = (n: number) => granted.at(-1 - (n % Math.max(1, granted.length)));
  let made = 0;

  async function run(step: Command): Promise<void> {
    switch (step.type) {
      case "acquire": {
        const { sessionId, owner, ttlMs, maxLosses } = step;
        const real = await store.acquire(sessionId, owner, ttlMs, maxLosses);
        const expected = model.acquire(sessionId, owner, ttlMs, maxLosses);
        expect(real && { ...real, fence: 0 }).toEqual(expected && { ...expected, fence: 0 });
        if (!real || !expected) return;
        const before = granted.filter((one) => one.real.sessionId === step.sessionId);
        for (const one of before) expect(real.fence).toBeGreaterThan(one.real.fence);
        granted.push({ real, model: expected });
        return;
      }
      case "renew": {
        const leases = step.leases.flatMap((n) => pick(n) ?? []);
        const expiresAt = clock.now() + step.ttlMs;
        const expected = leases.flatMap(({ real, model: lease }) => {
          const losses = model.renew(lease, step.ttlMs);
          return losses === undefined ? [] : [{ ...real, expiresAt, losses }];
        });
        const renewed = await store.renew(
          leases.map((one) => one.real),
          step.ttlMs,
        );
        expect(renewed).toEqual(expected);
        return;
      }
      case "release": {
        const lease = pick(step.lease);
        if (!lease) return;
        model.release(lease.model);
        await store.release(lease.real);
        return;
      }
      case "advance":
        clock.advance(step.ms);
        return;
      case "post":
        expect(await store.post(step.posts)).toEqual(step.posts.map((row) => model.post(row)));
        return;
      case "enqueue": {
        const { task, userId, ifIdle } = step;
        const asked = {
          ...task,
          status: "queued" as const,
          ...(userId !== undefined && { userId }),
        };
        const expected = await codeOf(() => JSON.stringify(model.enqueue(asked, ifIdle)));
        const real = async () => JSON.stringify(await store.enqueue({ ...asked }, { ifIdle }));
        expect(await codeOf(real)).toBe(expected);
        return;
      }
      case "delete": {
        const expected = await codeOf(() => model.deleteSession(step.sessionId));
        expect(await codeOf(() => store.deleteSession(step.sessionId))).toBe(expected);
        return;
      }
      case "trim": {
        const { log, through } = step;
        const expected = await codeOf(() => model.trim(log, through));
        expect(await codeOf(() => store.trim(log, { through, tasks: [] }))).toBe(expected);
        return;
      }
      case "commit": {
        const real: Commit[] = [];
        let expected = "";
        for (const plan of step.commits) {
          const lease = pick(plan.lease);
          if (!lease) continue;
          const parts = partsOf(plan);
          real.push({ ...parts, lease: lease.real });
          if (expected !== "") continue; // the store writes nothing after a refused commit
          const outcome = await codeOf(() => model.commit({ ...parts, lease: lease.model }));
          if (outcome !== "done: undefined") expected = outcome;
        }
        expect(await codeOf(() => commitAll(store, real))).toBe(expected || "done: undefined");
      }
    }
  }

  function partsOf({ log, tasks, posts, taken, begins, ...plan }: CommitPlan) {
    const lengths = new Map<string, number>();
    const appends = plan.appends.map(({ sessionId, off, count }) => {
      const length = lengths.get(sessionId) ?? model.session(sessionId).length;
      lengths.set(sessionId, length + count);
      const messages = range(0, count).map(() => message(String(made++)));
      return { sessionId, at: length + off, messages };
    });
    const events = deltas(plan.events, made);
    made += plan.events;
    const begun = begins !== undefined && { begins };
    return { log, events, appends, tasks, posts, taken, ...begun };
  }

  for (const step of commands) {
    await run(step);
    for (const log of logs) {
      const texts = model.log(log);
      const trimmed = model.trimmed(log);
      const events = await store.read(log, trimmed - 1, 1000);
      expect(events.map(textOfEvent)).toEqual(texts.slice(trimmed));
      expect(events.map(numberOf)).toEqual(range(trimmed, texts.length));
      expect(await store.last(log)).toBe(texts.length - 1);
      if (trimmed > 0) {
        expect(await codeOf(() => store.read(log, trimmed - 2, 1))).toBe("cursor_expired");
      }
    }
    for (const id of sessions) {
      expect(ids(await store.session(id))).toEqual(model.session(id));
      const mine = model.posts().filter((row) => row.sessionId === id);
      expect(await store.posts({ sessionId: id })).toEqual(mine);
      const tasks = model.tasks().filter((task) => task.sessionId === id);
      expect(await store.tasks({ sessionId: id })).toEqual(tasks);
      const open = tasks.filter((task) => unfinished.includes(task.status));
      expect(await store.tasks({ sessionId: id, status: unfinished })).toEqual(open);
      const rows = model
        .posts()
        .filter((row) => model.conversationOf(row.sessionId, row.rootTaskId) === id);
      expect(await store.posts({ conversation: id })).toEqual(rows);
      const inside = model
        .tasks()
        .filter((task) => model.conversationOf(task.sessionId, task.rootTaskId) === id);
      expect(await store.tasks({ conversation: id })).toEqual(inside);
      expect(await store.tasks({ conversation: id, status: unfinished })).toEqual(
        inside.filter((task) => unfinished.includes(task.status)),
      );
      expect(await store.owner(id)).toEqual(model.owner(id));
    }
    expect(await store.posts({})).toEqual(model.posts());
    expect(await store.tasks({})).toEqual(model.tasks());
    const listed = await store.sessions({ limit: 10 });
    expect(listed.map(({ sessionId, messages }) => ({ sessionId, messages }))).toEqual(
      model.sessions(),
    );
    expect(await store.expired(10)).toEqual(model.expired());
  }
}

describe.each([
  ["memory", createMemoryStore],
  ["SQLite", createSqliteStore],
])("the %s store", (_, create) => {
  it("behaves like the model under any sequence of commands", async () => {
    const commands = fc.array(command, { maxLength: isDeep ? 200 : 60, size: "max" });
    await fc.assert(
      fc.asyncProperty(commands, async (steps) => {
        const clock = stillClock();
        const opened = await create({ clock });
        try {
          await compare(opened.store, modelStore(clock.now), clock, steps);
        } finally {
          await opened.store.close();
          await opened.dispose?.();
        }
      }),
      { numRuns: isDeep ? 1000 : 60 },
    );
  });
});
