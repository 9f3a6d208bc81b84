// Writes steps to a database until it is killed or done, and prints each result: `deltas n` and `step n` for durable
// commits, `failed n code` for a rejected one, which it retries.
// node crash-writer.ts <path> <steps>
import { writeSync } from "node:fs";
import type { Commit, Lease, Store } from "../../../src/contract/store.ts";
import { sqliteStore } from "../../../src/store/sqlite.ts";
import { log, sessionId, stepCommits } from "./crash-steps.ts";

const [path = "", steps = "0"] = process.argv.slice(2);

function say(line: string): void {
  writeSync(1, `${line}\n`);
}

function codeOf(error: unknown): string {
  return String((error as { code?: unknown }).code);
}

/** Retries while the disk fails, and prints each failure. */
async function persist<Result>(name: string, attempt: () => Result): Promise<Awaited<Result>> {
  for (let tries = 1; ; tries++) {
    try {
      return await attempt();
    } catch (error) {
      say(`failed ${name} ${codeOf(error)}`);
      if (codeOf(error) !== "store_failed" || tries === 10_000) throw error;
    }
  }
}

const store: Store = await persist("open", () => sqliteStore(path));
const acquire = async () => {
  // Expires immediately, so that a process after a kill need not wait; it holds until then.
  const lease = await store.acquire(sessionId, "writer", 0);
  if (lease === undefined) throw new Error("another process owns the conversation");
  return lease;
};
const lease: Lease = await persist("acquire", acquire);
const done = (await store.session(sessionId)).length;
say(`from ${done}`);
for (let n = done; n < done + Number(steps); n++) {
  const { deltas, step } = stepCommits(n);
  const commits = { deltas: { lease, log, ...deltas }, step: { lease, log, ...step } };
  const write = async (name: keyof typeof commits, following: readonly Commit[] = []) => {
    const written = await persist(`${name}-${n}`, () => store.commit(commits[name], following));
    say(`${name} ${n}`);
    return written;
  };
  if (n % 2 === 0) {
    // Concurrent, so that they share a transaction.
    await Promise.all([write("deltas"), write("step")]);
  } else if ((await write("deltas", [commits.step])) === 2) say(`step ${n}`);
  else await write("step");
}
await store.close();
say("closed");
