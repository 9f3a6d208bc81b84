// Measures what one more root task of a session costs: after 100, 1,000 and 5,000 earlier tasks, in a process that opens
// a compacted session for the first time, and beside 10,000 sessions that wait for an approval. The compared tasks run
// interleaved in one process; the figures are medians of CPU time, and the limits are ratios.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LanguageModelV4 } from "@ai-sdk/provider";
import type { Message } from "../src/contract/message.ts";
import type { Commit, Store } from "../src/contract/store.ts";
import { memoryStore, ReActAgent, sqliteStore } from "../src/index.ts";
import { record } from "../src/testing/store-contract/samples.ts";
import { scriptedModel } from "../src/testing.ts";

const lengths = [100, 1_000, 5_000] as const;
const waiting = 10_000;
const rounds = 100;
const coldRounds = 15;
const limits = { late: 1.5, cold: 1.5, besideWaiting: 1.1 };

const folder = mkdtempSync(join(tmpdir(), "rivulet-bench-"));
const finish = { type: "finish", finishReason: { unified: "stop", raw: "stop" } } as const;
const usage = { inputTokens: { total: 9 }, outputTokens: { total: 3 } };
/** A bare model: a scripted one keeps and counts its prompts. */
const model = {
  ...scriptedModel([]),
  async doStream() {
    const parts = [
      { type: "text-start", id: "1" },
      { type: "text-delta", id: "1", delta: "That is all." },
      { type: "text-end", id: "1" },
      { ...finish, usage },
    ];
    const stream = new ReadableStream({
      start(controller) {
        for (const part of parts) controller.enqueue(part);
        controller.close();
      },
    });
    return { stream };
  },
} as unknown as LanguageModelV4;
const agentOn = (store: Store) => new ReActAgent({ name: "assistant", model, store });

async function commitAs(store: Store, sessionId: string, change: Partial<Commit>): Promise<void> {
  const lease = await store.acquire(sessionId, "bench", 60_000);
  if (lease === undefined) throw new Error(`Session ${sessionId} has an owner.`);
  await store.commit({ lease, log: sessionId, ...change });
  await store.release(lease);
}

function textMessage(id: string, role: "user" | "assistant", taskId: string): Message {
  const content = [
    { type: "text", text: `This is message ${id}, which says a few words.` } as const,
  ];
  return { id, role, name: "assistant", content, metadata: { taskId } };
}

/** Writes the records and messages of finished root tasks, 100 at a time. */
async function writeTasks(store: Store, sessionId: string, count: number): Promise<void> {
  for (let done = 0; done < count; done += 100) {
    const ids = Array.from({ length: 100 }, (_, index) => `${sessionId}_${done + index}`);
    const tasks = ids.map((taskId) =>
      record({
        taskId,
        rootTaskId: taskId,
        sessionId,
        agentName: "assistant",
        status: "completed",
      }),
    );
    const messages = ids.flatMap((id) => [
      textMessage(`q_${id}`, "user", id),
      textMessage(`a_${id}`, "assistant", id),
    ]);
    await commitAs(store, sessionId, { tasks, appends: [{ sessionId, at: 2 * done, messages }] });
  }
}

/** Adds a compaction that keeps the last 20 messages. */
async function compact(store: Store, sessionId: string, length: number): Promise<void> {
  const block = { type: "compaction", summary: "They talked.", keepFrom: length - 20 } as const;
  const messages: Message[] = [{ id: `c_${sessionId}`, role: "tool", content: [block] }];
  await commitAs(store, sessionId, { appends: [{ sessionId, at: length, messages }] });
}

/** Writes sessions that wait for an approval. */
async function writeWaiting(store: Store, count: number): Promise<void> {
  for (let done = 0; done < count; done += 500) {
    const ids = Array.from({ length: 500 }, (_, index) => `waiting_${done + index}`);
    await Promise.all(
      ids.map((sessionId) => {
        const taskId = `task_${sessionId}`;
        const call = { type: "tool_use", id: `call_${sessionId}`, name: "pay", input: {} } as const;
        const question = { type: "suspension", callId: call.id, kind: "approval" } as const;
        const own = { name: "assistant", metadata: { taskId } };
        const messages: Message[] = [
          textMessage(`q_${sessionId}`, "user", taskId),
          { id: `a_${sessionId}`, role: "assistant", content: [call], ...own },
          {
            id: `s_${sessionId}`,
            role: "tool",
            content: [{ ...question, approvalId: `apr_${sessionId}` }],
            ...own,
          },
        ];
        const suspended = { taskId, rootTaskId: taskId, sessionId, agentName: "assistant" };
        return commitAs(store, sessionId, {
          tasks: [record({ ...suspended, status: "suspended" })],
          appends: [{ sessionId, at: 0, messages }],
        });
      }),
    );
  }
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** The median CPU time of each work in milliseconds, after a tenth of the rounds as a warm-up. */
async function medians(
  count: number,
  works: readonly (() => Promise<unknown>)[],
): Promise<readonly number[]> {
  const times = works.map((): number[] => []);
  for (let round = -Math.ceil(count / 10); round < count; round++) {
    for (const [index, work] of works.entries()) {
      const start = process.cpuUsage();
      await work();
      const { user, system } = process.cpuUsage(start);
      if (round >= 0) times[index]?.push((user + system) / 1_000);
    }
  }
  return times.map(median);
}

let isWithinLimits = true;
function expectAtMost(title: string, ms: readonly number[], most: number): void {
  const [first = 0, last = 0] = [ms[0], ms.at(-1)];
  const ok = last / first <= most;
  isWithinLimits &&= ok;
  const figures = ms.map((one) => one.toFixed(2)).join(" → ");
  const ratio = `${(last / first).toFixed(2)} (limit ${most}) ${ok ? "ok" : "TOO HIGH"}`;
  console.log(`${title}: ${figures} ms, ${ratio}`);
}

const file = (name: string) => join(folder, `${name}.db`);
const stores = { memory: memoryStore(), SQLite: sqliteStore(file("long")) };
for (const [name, store] of Object.entries(stores)) {
  for (const length of lengths) await writeTasks(store, `s${length}`, length);
  const agent = agentOn(store);
  const works = lengths.map((length) => () => agent.call("Go on.", { sessionId: `s${length}` }));
  const ms = await medians(rounds, works);
  expectAtMost(`${name}, a root task after ${lengths.join(" → ")} others`, ms, limits.late);
}

const cold = [lengths[0], lengths[2]];
for (const length of cold) {
  const sessionId = `s${length}`;
  const [session] = await stores.SQLite.sessions({ sessionId, limit: 1 });
  await compact(stores.SQLite, sessionId, session?.messages ?? 0);
}
await stores.SQLite.close();
const ms = await medians(
  coldRounds,
  cold.map((length) => async () => {
    const store = sqliteStore(file("long"));
    await agentOn(store).call("Go on.", { sessionId: `s${length}` });
    await store.close();
  }),
);
expectAtMost(`SQLite, opened again, compacted after ${cold.join(" → ")} tasks`, ms, limits.cold);

const pairs = [
  { name: "memory", alone: memoryStore(), beside: memoryStore() },
  { name: "SQLite", alone: sqliteStore(file("alone")), beside: sqliteStore(file("beside")) },
];
for (const { name, alone, beside } of pairs) {
  await writeWaiting(beside, waiting);
  let task = 0;
  const works = [alone, beside].map((store) => {
    const agent = agentOn(store);
    return () => agent.call("Go.", { sessionId: `s${++task % 20}` });
  });
  const title = `${name}, a root task beside 0 → ${waiting} waiting sessions`;
  expectAtMost(title, await medians(4 * rounds, works), limits.besideWaiting);
  const open = await agentOn(beside).approvals({ sessionId: "waiting_7" });
  if (open.length !== 1) throw new Error(`The session waits for ${open.length} approvals.`);
  await Promise.all([alone.close(), beside.close()]);
}
rmSync(folder, { recursive: true });
process.exitCode = isWithinLimits ? 0 : 1;
