import { closeSync, lstatSync, openSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { systemClock } from "../../protocol/clock.ts";
import { ignoring, openDirectory, type Root } from "./directory.ts";
import { fileError, notRegular } from "./file-error.ts";
import { reservedPrefix } from "./name.ts";

/** Runs one piece of work at a time, among all processes that work in the same root. */
export type Lock = <T>(work: () => Promise<T>) => Promise<T>;

const lockFile = "files.lock";
const busy = 5; // SQLITE_BUSY
const maxPauseMs = 4;
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
    if (!(await directory.holds())) throw notRegular(lockFile, true);
    makeFile(directory.at(lockFile));
    if (!lstatSync(directory.at(lockFile)).isFile()) throw notRegular(lockFile, true);
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
        if (((error as { errcode?: number }).errcode ?? 0) % 256 !== busy) throw error;
      }
      if (performance.now() > until) {
        throw fileError(
          "file_failed",
          "The files are being written by somebody else all the time.",
          "Try again later.",
        );
      }
      // At random, so that two who wait for each other's lock do not go on in step.
      await systemClock.sleep(Math.random() * maxPauseMs);
    }
  } finally {
    await directory.close();
  }
}

/**
 * Makes an empty file where there is none; one that is there is not opened. All of it at once, so that nobody in this
 * process has a lock on the file yet when it is closed: to close it gives up every lock that the process has on it.
 */
function makeFile(at: string): void {
  try {
    closeSync(openSync(at, "wx"));
  } catch (error) {
    ignoring("EEXIST")(error);
  }
}
