import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it, onTestFinished } from "vitest";
import { type EmbeddedPostgres, openEmbeddedPostgres } from "../../src/cli/embedded-postgres.ts";
import { postgresStore } from "../../src/postgres.ts";
import { hasPostgres } from "../support/postgres-server.ts";

const opened = new Set<EmbeddedPostgres>();
afterEach(async () => {
  for (const server of opened) await server.close();
  opened.clear();
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
    process.kill(pidOf(first.folder), "SIGKILL");
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
