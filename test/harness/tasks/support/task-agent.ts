// Works on a conversation until it is idle, or kills itself right before or after one of its commits.
//   work        starts a lead with twenty background tasks
//   ask <mode>  starts a lead whose clerk, two levels down, needs an approval; then waits to be killed
//   answer <mode>  approves what waits, and continues until all tasks have ended
// node task-agent.ts <folder> <what> <mode> <number of the commit> before|after
import { writeSync } from "node:fs";
import { join } from "node:path";
import { type Store, sqliteStore } from "../../../../src/index.ts";
import { askCast, sessionId, withLeasesOf, workCast } from "./task-cast.ts";

const [folder = "", what = "", mode = "", at = "-1", when = ""] = process.argv.slice(2);
const opened = sqliteStore(join(folder, "store.db"));
let commits = 0;

function reach(number: number, moment: string): void {
  if (number === Number(at) && moment === when) process.kill(process.pid, "SIGKILL");
}

const store: Store = {
  ...withLeasesOf(100, opened),
  async commit(commit) {
    const number = commits++;
    reach(number, "before");
    const written = await opened.commit(commit);
    reach(number, "after");
    return written;
  },
};

const lead =
  what === "work" ? workCast(store, folder) : askCast(store, folder, mode as "sync" | "background");
if (what === "answer") {
  const approvals = await lead.approvals({ sessionId });
  const run = lead.run(
    approvals.map((one) => one.approve()),
    { sessionId },
  );
  await run.result();
  await run.settled();
} else {
  const run = lead.run("Go.", { sessionId });
  await run.result();
  await run.settled();
}
writeSync(1, `${commits}\n`);
if (what === "ask") setInterval(() => {}, 60_000);
else await opened.close();
