import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { textOf } from "../../../src/contract/message.ts";
import { sqliteStore } from "../../../src/index.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { acquire } from "../../../src/testing/store-contract/samples.ts";
import { createFolder, removeFolder } from "../../store/support/folder.ts";
import { expectLawful } from "../support/laws.ts";
import { startBusyAgent } from "./support/run-agent.ts";
import { newFolder } from "./support/whole.ts";

const runs = isDeep ? 600 : 120;
const names = ["ann", "bob"] as const;

let parent: string;
beforeAll(() => {
  parent = createFolder();
});
afterAll(() => removeFolder(parent));

it("two processes lose no write to one database and one workspace", async () => {
  const folder = newFolder(parent, "busy");
  const counts = join(folder, "workspace", "counts");
  mkdirSync(join(folder, "workspace"));
  writeFileSync(counts, "ann=0; bob=0;\n");
  const store = sqliteStore(join(folder, "store.db"));
  const lease = await acquire(store, "held", { ttlMs: 3_600_000 });
  const processes = names.map((name) => startBusyAgent(folder, name, runs));
  for (const line of ["queued", "agent_busy", "ran"]) {
    for (const process of processes) await process.said(line);
    expect(await store.session("held")).toEqual([]);
    const held = await store.tasks({ sessionId: "held" });
    expect(held.map(({ status }) => status)).toEqual(["queued", "queued"]);
  }
  await store.release(lease);
  const ended = await Promise.all(processes.map((one) => one.ended));
  for (const { code, problems } of ended)
    expect({ code, problems }).toEqual({ code: 0, problems: "" });
  const commits = ended.reduce((sum, { last }) => sum + Number(last), 0);
  expect(commits).toBeGreaterThan(1_000);

  expect((await saidIn("held")).toSorted()).toEqual(names);
  expect(readFileSync(counts, "utf8")).toBe(`ann=${runs}; bob=${runs};\n`);
  const numbers = Array.from({ length: runs }, (_, n) => n);
  for (const name of names) {
    const own = numbers.filter((n) => n % 6 !== 5).map((n) => `${name} ${n}`);
    expect(await saidIn(name)).toEqual(own);
    const shared = numbers.filter((n) => n % 6 === 5).map((n) => `${name} ${n}`);
    expect((await saidIn("shared")).filter((text) => text.startsWith(name))).toEqual(shared);
  }
  for (const sessionId of [...names, "shared", "held"]) {
    const tasks = await store.tasks({ sessionId });
    // Tasks of one session never overlap, so the messages of each stand together.
    const order = (await store.session(sessionId)).map(({ metadata }) => metadata?.taskId);
    const messages = sessionId === "held" ? 2 : 4;
    expect(order).toEqual(tasks.flatMap(({ taskId }) => Array(messages).fill(taskId)));
    for (const { taskId } of tasks) await expectLawful(store, taskId, sessionId);
  }
  await store.close();

  /** The texts of the user messages of a session. */
  async function saidIn(sessionId: string): Promise<readonly string[]> {
    const messages = await store.session(sessionId);
    return messages.flatMap(({ role, content }) => (role === "user" ? [textOf(content)] : []));
  }
});
