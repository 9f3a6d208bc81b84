import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { taskRunner } from "../../../src/harness/tasks/task-runner.ts";
import { HarnessAgent, memoryStore, type Store, sqliteStore, tool } from "../../../src/index.ts";
import { isTerminal, type TaskStatus } from "../../../src/protocol/task.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { ManualClock, scriptedModel } from "../../../src/testing.ts";
import { expectLawful } from "../../agent/support/laws.ts";
import { losingStore } from "../../agent/support/losing-store.ts";
import { createFolder, removeFolder } from "../../store/support/folder.ts";
import { keepEvents } from "../../support/keep-events.ts";

let folder: string;
let stores = 0;
beforeAll(() => {
  folder = createFolder();
});
afterAll(() => removeFolder(folder));

/** The commits after which a process is lost. */
const moments = [2, 6, 9];
const year = 365 * 86_400_000;

/** A lead with a sync or background worker, whose tool may need an approval. */
function leadOn(
  store: Store,
  name: string,
  options: { asks?: boolean; seconds?: number; clock?: ManualClock } = {},
) {
  const { asks = false, seconds = 0, clock } = options;
  let ran = 0;
  const sign = tool({
    name: "sign",
    description: "Signs.",
    idempotent: true,
    needsApproval: asks,
    execute: () => `signed ${++ran}`,
  });
  const common = {
    store,
    filesystem: false,
    ...(clock && { clock }),
    approvalTimeoutMs: 60_000,
  } as const;
  const clerk = new HarnessAgent({
    ...common,
    name: "clerk",
    model: scriptedModel([{ call: "sign" }, "Signed or not."], { by: "prompt" }),
    tools: [sign],
    subagents: false,
  });
  const call = (agent_id: string, timeout_seconds: number) => ({
    call: "agent_spawn",
    input: { agent_id, task: "Go.", timeout_seconds },
  });
  const worker = new HarnessAgent({
    ...common,
    name: "worker",
    model: scriptedModel([call("clerk", 600), "Worked."], { by: "prompt" }),
    subagents: [{ name: "clerk", description: "Signs.", agent: clerk }],
  });
  const lead = new HarnessAgent({
    ...common,
    name,
    model: scriptedModel([call("worker", seconds), "Good.", "I have heard."], { by: "prompt" }),
    subagents: [{ name: "worker", description: "Works.", agent: worker }],
  });
  return { lead, ran: () => ran };
}

describe.each(["memory", "sqlite"])("conversations that lost their process (%s)", (kind) => {
  function storeAt(clock: ManualClock): Store {
    return kind === "memory"
      ? memoryStore({ clock, ...keepEvents })
      : sqliteStore(join(folder, `${++stores}.db`), { clock });
  }

  async function statusesIn(
    store: Store,
    sessions: readonly string[],
  ): Promise<readonly TaskStatus[]> {
    const tasks = await Promise.all(sessions.map((conversation) => store.tasks({ conversation })));
    return tasks.flat().map(({ status }) => status);
  }

  it.each([
    ["a moment", 0],
    ["a year", year],
  ])("are found for all users, %s after their lease", async (_, downtime) => {
    const clock = new ManualClock(1_000_000_000);
    const store = storeAt(clock);
    const sessions: string[] = [];
    for (const agent of ["lead", "other"]) {
      for (const userId of [undefined, "ann", "bob"]) {
        for (const at of isDeep ? moments : moments.slice(sessions.length % 3).slice(0, 1)) {
          const sessionId = `${agent}-${userId ?? "nobody"}-${at}`;
          const { lead } = leadOn(losingStore(store, at, "after"), agent);
          const run = lead.run("Go.", { sessionId, ...(userId !== undefined && { userId }) });
          await run.result().catch(() => {});
          await run.settled();
          sessions.push(sessionId);
        }
      }
    }
    const found = async () => [...(await store.expired(1_000))].sort();
    await clock.advance(9_999);
    expect(await found()).toEqual([]);
    await clock.advance(1 + downtime);
    expect(await found()).toEqual([...sessions].sort());
    // A smaller batch size finds all of them as well.
    expect(await store.expired(5)).toHaveLength(5);

    const agents = [leadOn(store, "lead").lead, leadOn(store, "other").lead];
    expect([...(await taskRunner({ agents }).sweep())].sort()).toEqual([...sessions].sort());
    await expect
      .poll(async () => (await statusesIn(store, sessions)).every(isTerminal), { timeout: 30_000 })
      .toBe(true);
    expect(new Set(await statusesIn(store, sessions))).toEqual(new Set(["completed"]));
    expect(await store.expired(10)).toEqual([]);
    for (const sessionId of sessions) {
      const [root] = await store.tasks({ sessionId });
      if (root) await expectLawful(store, root.taskId, sessionId);
    }
    await store.close();
  });

  it("are reported and unchanged when their agent is unknown", async () => {
    const clock = new ManualClock(1_000_000_000);
    const store = storeAt(clock);
    const { lead } = leadOn(losingStore(store, 4, "before"), "stranger");
    await lead.call("Go.", { sessionId: "s" }).catch(() => {});
    await clock.advance(10_000);
    const problems: unknown[] = [];
    const agents = [leadOn(store, "lead").lead];
    const onProblem = (sessionId: string, error: unknown) => problems.push([sessionId, error]);
    await taskRunner({ agents, onProblem }).sweep();
    expect(problems).toMatchObject([["s", { code: "unknown_agent" }]]);
    expect(await store.expired(10)).toEqual(["s"]);
    await store.close();
  });

  it.each([
    ["of a grandchild", 600],
    ["of a background child's child, after the end of the root", 0],
  ])("deny an approval %s that expires", async (_, seconds) => {
    const clock = new ManualClock(1_000_000_000);
    const store = storeAt(clock);
    const { lead, ran } = leadOn(store, "lead", { asks: true, seconds, clock });
    const run = lead.run("Go.", { sessionId: "s" });
    await run.result();
    await run.settled();
    const runner = taskRunner({ agents: [lead], clock });
    await clock.advance(59_999);
    expect(await runner.sweep()).toEqual([]);
    expect(await lead.approvals({ sessionId: "s" })).toHaveLength(1);
    await clock.advance(1);
    expect(await runner.sweep()).toEqual(["s"]);
    await expect.poll(async () => (await statusesIn(store, ["s"])).every(isTerminal)).toBe(true);
    expect(await statusesIn(store, ["s"])).toEqual(["completed", "completed", "completed"]);
    expect(ran()).toBe(0);
    expect(await lead.approvals({ sessionId: "s" })).toEqual([]);
    const [root] = await store.tasks({ sessionId: "s" });
    if (root === undefined) throw new Error("There is no root task.");
    const log = await store.read(root.taskId, -1, 10_000);
    const decisions = log.flatMap((event) =>
      event.type === "task.approval.resolved" ? [event.decision] : [],
    );
    expect(decisions).toEqual(["expire"]);
    await expectLawful(store, root.taskId);
    await runner.shutDown();
    await store.close();
  });
});
