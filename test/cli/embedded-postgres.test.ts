import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, expect, it, onTestFinished } from "vitest";
import { buildPage } from "../../scripts/build-page.ts";
import { type EmbeddedPostgres, openEmbeddedPostgres } from "../../src/cli/embedded-postgres.ts";
import { connect } from "../../src/client.ts";
import { postgresStore } from "../../src/postgres.ts";
import { checkStream, type TaskEvent } from "../../src/protocol.ts";
import { collect } from "../agent/support/collect.ts";
import { hasPostgres } from "../support/postgres-server.ts";
import { rivulet, serving } from "./support/program.ts";

beforeAll(() => buildPage());
const opened = new Set<EmbeddedPostgres>();
afterEach(async () => {
  const servers = [...opened];
  opened.clear();
  for (const server of servers) await server.close();
});

function createFolder(mode = 0o755): string {
  const folder = mkdtempSync(join(tmpdir(), "rivulet-embedded-"));
  chmodSync(folder, mode);
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function open(folder: string, lines: string[] = []): Promise<EmbeddedPostgres> {
  const server = await openEmbeddedPostgres(folder, (line) => lines.push(line));
  opened.add(server);
  return server;
}

async function textIn(url: string): Promise<string | undefined> {
  const store = postgresStore(url);
  try {
    const file = await store.files.get("note");
    return file && new TextDecoder().decode(file.data);
  } finally {
    await store.close();
  }
}

async function write(url: string, text: string): Promise<void> {
  const store = postgresStore(url);
  await store.files.put("note", new TextEncoder().encode(text));
  await store.close();
}

/** Kills a process, and waits until it is gone. */
async function kill(pid: number): Promise<void> {
  process.kill(pid, "SIGKILL");
  const isAlive = () => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  while (isAlive()) await new Promise((resolve) => setTimeout(resolve, 10));
}

const lockOf = (folder: string) => join(folder, "data", "postmaster.pid");
const pidOf = (folder: string) => Number(readFileSync(lockOf(folder), "utf8").split("\n")[0]);

it.runIf(hasPostgres())(
  "creates a database once and keeps its data",
  async () => {
    const folder = createFolder();
    const lines: string[] = [];
    const first = await open(folder, lines);
    expect(lines.join()).toContain("Creating a PostgreSQL database");
    await write(first.url, "kept");
    await first.close();
    expect(() => pidOf(first.folder)).toThrow("ENOENT");
    const again = await open(folder, lines);
    expect(lines).toHaveLength(1);
    expect([again.isJoined, await textIn(again.url)]).toEqual([false, "kept"]);
  },
  60_000,
);

it.runIf(hasPostgres())(
  "joins a server that runs",
  async () => {
    const folder = createFolder();
    const first = await open(folder);
    await write(first.url, "shared");
    const second = await open(folder);
    expect([second.isJoined, second.url, await textIn(second.url)]).toEqual([
      true,
      first.url,
      "shared",
    ]);
  },
  60_000,
);

it.runIf(hasPostgres() && process.getuid?.() === 0)(
  "keeps the data elsewhere if its user cannot enter the folder",
  async () => {
    const lines: string[] = [];
    const server = await open(createFolder(0o700), lines);
    onTestFinished(() => rmSync(server.folder, { recursive: true, force: true }));
    expect(server.folder).toMatch(/^\/var\/lib\/rivulet\//);
    expect(lines[0]).toContain("because its user cannot enter");
    await write(server.url, "kept");
    expect(await textIn(server.url)).toBe("kept");
    await server.close();
  },
  60_000,
);

it.runIf(hasPostgres())(
  "recovers from a lock that a killed server left",
  async () => {
    const folder = createFolder();
    const first = await open(folder);
    await write(first.url, "before the kill");
    const lock = readFileSync(lockOf(first.folder), "utf8");
    await kill(pidOf(first.folder));
    const second = await open(folder);
    expect(await textIn(second.url)).toBe("before the kill");
    await second.close();
    // The id of the killed server now belongs to another program: this one.
    writeFileSync(lockOf(second.folder), lock.replace(/^\d+/, String(process.pid)));
    const third = await open(folder);
    expect(await textIn(third.url)).toBe("before the kill");
  },
  60_000,
);

it.runIf(hasPostgres())(
  "serves the demo with workers, whose runs others continue, until its last start has ended",
  async () => {
    const folder = createFolder();
    const args = ["--demo", "--postgres", "embedded"];
    const data = join(folder, ".rivulet", "postgres");
    onTestFinished(() => {
      if (existsSync(lockOf(data))) process.kill(pidOf(data), "SIGKILL");
    });
    const first = await serving(folder, args, {}, undefined, folder);
    await first.prints(/One process serves, 2 others run the tasks/);
    const server = connect(first.url, { token: first.token });
    const run = server.agent("lead").run("Why do rivers meander?", { sessionId: "s" });
    const headers = { authorization: `Bearer ${first.token}` };
    const owners = async (): Promise<readonly string[]> => {
      const { nodes } = (await (await fetch(`${first.url}/v1/nodes`, { headers })).json()) as {
        readonly nodes: readonly { readonly id: string; readonly sessions: string[] }[];
      };
      return nodes.flatMap(({ id, sessions }) => (sessions.includes("s") ? [id] : []));
    };
    const events: TaskEvent[] = [];
    let killed: readonly string[] = [];
    let continued: readonly string[] = [];
    for await (const event of run) {
      events.push(event);
      if (event.type !== "task.text.delta" || continued.length > 0) continue;
      // A killed process says nothing, so the store still lists it with what it owned.
      const others = (await owners()).filter((id) => !killed.includes(id));
      if (killed.length > 0) {
        continued = others;
      } else if (others.length > 0) {
        killed = others;
        await fetch(`${first.url}/v1/demo/kill`, { method: "POST", headers });
      }
    }
    expect([killed.length, continued.length]).toEqual([1, 1]);
    await first.prints(/The process was killed and is back after \d+\.\d s\./);
    expect((await run.result()).text).toContain("Rivers meander because");
    const log = await collect(run.events({ after: -1, until: "tree" }));
    expect(checkStream(log)).toEqual([]);
    expect(log.slice(0, events.length)).toEqual(events);

    const second = await serving(folder, args, {}, undefined, folder);
    await second.prints(/PostgreSQL is the one that was running/);
    first.child.kill("SIGINT");
    expect(await first.ended).toBe(0);
    const sessions = connect(second.url, { token: second.token }).sessions;
    expect(await sessions.list()).toMatchObject([{ sessionId: "s" }]);
    expect(existsSync(lockOf(data))).toBe(true);
    second.child.kill("SIGINT");
    expect(await second.ended).toBe(0);
    expect(existsSync(lockOf(data))).toBe(false);
  },
  60_000,
);

it("refuses a database that is none", async () => {
  const { code, errors } = await rivulet(["serve", "--demo", "--postgres", "mysql"], {
    cwd: createFolder(),
  });
  expect([code, errors]).toEqual([
    2,
    expect.stringContaining('--postgres takes embedded or an address, got "mysql".'),
  ]);
});
