import type { Database } from "./database.ts";

const pollMs = 50;

/** Looks for what other connections have written, for as long as it is started. */
export interface ForeignChanges {
  start(): void;
  stop(): void;
}

/** Calls `changed` after other connections, of this process or another, have committed. */
export function foreignChanges(database: Database, changed: () => void): ForeignChanges {
  let timer: ReturnType<typeof setInterval> | undefined;
  let seen: number | undefined;

  /** Changes with the commits of all connections but this one; costs a look at shared memory. */
  function version(): number | undefined {
    try {
      return database.get<{ data_version: number }>("PRAGMA data_version")?.data_version;
    } catch {
      return undefined; // Whoever reads hears of the failure; the next poll may fare better.
    }
  }

  function poll(): void {
    const now = version();
    if (now === undefined || now === seen) return;
    seen = now;
    changed();
  }

  return {
    start() {
      if (timer !== undefined) return;
      seen = version();
      // Watching alone does not keep a process alive.
      timer = setInterval(poll, pollMs).unref();
    },
    stop() {
      clearInterval(timer);
      timer = undefined;
    },
  };
}
