import { closeSync, lstatSync, openSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { systemClock } from "../../base/clock.ts";
import { ignoreCode, openDirectory, type Root } from "./directory.ts";
import { fileError, notRegular } from "./file-error.ts";
import { reservedPrefix } from "./path.ts";

/** Runs one function at a time across all processes that use the same root. */
export type Lock = <T>(work: () => Promise<T>) => Promise<T>;

const lockFile = "files.lock";
const busy = 5; // SQLITE_BUSY
const maxPauseMs = 4;
const timeoutMs = 10_000;

/**
 * Creates a lock on a root. It is an exclusive transaction on an empty SQLite database: the only lock in Node that the
 * system releases when its holder dies.
 */
export function lockOf(root: () => Promise<Root>): Lock {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const result = last.then(async () => {
      const unlock = await acquire(await root());
      try {
        return await work();
      } finally {
        unlock();
      }
    });
    last = result.catch(() => {});
    return result;
  };
}

async function acquire(root: Root): Promise<() => void> {
  const { DatabaseSync } = await import("node:sqlite"); // only writers need it
  const place = { path: "", base: [reservedPrefix], names: [] };
  const directory = await openDirectory(root, place, { create: true });
  try {
    if (!(await directory.holds())) throw notRegular(lockFile, true);
    createIfMissing(directory.at(lockFile));
    if (!lstatSync(directory.at(lockFile)).isFile()) throw notRegular(lockFile, true);
    const url = pathToFileURL(directory.at(lockFile));
    url.searchParams.set("mode", "rw"); // creates nothing behind a link that appears only now
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const database = new DatabaseSync(url, { timeout: 0 });
      try {
        database.exec("PRAGMA journal_mode = OFF; BEGIN EXCLUSIVE");
        return () => database.close();
      } catch (error) {
        database.close();
        if (((error as { errcode?: number }).errcode ?? 0) % 256 !== busy) throw error;
      }
      if (performance.now() > deadline) {
        const message = `Other writers have kept the files locked for ${timeoutMs} ms.`;
        throw fileError("file_failed", message, "Try again later.");
      }
      // Random, so that two waiting processes do not collide again.
      await systemClock.sleep(Math.random() * maxPauseMs);
    }
  } finally {
    await directory.close();
  }
}

/** Synchronous, because closing a file releases every lock that this process holds on it. */
function createIfMissing(at: string): void {
  try {
    closeSync(openSync(at, "wx"));
  } catch (error) {
    ignoreCode("EEXIST")(error);
  }
}
