import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  acquire,
  commitOnce,
  delta,
  deltas,
  message,
  range,
  textOfEvent,
} from "../../src/store/contract/samples.ts";
import { openStore } from "../../src/store/open.ts";
import { sqliteStore } from "../../src/store/sqlite.ts";
import { fixtureTime, readContent, writeContent } from "./support/fixture-content.ts";
import { createFolder, removeFolder } from "./support/folder.ts";

const fixtures = fileURLToPath(new URL("./fixtures/", import.meta.url));
const clock = { now: () => fixtureTime };

let folder: string;
let path: string;
beforeEach(() => {
  folder = createFolder();
  path = join(folder, "store.db");
});
afterEach(() => removeFolder(folder));

/** The answer to a query by a program that is not a store. */
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

  it("is kept for every version of the schema", async () => {
    await sqliteStore(path).close();
    const [present] = query("PRAGMA user_version") as { user_version: number }[];
    expect(names).toEqual(range(1, (present?.user_version ?? 0) + 1).map((n) => `schema-${n}.db`));
  });

  for (const name of names) {
    it(`still opens and holds what it held: ${name}`, async () => {
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

describe("a file that is not a database of this version", () => {
  it("is refused when a later version wrote it, and is left as it was", async () => {
    await sqliteStore(path).close();
    query("PRAGMA user_version = 99");
    const before = readFileSync(path);
    expect(() => sqliteStore(path)).toThrow(/schema version 99/);
    expect(codeOf(() => sqliteStore(path))).toBe("store_too_new");
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it("is refused when another program wrote it, and is left as it was", () => {
    query("CREATE TABLE notes (text TEXT) STRICT");
    const before = readFileSync(path);
    expect(codeOf(() => sqliteStore(path))).toBe("not_a_store");
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it("is refused when it is no database at all, and is left as it was", () => {
    writeFileSync(path, "Dear diary, ".repeat(1000));
    expect(codeOf(() => sqliteStore(path))).toBe("store_failed");
    expect(readFileSync(path, "utf8")).toBe("Dear diary, ".repeat(1000));
  });

  it("is refused when it is a folder, or cannot have one", () => {
    expect(codeOf(() => sqliteStore(folder))).toBe("store_failed");
    writeFileSync(path, "");
    expect(codeOf(() => sqliteStore(join(path, "below.db")))).toBe("store_failed");
  });

  it("is refused when nothing would be kept", () => {
    for (const nowhere of ["", ":memory:"]) {
      expect(codeOf(() => sqliteStore(nowhere))).toBe("store_failed");
    }
  });

  it("may be empty", async () => {
    writeFileSync(path, "");
    await sqliteStore(path).close();
    expect(query("PRAGMA journal_mode")).toEqual([{ journal_mode: "wal" }]);
  });
});

describe("a database file", () => {
  it("is created together with its folder", async () => {
    const deep = join(folder, "a", "b", "store.db");
    await sqliteStore(deep).close();
    expect(existsSync(deep)).toBe(true);
  });

  it("may have a name that looks like a URI", async () => {
    const odd = join(folder, "file:x?mode=memory%20.db");
    await sqliteStore(odd).close();
    expect(existsSync(odd)).toBe(true);
  });

  it("has one row for the events of a commit, some when they are many or large", async () => {
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

  it("holds everything that was asked for before it was closed", async () => {
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

  it("holds what was given, not what the giver made of it afterwards", async () => {
    const store = sqliteStore(path);
    const lease = await acquire(store);
    const event = delta("as given");
    const said = message("as given");
    const data = new Uint8Array([1, 2, 3]);
    const appends = [{ sessionId: "sess_1", at: 0, messages: [said] }];
    const writes = [
      store.commit({ lease, log: "task_1", events: [event], appends }),
      store.files.put("a", data),
    ];
    (event as { delta: string }).delta = "changed";
    (said as { id: string }).id = "changed";
    data.fill(0);
    await Promise.all(writes);
    expect((await store.read("task_1", -1, 1)).map(textOfEvent)).toEqual(["as given"]);
    expect(await store.session("sess_1")).toEqual([message("as given")]);
    expect((await store.files.get("a"))?.data).toEqual(new Uint8Array([1, 2, 3]));
    await store.close();
  });

  it("refuses what cannot be kept, and its neighbours do not suffer", async () => {
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

describe("a store that is named", () => {
  it("is one for all who name it, until it is closed", async () => {
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

  it("must be named as one", () => {
    for (const name of ["sqlite:", "sqlite", "mysql://x", ""]) {
      expect(codeOf(() => openStore(name))).toBe("unknown_store");
    }
  });
});
