import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { sqliteStore } from "../../src/index.ts";
import { checkStream } from "../../src/protocol/check/check.ts";
import type { TaskEvent } from "../../src/protocol/event.ts";
import { emptyTree, reduce } from "../../src/protocol.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { expectLawful } from "../agent/support/laws.ts";
import { createFolder, removeFolder } from "../store/support/folder.ts";
import { seededRandom } from "../support/random.ts";
import { seed } from "../support/seed.ts";
import { Chain, roles } from "./support/chain.ts";

const kills = isDeep ? 100 : 8;
const killsPerRun = 4;
const random = seededRandom(seed);
const folder = createFolder();
afterAll(() => removeFolder(folder));

function newFolder(name: string): string {
  const path = join(folder, name);
  mkdirSync(path);
  return path;
}

it("a chain of three servers, killed at random, ends with a true status and a log without gaps", {
  timeout: 1_200_000,
}, async () => {
  for (let run = 0; run < kills / killsPerRun; run++) {
    const own = newFolder(`run-${run}`);
    const hint = `run ${run}; RIVULET_SEED=${seed}`;
    await using chain = new Chain(own, "work");
    await chain.start();
    const handle = chain.lead.run("Go.", { sessionId: "s" });
    const { taskId } = await handle.task;
    const events: TaskEvent[] = [];
    const places = Array.from({ length: killsPerRun }, () => random.int(5, 150)).sort(
      (a, b) => a - b,
    );
    let killing = Promise.resolve();
    for await (const event of handle) {
      events.push(event);
      while (places[0] !== undefined && events.length >= places[0]) {
        places.shift();
        const role = random.pick(roles);
        killing = killing.then(() => chain.kill(role)).then(() => chain.run(role));
      }
    }
    await killing;
    const reply = await handle.result();
    expect({ hint, reason: reply.generateReason }).toEqual({ hint, reason: "model_stop" });
    expect({ hint, problems: checkStream(events) }).toEqual({ hint, problems: [] });
    const { gaps, ignored, unknown, tasks } = reduce(emptyTree(), events);
    expect({ hint, gaps, ignored, unknown }).toEqual({ hint, gaps: [], ignored: 0, unknown: 0 });
    const statuses = Object.values(tasks).map(({ status, error }) => error?.code ?? status);
    expect({ hint, statuses }).toEqual({ hint, statuses: ["completed", "completed", "completed"] });
    for (const role of roles) await chain.kill(role);
    const executed = chain.executions().map((line) => line.split(" ")[1]);
    expect({ hint, twice: executed.filter((id, at) => executed.indexOf(id) < at) }).toEqual({
      hint,
      twice: [],
    });
    for (const role of roles) {
      const store = sqliteStore(join(own, `${role}.db`));
      const [root] = await store.tasks({ limit: 1 });
      await expectLawful(store, root?.rootTaskId ?? "", `${role}, ${hint}`);
      await store.close();
    }
    expect(taskId).toBe(events[0]?.type === "task.created" ? events[0].task_id : "");
  }
});

it("an approval of the third server is answered at the first, after all three were restarted", {
  timeout: 120_000,
}, async () => {
  await using chain = new Chain(newFolder("approval"), "approval");
  await chain.start();
  const asked = await chain.lead.call("Go.", { sessionId: "s" });
  expect(asked.approvals).toMatchObject([{ path: "s/reviewer/cleaner", call: { name: "note" } }]);
  for (const role of roles) await chain.kill(role);
  await Promise.all(roles.map((role) => chain.run(role)));
  let reply = asked;
  while (reply.generateReason === "approval_required")
    reply = await chain.lead.call(
      reply.approvals.map((approval) => approval.approve()),
      { sessionId: "s" },
    );
  expect(reply.generateReason).toBe("model_stop");
  const ids = chain.executions().map((line) => line.split(" ")[1]);
  expect(ids.length).toBe(6);
  expect(new Set(ids).size).toBe(6);
});
