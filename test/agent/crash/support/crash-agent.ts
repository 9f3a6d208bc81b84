// Drives a conversation to its end, or until it kills or stops itself right before or after one of its commits.
// Says `started`, `stopping` and at last the number of its commits, or the code of what it failed with.
// node crash-agent.ts <folder> steps|children [<number of the commit> before|after SIGKILL|SIGSTOP]
import { writeSync } from "node:fs";
import { join } from "node:path";
import type { Store } from "../../../../src/index.ts";
import { sqliteStore } from "../../../../src/index.ts";
import { type CastName, casts, driveToEnd, withShortLeases } from "./crash-cast.ts";

const [folder = "", cast = "steps", at = "-1", when = "", signal = ""] = process.argv.slice(2);
const opened = sqliteStore(join(folder, "store.db"));
let commits = 0;

function say(line: string): void {
  writeSync(1, `${line}\n`);
}

function reach(number: number, moment: string): void {
  if (number !== Number(at) || moment !== when) return;
  say("stopping");
  process.kill(process.pid, signal);
}

const store: Store = {
  ...withShortLeases(opened),
  async commit(commit, following) {
    if (at === "-1") {
      const written = await opened.commit(commit, following);
      commits += written;
      return written;
    }
    const number = commits++;
    reach(number, "before");
    const written = await opened.commit(commit);
    reach(number, "after");
    return written;
  },
};
say("started");
try {
  await driveToEnd(casts[cast as CastName](store, folder), store);
  say(String(commits));
} catch (error) {
  say(String((error as { code?: unknown }).code ?? error));
  process.exitCode = 1;
}
await opened.close();
