import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { textOf } from "../../../src/contract/message.ts";
import { sqliteStore } from "../../../src/index.ts";
import { expectLawful, readLog } from "../../agent/support/laws.ts";
import { createFolder, removeFolder } from "../../store/support/folder.ts";
import { executionsIn } from "../../support/executions.ts";
import { startTaskAgent } from "./support/run-task-agent.ts";
import { askCast, sessionId } from "./support/task-cast.ts";

let folder: string;
beforeAll(() => {
  folder = createFolder();
});
afterAll(() => removeFolder(folder));

it.each(["sync", "background"] as const)(
  "answers a grandchild's approval in a new process after a kill (%s)",
  async (mode) => {
    const own = join(folder, mode);
    mkdirSync(own);
    const asking = startTaskAgent(own, "ask", mode);
    await asking.rests;
    asking.kill();
    expect(await asking.ended).toMatchObject({ signal: "SIGKILL", problems: "" });

    const store = sqliteStore(join(own, "store.db"));
    const waiting = await askCast(store, own, mode).approvals({ sessionId });
    expect(waiting).toMatchObject([{ call: { name: "transfer" }, path: "session/manager/clerk" }]);
    expect(executionsIn(own)).toEqual([]);
    const last = mode === "sync" ? "suspended" : "completed";
    expect(await statusesIn()).toEqual([last, "suspended", "suspended"]);

    const answering = await startTaskAgent(own, "answer", mode).ended;
    expect(answering).toMatchObject({ code: 0, problems: "" });
    expect(await statusesIn()).toEqual(["completed", "completed", "completed"]);
    expect(executionsIn(own)).toMatchObject([{ name: "transfer", isRecorded: false }]);
    const [root] = await store.tasks({ sessionId });
    if (root === undefined) throw new Error("There is no root task.");
    expect(textOf(root.result?.content ?? [])).toBe("So be it.");
    await expectLawful(store, root.taskId);
    const log = await readLog(store, root.taskId);
    const resumed = log.flatMap((event) => (event.type === "task.resumed" ? [event.task_id] : []));
    const tasks = await store.tasks({ rootTaskId: root.taskId });
    const chain = tasks.map(({ taskId }) => taskId);
    expect(resumed).toEqual(mode === "sync" ? chain : chain.slice(1));
    await store.close();

    async function statusesIn() {
      return (await store.tasks({ conversation: sessionId })).map(({ status }) => status);
    }
  },
);
