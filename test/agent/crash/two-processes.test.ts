import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { sqliteStore } from "../../../src/index.ts";
import { textOf } from "../../../src/protocol/message.ts";
import { acquire } from "../../../src/store/contract/samples.ts";
import { createFolder, removeFolder } from "../../store/support/folder.ts";
import { deep } from "../support/deep.ts";
import { expectLawful } from "../support/laws.ts";
import { startBusyAgent } from "./support/run-agent.ts";
import { newFolder } from "./support/whole.ts";

const runs = deep ? 600 : 90;
const names = ["ann", "bob"] as const;

let parent: string;
beforeAll(() => {
  parent = createFolder();
});
afterAll(() => removeFolder(parent));

it("two processes lose nothing that their agents write to one database and one workspace", async () => {
  const folder = newFolder(parent, "busy");
  const counts = join(folder, "workspace", "counts");
  mkdirSync(join(folder, "workspace"));
  writeFileSync(counts, "ann=0; bob=0;\n");
  const store = sqliteStore(join(folder, "store.db"));
  await acquire(store, "held", { ttlMs: 3_600_000 });
  const processes = names.map((name) => startBusyAgent(folder, name, runs));
  for (const one of processes) await one.said("agent_busy");
  const ended = await Promise.all(processes.map((one) => one.ended));
  for (const { code, problems } of ended)
    expect({ code, problems }).toEqual({ code: 0, problems: "" });
  const commits = ended.reduce((sum, { last }) => sum + Number(last), 0);
  expect(commits).toBeGreaterThan(1_000);

  expect(await store.session("held")).toEqual([]);
  expect(readFileSync(counts, "utf8")).toBe(`ann=${runs}; bob=${runs};\n`);
  const numbers = Array.from({ length: runs }, (_, n) => n);
  for (const name of names) {
    const own = numbers.filter((n) => n % 6 !== 5).map((n) => `${name} ${n}`);
    expect(await saidIn(name)).toEqual(own);
    const shared = numbers.filter((n) => n % 6 === 5).map((n) => `${name} ${n}`);
    expect((await saidIn("shared")).filter((text) => text.startsWith(name))).toEqual(shared);
  }
  for (const sessionId of [...names, "shared"]) {
    const tasks = await store.tasks({ sessionId });
    // One task after the other: what belongs to one stands together.
    const order = (await store.session(sessionId)).map(({ metadata }) => metadata?.taskId);
    expect(order).toEqual(tasks.flatMap(({ taskId }) => Array(4).fill(taskId)));
    for (const { taskId } of tasks) await expectLawful(store, taskId, sessionId);
  }
  await store.close();

  /** What was asked in a session. */
  async function saidIn(sessionId: string): Promise<readonly string[]> {
    const messages = await store.session(sessionId);
    return messages.flatMap(({ role, content }) => (role === "user" ? [textOf(content)] : []));
  }
});
