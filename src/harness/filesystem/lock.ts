import { lstat } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { createFile, ignoring, openDirectory, type Root } from "./directory.ts";
import { fileError, notRegular } from "./file-error.ts";
import { reservedPrefix } from "./name.ts";

/** Runs one piece of work at a time, among all processes that work in the same root. */
export type Lock = <T>(work: () => Promise<T>) => Promise<T>;

const lockFile = "files.lock";
const busy = 5; // SQLITE_BUSY
const retryMs = 2;
const patienceMs = 10_000;

/**
 * A lock on a root. SQLite lends it, from an empty database: it is the one lock in Node that the system takes back when
 * its holder dies, so that nothing is ever left locked.
 */
export function lockOf(root: () => Promise<Root>): Lock {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const turn = last.then(async () => {
      const unlock = await acquire(await root());
      try {
        return await work();
      } finally {
        unlock();
      }
    });
    last = turn.catch(() => {});
    return turn;
  };
}

async function acquire(root: Root): Promise<() => void> {
  const { DatabaseSync } = await import("node:sqlite"); // only writers need it
  const place = { path: "", base: [reservedPrefix], names: [] };
  const directory = await openDirectory(root, place, { create: true });
  try {
    // Not opened when it is there: to close it would give up a lock that this process has on it.
    await createFile(directory, lockFile).then((handle) => handle.close(), ignoring("EEXIST"));
    if (!(await lstat(directory.at(lockFile))).isFile()) throw notRegular(lockFile, true);
    const url = pathToFileURL(directory.at(lockFile));
    url.searchParams.set("mode", "rw"); // creates nothing, should somebody put a link there just now
    const until = performance.now() + patienceMs;
    for (;;) {
      const database = new DatabaseSync(url, { timeout: 0 });
      try {
        database.exec("PRAGMA journal_mode = OFF; BEGIN EXCLUSIVE");
        return () => database.close();
      } catch (error) {
        database.close();
        if ((error as { errcode?: number }).errcode !== busy) throw error;
      }
      if (performance.now() > until) {
        throw fileError(
          "file_failed",
          "The files are being written by somebody else all the time.",
        );
      }
      await new Promise((resolve) => setTimeout(resolve, retryMs));
    }
  } finally {
    await directory.close();
  }
}
