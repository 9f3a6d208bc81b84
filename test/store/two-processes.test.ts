import { spawn } from "node:child_process";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { textOf } from "../../src/contract/message.ts";
import { sqliteStore } from "../../src/store/sqlite.ts";
import { isDeep } from "../../src/testing/deep.ts";
import {
  acquire,
  delta,
  follow,
  numberOf,
  postRow,
  range,
  record,
  take,
  textOfEvent,
} from "../../src/testing/store-contract/samples.ts";
import { log, sessionId } from "./support/crash-steps.ts";
import { createFolder, removeFolder } from "./support/folder.ts";
import { nodeCommand, startWriter } from "./support/run-writer.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = createFolder();
  path = join(folder, "store.db");
});
afterEach(() => removeFolder(folder));

const rival = fileURLToPath(new URL("./support/rival.ts", import.meta.url));
const openers = fileURLToPath(new URL("./support/openers.ts", import.meta.url));
const enqueuer = fileURLToPath(new URL("./support/enqueuer.ts", import.meta.url));
const watcher = fileURLToPath(new URL("./support/watcher.ts", import.meta.url));

/** Runs a program; resolves with its output. */
function run(file: string, ...args: readonly string[]): Promise<string> {
  const [node, ...options] = nodeCommand;
  const child = spawn(node, [...options, file, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  let problems = "";
  child.stdout.setEncoding("utf8").on("data", (piece: string) => {
    output += piece;
  });
  child.stderr.setEncoding("utf8").on("data", (piece: string) => {
    problems += piece;
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) =>
      code === 0 ? resolve(output) : reject(new Error(`exit code ${code}: ${problems}`)),
    );
  });
}

describe("two processes on one database", () => {
  it("lose no update while they write the same rows", async () => {
    const rivals = ["ann", "bob"];
    const each = isDeep ? 2_000 : 250;
    const conflicts = await Promise.all(rivals.map((name) => run(rival, path, name, String(each))));
    const store = sqliteStore(path);
    const file = await store.files.get("count");
    expect(new TextDecoder().decode(file?.data)).toBe(String(rivals.length * each));
    const appended = (await store.session("sess_shared")).map((message) => textOf(message.content));
    const logged = (await store.read("task_shared", -1, 1_000_000)).map(textOfEvent);
    await store.close();
    for (const texts of [appended, logged]) {
      expect(texts).toHaveLength(rivals.length * each);
      for (const name of rivals) {
        const own = texts.filter((text) => text.startsWith(name));
        expect(own).toEqual(range(0, each).map((n) => `${name} ${n}`));
      }
    }
    console.info(`retries: ${rivals.map((name, i) => `${name} ${conflicts[i]?.trim()}`)}`);
  });

  it("can create it at the same time", async () => {
    for (const round of range(0, isDeep ? 50 : 3)) {
      const fresh = join(folder, `${round}.db`);
      const names = range(0, 4).map((i) => `rival${i}`);
      await Promise.all(names.map((name) => run(rival, fresh, name, "1")));
      const store = sqliteStore(fresh);
      expect(await store.session("sess_shared")).toHaveLength(names.length);
      await store.close();
    }
  });

  it("can create it in the same instant", async () => {
    const fresh = join(folder, "fresh");
    expect(await run(openers, fresh, String(isDeep ? 400 : 40))).toBe("0\n");
  });

  it("read each other's events once each and in order", async () => {
    const steps = isDeep ? 500 : 40;
    const store = sqliteStore(path);
    const writer = startWriter(path, { steps });
    const readers = [-1, 7].map((after) =>
      take(follow(store, log, { after, limit: 13 }), steps * 5 - 1 - after),
    );
    const [all, most] = (await Promise.all(readers)).map((events) => events.map(numberOf));
    expect(all).toEqual(range(0, steps * 5));
    expect(most).toEqual(range(8, steps * 5));
    expect(await writer.ended).toMatchObject({ code: 0, problems: "" });
    await store.close();
  });

  it("exit although a watcher is active", async () => {
    await run(watcher, path);
  });

  it("reject a process that was stopped for longer than its lease", async () => {
    const store = sqliteStore(path);
    const writer = startWriter(path, { steps: 1_000_000 });
    await writer.printed(10);
    await stopBetweenWrites(writer.process.pid as number);
    const lease = await acquire(store, sessionId);
    await store.commit({ lease, log, events: [delta("taken over")] });
    writer.process.kill("SIGCONT");
    const { lines, code } = await writer.ended;
    expect(code).toBe(1);
    expect(lines.at(-1)).toMatch(/^failed .* fenced$/);
    const events = await store.read(log, -1, 1_000_000);
    expect(events.at(-1)).toMatchObject({ delta: "taken over" });
    await store.close();
  });

  /** Stops a process while it does not hold the lock. */
  async function stopBetweenWrites(pid: number): Promise<void> {
    const probe = new DatabaseSync(path, { timeout: 0 });
    for (;;) {
      process.kill(pid, "SIGSTOP");
      try {
        probe.exec("BEGIN IMMEDIATE; ROLLBACK");
        probe.close();
        return;
      } catch {
        process.kill(pid, "SIGCONT");
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    }
  }

  it("never run two tasks of a session when one begins and the other enqueues", async () => {
    const count = isDeep ? 2_000 : 200;
    const store = sqliteStore(path);
    const leases = await Promise.all(range(0, count).map((n) => acquire(store, `sess_${n}`)));
    const remote = run(enqueuer, path, String(count));
    while ((await store.task("remote_0")) === undefined) await new Promise(setImmediate);
    let begun = 0;
    for (const [n, lease] of leases.entries()) {
      if (n === 0) continue;
      // Both processes pause at random, so that either may be ahead.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 3));
      const local = record({ taskId: `local_${n}`, sessionId: lease.sessionId });
      await store
        .commit({ lease, log: local.taskId, tasks: [local], begins: local.taskId })
        .then(() => {
          begun += 1;
        })
        .catch((error) => expect(error).toMatchObject({ code: "agent_busy" }));
    }
    const queued = Number(await remote);
    for (const n of range(1, count)) {
      const tasks = (await store.tasks({ sessionId: `sess_${n}` })).map(({ taskId }) => taskId);
      const local = `local_${n}`;
      const remote = `remote_${n}`;
      const possible = [[local], [remote], ...(n % 2 === 1 ? [[local, remote]] : [])];
      expect(possible).toContainEqual(tasks);
    }
    console.info(`of ${count} sessions ${begun} were begun here, ${queued} queued elsewhere`);
    await store.close();
  });

  it("answer owner() while the other holds the write lock", async () => {
    const store = sqliteStore(path);
    await acquire(store, "sess_1", { ttlMs: 60_000 });
    const other = new DatabaseSync(path);
    other.exec("BEGIN IMMEDIATE");
    expect((await store.owner("sess_1"))?.leftMs).toBeGreaterThan(50_000);
    expect(await store.owner("sess_2")).toBeUndefined();
    other.exec("ROLLBACK");
    other.close();
    await store.close();
  });

  it("wait for the write lock without blocking the event loop", async () => {
    const store = sqliteStore(path);
    const other = new DatabaseSync(path);
    other.exec("BEGIN IMMEDIATE");
    let turns = 0;
    const ticking = setInterval(() => {
      turns += 1;
    }, 1);
    const posted = store.post([postRow()]);
    const second = store.files.put("a", new Uint8Array([1]));
    await new Promise((resolve) => setTimeout(resolve, 800));
    other.exec("COMMIT");
    other.close();
    expect(await posted).toEqual([postRow()]);
    expect(await second).toBeGreaterThan(0);
    clearInterval(ticking);
    expect(turns).toBeGreaterThan(20);
    await store.close();
  });
});
