import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { RivuletError } from "../../src/base/error.ts";
import type { Store } from "../../src/contract/store.ts";
import { sqliteStore } from "../../src/store/sqlite.ts";
import { isDeep } from "../../src/testing/deep.ts";
import {
  acquire,
  childRecord,
  commitOnce,
  deltas,
  message,
  postRow,
  range,
  record,
} from "../../src/testing/store-contract/samples.ts";
import { createFolder, removeFolder } from "./support/folder.ts";

const clock = { now: () => 1_700_000_000_000 };
const conversations = range(0, 20);
/** The errors for a damaged file. */
const codes = ["store_corrupt", "store_failed", "store_too_new", "store_too_old", "not_a_store"];
const pageSize = 4096;

/** Numbers from a seed. */
function randomFrom(seed: number): (limit: number) => number {
  let state = seed * 2_654_435_761 + 1;
  return (limit) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
    const mixed = Math.imul(state ^ (state >>> 12), 0x297a2d39);
    return ((mixed ^ (mixed >>> 15)) >>> 0) % limit;
  };
}

async function writeConversation(store: Store, n: number): Promise<void> {
  const place = { taskId: `task_${n}`, sessionId: `sess_${n}`, rootTaskId: `task_${n}` };
  const root = record({ ...place, userId: `user_${n % 3}`, status: "suspended" });
  const child = childRecord({
    taskId: `call_${n}`,
    rootTaskId: place.taskId,
    parentTaskId: place.taskId,
    parentSessionId: place.sessionId,
    sessionId: `sub-${n}`,
  });
  const texts = range(0, 5).map((i) =>
    message(`words of ${n} and ${i} ${"x".repeat(i * 50)}`, `${n}-${i}`),
  );
  const posts = [
    postRow({
      id: `post_${n}`,
      kind: "answer",
      sessionId: place.sessionId,
      rootTaskId: place.taskId,
    }),
    postRow({ id: `taken_${n}`, kind: "hint", sessionId: place.sessionId }),
  ];
  const appends = [
    { sessionId: place.sessionId, at: 0, messages: texts },
    { sessionId: child.sessionId, at: 0, messages: texts.slice(2) },
  ];
  const log = place.taskId;
  for (const i of range(0, 4)) {
    const first = i === 0 ? { tasks: [root, child], appends, posts } : {};
    const taken = i === 1 ? { taken: [`taken_${n}`] } : {};
    await commitOnce(
      store,
      { log, events: deltas(10, i * 10, log), ...first, ...taken },
      place.sessionId,
    );
  }
  if (n % 4 === 0) {
    const task = { id: log, object: "task", status: "completed", output: [] } as const;
    const through = { through_sequence_number: 9, through_task_seq: 9, created_at: 1 };
    const snapshot = { type: "task.snapshot", task_id: log, ...through, task } as const;
    await store.trim(log, { through: 9, tasks: [snapshot] });
  }
  if (n % 5 === 1) await acquire(store, place.sessionId, { ttlMs: 60_000 });
  await store.files.put(`files/${n}.txt`, Buffer.from(`file ${n} `.repeat(30)));
}

/** Every read of one conversation, by name. */
function readsOf(store: Store, n: number): Readonly<Record<string, () => Promise<unknown>>> {
  const log = `task_${n}`;
  return {
    events: () => store.read(log, n % 4 === 0 ? 9 : -1, 1_000),
    page: () => store.read(log, 15, 7),
    last: () => store.last(log),
    snapshot: () => store.snapshot(log),
    transcript: () => store.session(`sess_${n}`),
    end: () => store.session(`sess_${n}`, 3, 5),
    child: () => store.session(`sub-${n}`),
    root: () => store.task(log),
    call: () => store.task(`call_${n}`),
    tasks: () => store.tasks({ sessionId: `sess_${n}` }),
    conversation: () => store.tasks({ conversation: `sess_${n}` }),
    posts: () => store.posts({ conversation: `sess_${n}` }),
    info: () => store.sessions({ sessionId: `sess_${n}`, limit: 1 }),
    owner: () => store.owner(`sess_${n}`),
    file: async () => {
      const file = await store.files.get(`files/${n}.txt`);
      return file && { ...file, data: Buffer.from(file.data).toString() };
    },
  };
}

/** Every list across conversations, by name. */
function listsOf(store: Store): Readonly<Record<string, () => Promise<readonly unknown[]>>> {
  return {
    sessions: () => store.sessions({ limit: 100 }),
    users: () => store.sessions({ userId: "user_1", limit: 100 }),
    suspended: () => store.tasks({ status: ["suspended"] }),
    posts: () => store.posts({}),
    expired: () => store.expired(100),
    files: () => store.files.list(""),
    search: () => store.search({ text: "words", limit: 300 }),
  };
}

type Contents = Readonly<Record<string, unknown>>;

async function contentsOf(store: Store): Promise<Contents> {
  const contents: Record<string, unknown> = {};
  for (const n of conversations) {
    for (const [name, read] of Object.entries(readsOf(store, n))) {
      contents[`${n}: ${name}`] = await read();
    }
  }
  for (const [name, read] of Object.entries(listsOf(store))) contents[name] = await read();
  return contents;
}

let folder: string;
let path: string;
let intact: Buffer;
let expected: Contents;
beforeAll(async () => {
  folder = createFolder();
  path = join(folder, "store.db");
  const store = sqliteStore(path, { clock });
  for (const n of conversations) await writeConversation(store, n);
  expected = await contentsOf(store);
  await store.close();
  intact = readFileSync(path);
});
afterAll(() => removeFolder(folder));
beforeEach(() => restore(intact));

function restore(bytes: Buffer): void {
  for (const end of ["", "-wal", "-shm"]) rmSync(path + end, { force: true });
  writeFileSync(path, bytes);
}

function assertDocumented(error: unknown): void {
  if (!(error instanceof RivuletError) || !codes.includes(error.code)) throw error;
}

/** Reads everything; throws on false data and on an error without a documented code. Returns the rejected reads. */
async function checkReads(store: Store, isKeyAltered: boolean): Promise<readonly string[]> {
  const rejected: string[] = [];
  for (const n of conversations) {
    for (const [name, read] of Object.entries(readsOf(store, n))) {
      const found = await read().catch((error: unknown) => {
        assertDocumented(error);
        rejected.push(`${n}: ${name}`);
        return expected[`${n}: ${name}`];
      });
      const isAbsent = found === undefined || found === -1 || Array.isArray(found);
      if (isKeyAltered && isAbsent) continue;
      if (isDeepStrictEqual(found, expected[`${n}: ${name}`])) continue;
      expect(found, `${n}: ${name}`).toEqual(expected[`${n}: ${name}`]);
    }
  }
  for (const [name, read] of Object.entries(listsOf(store))) {
    const rows = await read().catch((error: unknown) => {
      assertDocumented(error);
      rejected.push(name);
      return [];
    });
    if (name === "expired") continue; // It only names candidates, each of which is read before it is taken up.
    // A list across conversations leaves out damaged ones.
    const right = expected[name] as readonly unknown[];
    const wrong = rows.filter((row) => !right.some((one) => isDeepStrictEqual(one, row)));
    expect(wrong, name).toEqual([]);
  }
  return rejected;
}

/** Opens the file and reads everything; returns undefined when the store refuses to open. */
async function openAndCheck(isKeyAltered = false): Promise<readonly string[] | undefined> {
  let store: Store;
  try {
    store = sqliteStore(path, { clock });
  } catch (error) {
    assertDocumented(error);
    return undefined;
  }
  try {
    return await checkReads(store, isKeyAltered);
  } finally {
    await store.close();
  }
}

/** The result of a statement on a separate connection. */
function rowsOf<Row>(sql: string): readonly Row[] {
  const database = new DatabaseSync(path);
  try {
    return database.prepare(sql).all() as Row[];
  } finally {
    database.close();
  }
}

interface Damage {
  readonly times: number;
  readonly apply: (bytes: Buffer, page: number, random: (limit: number) => number) => Buffer;
}

const damages: Readonly<Record<string, Damage>> = {
  "bytes are overwritten": {
    times: 80,
    apply(bytes, page, random) {
      const at = page * pageSize + random(pageSize);
      const end = Math.min(at + 1 + random(64), bytes.length);
      for (let i = at; i < end; i++) bytes[i] = random(256);
      return bytes;
    },
  },
  "a page is zeroed": {
    times: 35,
    apply: (bytes, page) => bytes.fill(0, page * pageSize, (page + 1) * pageSize),
  },
  "a page is overwritten": {
    times: 35,
    apply(bytes, page, random) {
      for (let i = page * pageSize; i < (page + 1) * pageSize; i++) bytes[i] = random(256);
      return bytes;
    },
  },
  "the file is cut off": {
    times: 20,
    apply: (bytes, _, random) => bytes.subarray(0, 1 + random(bytes.length - 1)),
  },
};

describe("a damaged database", () => {
  it.each(Object.entries(damages))(
    "returns the right data or store_corrupt when %s",
    async (name, { times, apply }) => {
      const { length: reads } = Object.keys(expected);
      const rejected: number[] = [];
      for (const seed of range(0, isDeep ? times * 10 : times)) {
        const random = randomFrom(seed + name.length * 1_000);
        const page = random(intact.length / pageSize);
        restore(apply(Buffer.from(intact), page, random));
        try {
          rejected.push((await openAndCheck())?.length ?? reads);
        } catch (error) {
          throw new Error(`seed ${seed}, page ${page}`, { cause: error });
        }
      }
      expect(rejected.some((count) => count > 0)).toBe(true);
      if (name === "the file is cut off") return;
      // Most damage concerns few conversations.
      const few = rejected.filter((count) => count < reads / 8);
      expect(few.length).toBeGreaterThan(rejected.length / 2);
    },
  );

  it("returns the right data or store_corrupt when a value of a row is altered", async () => {
    const altered: Readonly<Record<string, (column: string) => string>> = {
      TEXT: (column) => `substr(${column}, 1, length(${column}) / 2) || '7'`,
      INTEGER: (column) => `${column} + 1000`,
      REAL: (column) => `${column} + 1000`,
      BLOB: (column) => `zeroblob(length(${column}))`,
    };
    // With another key a row is not found; SQLite keeps the indexes in step with the change.
    const keys = new Set([
      ...["leases.session_id", "logs.log", "sessions.session_id", "files.path"],
      ...["tasks.task_id", "tasks.root_task_id", "tasks.session_id", "tasks.conversation"],
      ...["posts.conversation", "posts.taken"],
    ]);
    const tables = ["leases", "logs", "snapshots", "batches", "sessions", "messages", "tasks"];
    const rejected: Record<string, number> = {};
    for (const table of [...tables, "posts", "files"]) {
      restore(intact);
      const columns = rowsOf<{ name: string; type: string; pk: number }>(
        `PRAGMA table_info(${table})`,
      );
      for (const { name, type } of columns.filter(({ pk }) => pk === 0)) {
        restore(intact);
        const sql = `UPDATE ${table} SET ${name} = ${altered[type]?.(name)}
          WHERE rowid = (SELECT min(rowid) FROM ${table}) RETURNING rowid, ${name}`;
        expect(rowsOf(sql)).toHaveLength(1);
        const reads = await openAndCheck(keys.has(`${table}.${name}`));
        rejected[`${table}.${name}`] = new Set(reads?.map((read) => read.split(":")[0])).size;
      }
    }
    expect(Object.keys(rejected).length).toBeGreaterThan(45);
    expect(Object.entries(rejected).filter(([, conversations]) => conversations > 1)).toEqual([]);
  });

  it("keeps other conversations usable, and lets the damaged one be deleted", async () => {
    rowsOf("UPDATE messages SET message = replace(message, 'words of 7', 'wards of 7')");
    rowsOf("UPDATE tasks SET record = '{' WHERE task_id = 'task_7'");
    rowsOf("UPDATE leases SET fence = 0 WHERE session_id = 'sess_7'");
    const store = sqliteStore(path, { clock });
    await expect(store.session("sess_7")).rejects.toMatchObject({
      code: "store_corrupt",
      message: expect.stringContaining("message 0 of session sess_7"),
      hint: expect.stringContaining("Restore"),
    });
    const damaged = { code: "store_corrupt" };
    await expect(store.acquire("sess_7", "a", 1_000)).rejects.toMatchObject(damaged);
    expect(await store.tasks({ status: ["suspended"] })).toHaveLength(conversations.length - 1);
    await commitOnce(store, { log: "task_8", events: deltas(1) }, "sess_8");
    expect(await store.session("sess_8")).toHaveLength(5);
    expect(await store.deleteSession("sess_7")).toBe(true);
    expect(await store.session("sess_7")).toEqual([]);
    expect(await acquire(store, "sess_7")).toMatchObject({ sessionId: "sess_7" });
    await store.close();
  });

  it("has the state of an earlier commit when its -wal file is deleted", async () => {
    const store = sqliteStore(path, { clock });
    await commitOnce(store, { log: "task_2", events: deltas(3) }, "sess_2");
    const [database, log] = [readFileSync(path), readFileSync(`${path}-wal`)];
    expect(log.length).toBeGreaterThan(0);
    await store.close();
    restore(database);
    expect(await openAndCheck()).toEqual([]);
  });
});

describe("a database file", () => {
  it.each([
    ["deleted", () => rmSync(path)],
    ["replaced", () => restore(intact)],
    ["left without its -wal file", () => rmSync(`${path}-wal`)],
  ])("rejects the next commit when it is %s while it is open", async (_, remove) => {
    const store = sqliteStore(path, { clock });
    const lease = await acquire(store, "sess_2");
    remove();
    const commit = store.commit({ lease, log: "task_2", events: deltas(1) });
    await expect(commit).rejects.toMatchObject({
      code: "store_failed",
      message: expect.stringContaining("was deleted or replaced"),
    });
    await store.close();
  });
});
