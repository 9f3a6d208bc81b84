import { copyFileSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import type { Store } from "../../src/contract/store.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { sqliteStore } from "../../src/store/sqlite.ts";
import { exportConversations, importConversations } from "../../src/store/transfer.ts";
import {
  acquire,
  commitOnce,
  deltas,
  message,
  record,
} from "../../src/testing/store-contract/samples.ts";
import { collect } from "../agent/support/collect.ts";
import { fixtureTime, readContent, writeContent } from "./support/fixture-content.ts";

const folder = mkdtempSync(join(tmpdir(), "rivulet-transfer-"));
afterAll(() => rmSync(folder, { recursive: true }));
const clock = { now: () => fixtureTime };
let files = 0;
const stores = {
  memory: () => memoryStore({ clock }),
  sqlite: () => sqliteStore(join(folder, `${files++}.db`), { clock }),
};

/** The contents without what belongs to one store: leases, inbox rows that were taken, and versions of files. */
async function contentOf(store: Store) {
  const { taken: _, owned: __, file, files, ...content } = await readContent(store);
  return { ...content, data: file?.data, paths: files.map(({ path, size }) => [path, size]) };
}

async function linesOf(store: Store, ids?: readonly string[]): Promise<readonly string[]> {
  return collect(exportConversations(store, ids));
}

describe.each([
  ["memory", "sqlite"],
  ["sqlite", "memory"],
] as const)("conversations from %s to %s", (from, to) => {
  it("arrive whole, with their events, numbers, inboxes and files", async () => {
    const source = stores[from]();
    await writeContent(source);
    const target = stores[to]();
    const imported = await importConversations(target, await linesOf(source));
    expect(imported).toEqual({ sessions: ["sess_1", "sess_2"], skipped: [] });
    expect(await contentOf(target)).toEqual(await contentOf(source));
  });

  it("arrive once, wherever an import is interrupted", async () => {
    const source = stores[from]();
    await writeContent(source);
    const lines = await linesOf(source);
    for (let count = 1; count < lines.length; count++) {
      const target = stores[to]();
      await importConversations(target, lines.slice(0, count));
      await importConversations(target, lines);
      expect(await contentOf(target)).toEqual(await contentOf(source));
    }
  });
});

it.each(readdirSync(fileURLToPath(new URL("./fixtures", import.meta.url))))(
  "the conversations of %s can be imported",
  async (name) => {
    const path = join(folder, name);
    copyFileSync(fileURLToPath(new URL(`./fixtures/${name}`, import.meta.url)), path);
    const source = sqliteStore(path, { clock });
    const target = memoryStore({ clock });
    await importConversations(target, await linesOf(source));
    expect(await contentOf(target)).toEqual(await contentOf(source));
    await source.close();
  },
);

it("a long conversation is written in pages", async () => {
  const source = stores.memory();
  const messages = Array.from({ length: 1_200 }, (_, n) => message(`${n}`, `m${n}`));
  await commitOnce(source, {
    events: deltas(1_300),
    tasks: [record()],
    appends: [{ sessionId: "sess_1", at: 0, messages }],
  });
  const lines = await linesOf(source, ["sess_1"]);
  expect(lines).toHaveLength(1 + 3 + 3 + 1);
  const target = stores.sqlite();
  await importConversations(target, lines);
  expect(await target.session("sess_1")).toEqual(messages);
  expect(await target.last("task_1")).toBe(1_299);
});

it("an existing conversation or file is left as it is and reported", async () => {
  const source = stores.memory();
  await writeContent(source);
  const target = stores.memory();
  await commitOnce(target, { tasks: [record({ label: "mine" })] });
  await target.files.put("folder/ü.bin", new Uint8Array([7]));
  const imported = await importConversations(target, await linesOf(source));
  expect(imported).toEqual({ sessions: ["sess_2"], skipped: ["folder/ü.bin", "sess_1"] });
  expect((await target.task("task_1"))?.label).toBe("mine");
  expect((await target.files.get("folder/ü.bin"))?.data).toEqual(new Uint8Array([7]));
});

it("only the named sessions are exported, with the blobs of their tasks and no other file", async () => {
  const store = stores.memory();
  await writeContent(store);
  await store.files.put("blobs/task_1/a", new Uint8Array([1]));
  await store.files.put("blobs/task_2/b", new Uint8Array([2]));
  const target = stores.memory();
  await importConversations(target, await linesOf(store, ["sess_1"]));
  expect((await target.files.list("")).map(({ path }) => path)).toEqual(["blobs/task_1/a"]);
  expect((await target.sessions({ limit: 9 })).map(({ sessionId }) => sessionId)).toEqual([
    "sess_1",
  ]);
});

it("a running, missing or misnamed session is refused", async () => {
  const store = stores.memory();
  const lease = await acquire(store);
  await store.commit({ lease, log: "task_1", tasks: [record()] });
  await expect(linesOf(store, ["sess_1"])).rejects.toMatchObject({ code: "conflict" });
  await expect(linesOf(store, ["nobody"])).rejects.toMatchObject({ code: "not_found" });
  await expect(linesOf(store, [7] as never)).rejects.toMatchObject({ code: "invalid_argument" });
});

it.each([
  [[], "header"],
  [["{}\n"], "header"],
  [['{"format":"rivulet-conversations","version":9}\n'], "version 9"],
  [['{"format":"rivulet-conversations","version":1}\n', "nonsense"], "Line 2"],
])("an invalid export is refused: %j", async (lines, reason) => {
  await expect(importConversations(stores.memory(), lines)).rejects.toMatchObject({
    code: "invalid_export",
    message: expect.stringContaining(reason),
  });
});
