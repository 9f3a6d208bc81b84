import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Store, TaskRecord } from "../../../src/contract/store.ts";
import { taskRunner } from "../../../src/harness/tasks/task-runner.ts";
import { sqliteStore } from "../../../src/index.ts";
import { isTerminal } from "../../../src/protocol/task.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { expectLawful } from "../../agent/support/laws.ts";
import { createFolder, removeFolder } from "../../store/support/folder.ts";
import { executionsIn } from "../../support/executions.ts";
import { seededRandom } from "../../support/random.ts";
import { seed } from "../../support/seed.ts";
import { startTaskAgent } from "./support/run-task-agent.ts";
import { backgroundTasks, sessionId, workCast, workerCalls } from "./support/task-cast.ts";

const kills = isDeep ? 50 : 5;
const random = seededRandom(seed);
const ways = ["runner", "call", "fail"] as const;

let folder: string;
let commits: number;
beforeAll(async () => {
  folder = createFolder();
  const { code, problems, said } = await startTaskAgent(newFolder("whole"), "work").ended;
  expect({ code, problems }).toEqual({ code: 0, problems: "" });
  commits = Number(said);
});
afterAll(() => removeFolder(folder));

function newFolder(name: string): string {
  const path = join(folder, name);
  mkdirSync(path);
  return path;
}

/** Resumes the tasks of a killed process until all have ended, and delivers them to the lead. */
async function goOn(store: Store, own: string, way: (typeof ways)[number]): Promise<void> {
  const lead = workCast(store, own);
  const isRunner = way !== "call";
  const lostTasks = way === "fail" ? "fail" : "resume";
  const runner = isRunner && taskRunner({ agents: [lead], lostTasks, intervalMs: 20 });
  if (runner) runner.start();
  else await lead.call((await rootsOf(store)).some(isOpen) ? undefined : "And?", { sessionId });
  await expect.poll(() => unfinishedIn(store), { timeout: 60_000, interval: 20 }).toEqual([]);
  // The last process may still release the lease.
  await expect.poll(() => store.expired(1), { timeout: 60_000 }).toEqual([]);
  await lead.call("And?", { sessionId });
  if (runner) await runner.shutDown();
}

function isOpen({ status }: TaskRecord): boolean {
  return !isTerminal(status);
}

async function rootsOf(store: Store): Promise<readonly TaskRecord[]> {
  return store.tasks({ sessionId });
}

async function unfinishedIn(store: Store): Promise<readonly string[]> {
  const open = (await store.tasks({ conversation: sessionId })).filter(isOpen);
  return open.map(({ taskId, status }) => `${taskId} ${status}`);
}

/** Returns the calls of a session that have a result. */
async function resultsIn(store: Store, session: string): Promise<readonly string[]> {
  const blocks = (await store.session(session)).flatMap(({ content }) => content);
  return blocks.flatMap((block) => (block.type === "tool_result" ? [block.id] : []));
}

describe("a process with twenty background tasks that is killed", () => {
  it.each(
    Array.from({ length: kills }, (_, kill) => [kill + 1, ways[kill % ways.length] as never]),
  )(
    "leaves only tasks that are resumed or failed (%i, %s)",
    async (kill, way: (typeof ways)[number]) => {
      const at = random.int(Math.floor(commits / 5), commits - 5);
      const when = random.pick(["before", "after"] as const);
      const hint = `killed ${when} commit ${at} of ${commits}; RIVULET_SEED=${seed}`;
      const own = newFolder(String(kill));
      const ended = await startTaskAgent(own, "work", "", at, when).ended;
      expect({ hint, ...ended }).toMatchObject({ hint, signal: "SIGKILL", problems: "" });

      const store = sqliteStore(join(own, "store.db"));
      const left = await store.tasks({ conversation: sessionId });
      const recorded = new Map<string, readonly string[]>();
      for (const task of left) {
        recorded.set(task.sessionId, await resultsIn(store, task.sessionId));
      }
      const executed = executionsIn(own).length;
      await goOn(store, own, way);
      const roots = await rootsOf(store);
      for (const { taskId } of roots) await expectLawful(store, taskId, hint);

      // Recorded results stay in their place.
      for (const [session, before] of recorded) {
        const after = await resultsIn(store, session);
        expect({ hint, results: after.slice(0, before.length) }).toEqual({ hint, results: before });
      }
      const executions = executionsIn(own);
      expect({ hint, again: executions.filter(({ isRecorded }) => isRecorded) }).toEqual({
        hint,
        again: [],
      });
      const paid = executions.filter(({ name }) => name === "pay").map(({ callId }) => callId);
      expect({ hint, paid: new Set(paid).size }).toEqual({ hint, paid: paid.length });

      const children = (await store.tasks({ conversation: sessionId })).filter(
        ({ depth }) => depth > 0,
      );
      for (const child of children) {
        const before = left.find(({ taskId }) => taskId === child.taskId);
        const isLost = way === "fail" && before !== undefined && !isTerminal(before.status);
        if (isLost) {
          const error = { code: "executor_lost", message: "executor lost" };
          expect({ hint, child }).toMatchObject({ hint, child: { status: "failed", error } });
        } else {
          expect({ hint, child }).toMatchObject({ hint, child: { status: "completed" } });
          const results = await resultsIn(store, child.sessionId);
          expect({ hint, calls: results.length }).toEqual({ hint, calls: workerCalls.length });
        }
      }
      if (way !== "fail") {
        expect({ hint, children: children.length }).toEqual({ hint, children: backgroundTasks });
      } else expect({ hint, after: executions.length }).toEqual({ hint, after: executed });

      // The lead has received each result once.
      const blocks = (await store.session(sessionId)).flatMap(({ content }) => content);
      const told = blocks.flatMap((block) =>
        block.type === "hint" && block.metadata?.taskId !== undefined
          ? [block.metadata.taskId]
          : [],
      );
      expect({ hint, told: [...told].sort() }).toEqual({
        hint,
        told: children.map(({ taskId }) => taskId).sort(),
      });
      expect({ hint, posts: await store.posts({ sessionId }) }).toEqual({ hint, posts: [] });
      await store.close();
      removeFolder(own);
    },
  );
});
