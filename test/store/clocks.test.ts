import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Store } from "../../src/contract/store.ts";
import { sqliteStore } from "../../src/store/sqlite.ts";
import { createFolder, removeFolder } from "./support/folder.ts";
import { nodeCommand } from "./support/run-writer.ts";

const holder = fileURLToPath(new URL("./support/lease-holder.ts", import.meta.url));
const bun = resolve("tools/runtimes/node_modules/.bin/bun");
const hour = 3_600_000;
const ttlMs = 600;

let folder: string;
let path: string;
let child: ChildProcess | undefined;
beforeEach(() => {
  folder = createFolder();
  path = join(folder, "store.db");
});
afterEach(() => {
  child?.kill("SIGKILL");
  removeFolder(folder);
});

/** Starts a process that takes the lease of a session and keeps renewing it; its date is shifted. */
async function hold(sessionId: string, shift: number, command: readonly string[] = nodeCommand) {
  const [program = "", ...options] = command;
  const args = [...options, holder, path, sessionId, String(ttlMs), String(shift)];
  child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  const [said] = await once(child.stdout as NonNullable<typeof child.stdout>, "data");
  expect(String(said).trim()).toBe("held");
  return child;
}

/** How often a lease is asked for in vain until it is granted; `onAsk` is called before each time. */
async function asksUntilGranted(store: Store, onAsk: (n: number) => void): Promise<number> {
  for (let n = 0; ; n++) {
    onAsk(n);
    if (await store.acquire("s", "other", ttlMs)) return n;
    await new Promise((done) => setTimeout(done, ttlMs / 8));
  }
}

const asksOfFourLeases = 32;

describe.each([
  ["another process of this boot", nodeCommand],
  ["a process with a clock of its own", [bun]],
])("the lease of %s", (_, command) => {
  it.each([
    ["is an hour behind", -hour],
    ["is an hour ahead", hour],
  ])("stays with its owner when the owner's date %s, and ends with it", async (_title, shift) => {
    const owner = await hold("s", shift, command);
    const store = sqliteStore(path);
    let diedAt = Number.POSITIVE_INFINITY;
    const asked = await asksUntilGranted(store, (n) => {
      if (n !== asksOfFourLeases) return;
      owner.kill("SIGKILL");
      diedAt = n;
    });
    expect(asked).toBeGreaterThan(diedAt);
    await store.close();
  });
});

it("a lease stays with its owner when the date of another process jumps", async () => {
  await hold("s", 0);
  const store = sqliteStore(path);
  const realNow = Date.now;
  try {
    for (const shift of [hour, -hour, 24 * hour]) {
      Date.now = () => realNow() + shift;
      expect(await store.acquire("s", "other", ttlMs)).toBeUndefined();
      expect((await store.owner("s"))?.leftMs).toBeLessThanOrEqual(ttlMs);
    }
  } finally {
    Date.now = realNow;
    await store.close();
  }
});

it("a lease from before a reboot ends after its time", async () => {
  const first = sqliteStore(path, { clock: { now: () => 9e12 } }); // no clock of this boot
  expect(await first.acquire("s", "gone", ttlMs)).toBeDefined();
  await first.close();
  const store = sqliteStore(path);
  const asked = await asksUntilGranted(store, () => {});
  expect(asked).toBeGreaterThan(0);
  await store.close();
});
