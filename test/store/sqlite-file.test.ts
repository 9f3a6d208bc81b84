import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openStore } from "../../src/store/open.ts";
import { checksumAt } from "../../src/store/sqlite/damage.ts";
import { sqliteStore } from "../../src/store/sqlite.ts";
import {
  acquire,
  commitOnce,
  delta,
  deltas,
  message,
  range,
  textOfEvent,
} from "../../src/testing/store-contract/samples.ts";
import { fixtureTime, readContent, writeContent } from "./support/fixture-content.ts";
import { createFolder, removeFolder } from "./support/folder.ts";

const fixtures = fileURLToPath(new URL("./fixtures", import.meta.url));
const clock = { now: () => fixtureTime };

let folder: string;
let path: string;
beforeEach(() => {
  folder = createFolder();
  path = join(folder, "store.db");
});
afterEach(() => removeFolder(folder));

/** The result of a query on a separate connection. */
function query(sql: string): unknown[] {
  const database = new DatabaseSync(path);
  try {
    return database.prepare(sql).all();
  } finally {
    database.close();
  }
}

function codeOf(attempt: () => unknown): unknown {
  try {
    return attempt();
  } catch (error) {
    return (error as { code: unknown }).code;
  }
}

describe("a database of an earlier version", () => {
  const names = readdirSync(fixtures).filter((name) => name.endsWith(".db"));

  it("has a fixture for every schema version from 3 on", async () => {
    await sqliteStore(path).close();
    const [present] = query("PRAGMA user_version") as { user_version: number }[];
    expect(names).toEqual(range(3, (present?.user_version ?? 0) + 1).map((n) => `schema-${n}.db`));
  });

  for (const name of names) {
    it(`opens with all its data: ${name}`, async () => {
      const fresh = sqliteStore(join(folder, "fresh.db"), { clock });
      await writeContent(fresh);
      const expected = await readContent(fresh);
      await fresh.close();
      copyFileSync(join(fixtures, name), path);
      for (const _ of ["once", "and again"]) {
        const store = sqliteStore(path, { clock });
        expect(await readContent(store)).toEqual(expected);
        await store.close();
      }
      const store = sqliteStore(path, { clock });
      await commitOnce(store, { events: deltas(1) });
      expect(await store.last("task_1")).toBe((expected.last[0] ?? 0) + 1);
      await store.close();
    });
  }
});

it("a migrated session begins where its last compaction says", async () => {
  copyFileSync(join(fixtures, "schema-4.db"), path);
  const database = new DatabaseSync(path);
  const of = database.prepare("SELECT number FROM sessions WHERE session_id = ?");
  const { number } = of.get("sub-1") as { number: number };
  const add = database.prepare(
    "INSERT INTO messages (session, position, message, checksum) VALUES (?, ?, ?, ?)",
  );
  const { messages } = database
    .prepare("SELECT messages FROM sessions WHERE number = ?")
    .get(number) as { messages: number };
  // The message replaces the last one, because the length is a part of the row's checksum.
  database
    .prepare("DELETE FROM messages WHERE session = ? AND position = ?")
    .run(number, messages - 1);
  const block = { type: "compaction", summary: "…", keepFrom: 1 };
  const text = JSON.stringify({ id: "c", role: "tool", content: [block] });
  add.run(number, messages - 1, text, checksumAt(number, messages - 1, text));
  database.close();
  const store = sqliteStore(path, { clock });
  const [session] = await store.sessions({ sessionId: "sub-1", limit: 1 });
  expect(session).toMatchObject({ messages, visibleFrom: 1 });
  expect((await store.session("sub-1", 1)).at(-1)?.id).toBe("c");
  await store.close();
});

it("a migrated task waits for its approvals until they expire", async () => {
  copyFileSync(join(fixtures, "schema-6.db"), path);
  const database = new DatabaseSync(path);
  const { number } = database
    .prepare("SELECT number FROM sessions WHERE session_id = 'sub-1'")
    .get() as { number: number };
  const replace = database.prepare(
    "UPDATE messages SET message = ?, checksum = ? WHERE session = ? AND position = ?",
  );
  const ask = (position: number, approvalId: string, expiresAt: number) => {
    const block = { type: "suspension", callId: "c", kind: "approval", approvalId, expiresAt };
    const text = JSON.stringify({ id: approvalId, role: "tool", content: [block] });
    replace.run(text, checksumAt(number, position, text), number, position);
  };
  ask(0, "a", 10);
  ask(1, "b", 20);
  const answer = { type: "answer", callId: "c", approvalId: "a", decision: "deny" };
  const text = JSON.stringify({ id: "answer", role: "user", content: [answer] });
  replace.run(text, checksumAt(number, 2, text), number, 2);
  database.close();
  const store = sqliteStore(path, { clock });
  expect(await store.tasks({ dueBy: 19 })).toEqual([]);
  expect((await store.tasks({ dueBy: 20 })).map(({ taskId }) => taskId)).toEqual(["call_1"]);
  await store.close();
});

describe("an incompatible file", () => {
  it("is rejected unchanged when a later version wrote it", async () => {
    await sqliteStore(path).close();
    query("PRAGMA user_version = 99");
    const before = readFileSync(path);
    expect(() => sqliteStore(path)).toThrow(/schema version 99/);
    expect(codeOf(() => sqliteStore(path))).toBe("store_too_new");
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it("is rejected unchanged when an unreleased version wrote it", async () => {
    await sqliteStore(path).close();
    query("PRAGMA user_version = 2");
    const before = readFileSync(path);
    expect(codeOf(() => sqliteStore(path))).toBe("store_too_old");
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it("is rejected unchanged when another program wrote it", () => {
    query("CREATE TABLE notes (text TEXT) STRICT");
    const before = readFileSync(path);
    expect(codeOf(() => sqliteStore(path))).toBe("not_a_store");
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it("is rejected unchanged when it is not a database", () => {
    writeFileSync(path, "Dear diary, ".repeat(1000));
    expect(codeOf(() => sqliteStore(path))).toBe("store_failed");
    expect(readFileSync(path, "utf8")).toBe("Dear diary, ".repeat(1000));
  });

  it("is rejected when it is a folder or has a file as its folder", () => {
    expect(codeOf(() => sqliteStore(folder))).toBe("store_failed");
    writeFileSync(path, "");
    expect(codeOf(() => sqliteStore(join(path, "below.db")))).toBe("store_failed");
  });

  it("is rejected when SQLite would keep it in memory", () => {
    for (const nowhere of ["", ":memory:"]) {
      expect(codeOf(() => sqliteStore(nowhere))).toBe("store_failed");
    }
  });

  it("is accepted when it is empty", async () => {
    writeFileSync(path, "");
    await sqliteStore(path).close();
    expect(query("PRAGMA journal_mode")).toEqual([{ journal_mode: "wal" }]);
  });
});

describe("a database file", () => {
  it("is created with its folder", async () => {
    const deep = join(folder, "a", "b", "store.db");
    await sqliteStore(deep).close();
    expect(existsSync(deep)).toBe(true);
  });

  it("may have a name that looks like a URI", async () => {
    const odd = join(folder, "file:x?mode=memory%20.db");
    await sqliteStore(odd).close();
    expect(existsSync(odd)).toBe(true);
  });

  it("has one row for the events of a commit, and several for many or large events", async () => {
    const store = sqliteStore(path);
    const lease = await acquire(store);
    await store.commit({ lease, log: "task_1", events: deltas(100) });
    expect(query("SELECT log, last FROM batches")).toEqual([{ log: 1, last: 99 }]);
    await store.commit({ lease, log: "task_2", events: deltas(10_000) });
    await store.commit({ lease, log: "task_3", events: range(0, 8).map(() => delta(large)) });
    await store.close();
    const rows = query(
      `SELECT log, count(*) AS rows, max(json_array_length(events)) AS events
       FROM batches GROUP BY log`,
    );
    expect(rows).toEqual([
      { log: 1, rows: 1, events: 100 },
      { log: 2, rows: 40, events: 256 },
      { log: 3, rows: 8, events: 1 },
    ]);
  });

  const large = "x".repeat(100_000);

  it("contains all writes from before close()", async () => {
    const store = sqliteStore(path);
    const lease = await acquire(store);
    const commits = range(0, 20).map((n) =>
      store.commit({ lease, log: "task_1", events: [delta(String(n))] }),
    );
    const version = store.files.put("a", new Uint8Array([1]));
    const release = store.release(lease);
    await store.close();
    await Promise.all([...commits, version, release]);
    const again = sqliteStore(path);
    expect((await again.read("task_1", -1, 100)).map(textOfEvent)).toEqual(
      range(0, 20).map(String),
    );
    expect(await again.files.get("a")).toBeDefined();
    await again.close();
  });

  it("is not affected by later changes to the given objects", async () => {
    const store = sqliteStore(path);
    const lease = await acquire(store);
    const event = delta("as given");
    const input = message("as given");
    const data = new Uint8Array([1, 2, 3]);
    const appends = [{ sessionId: "sess_1", at: 0, messages: [input] }];
    const writes = [
      store.commit({ lease, log: "task_1", events: [event], appends }),
      store.files.put("a", data),
    ];
    (event as { delta: string }).delta = "changed";
    (input as { id: string }).id = "changed";
    data.fill(0);
    await Promise.all(writes);
    expect((await store.read("task_1", -1, 1)).map(textOfEvent)).toEqual(["as given"]);
    expect(await store.session("sess_1")).toEqual([message("as given")]);
    expect((await store.files.get("a"))?.data).toEqual(new Uint8Array([1, 2, 3]));
    await store.close();
  });

  it("rejects what cannot be encoded without affecting concurrent writes", async () => {
    const store = sqliteStore(path);
    const lease = await acquire(store);
    const circle: { self?: unknown } = {};
    circle.self = circle;
    const bad = { ...delta("bad"), extra: circle };
    const results = await Promise.allSettled([
      store.commit({ lease, log: "task_1", events: [delta("before")] }),
      store.commit({ lease, log: "task_1", events: [bad] }),
      store.commit({ lease, log: "half \ud83d", events: [delta("bad")] }),
      store.files.put("a\0b", new Uint8Array()),
      store.commit({ lease, log: "task_1", events: [delta("after")] }),
    ]);
    expect(results.map((result) => result.status)).toEqual([
      "fulfilled",
      "rejected",
      "rejected",
      "rejected",
      "fulfilled",
    ]);
    expect(results[2]).toMatchObject({ reason: { code: "invalid_id" } });
    expect(results[3]).toMatchObject({ reason: { code: "invalid_id" } });
    expect((await store.read("task_1", -1, 10)).map(textOfEvent)).toEqual(["before", "after"]);
    await expect(store.sessions({ userId: "\ud83d", limit: 1 })).rejects.toMatchObject({
      code: "invalid_id",
    });
    await store.close();
  });
});

describe("openStore", () => {
  it("returns one store per path until it is closed", async () => {
    const first = openStore(`sqlite:${path}`);
    expect(openStore(`sqlite:${resolve(folder, ".", "store.db")}`)).toBe(first);
    expect(openStore(`sqlite:${join(folder, "other.db")}`)).not.toBe(first);
    await first.close();
    const next = openStore(`sqlite:${path}`);
    expect(next).not.toBe(first);
    expect(await next.last("task_1")).toBe(-1);
    await first.close();
    expect(openStore(`sqlite:${path}`)).toBe(next);
    await next.close();
    await openStore(`sqlite:${join(folder, "other.db")}`).close();
  });

  it("rejects an unknown name", () => {
    for (const name of ["sqlite:", "sqlite", "mysql://x", ""]) {
      expect(codeOf(() => openStore(name))).toBe("unknown_store");
    }
  });
});
