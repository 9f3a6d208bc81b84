import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { sqliteStore } from "../../../src/index.ts";
import { createFolder, removeFolder } from "../../store/support/folder.ts";
import { executionsIn } from "../../support/executions.ts";
import { crashCast, driveToEnd, repeatable, withShortLeases } from "./support/crash-cast.ts";
import { outcomeIn } from "./support/remains.ts";
import { startAgent } from "./support/run-agent.ts";
import { newFolder, wholeOutcome } from "./support/whole.ts";

let folder: string;
beforeAll(() => {
  folder = createFolder();
});
afterAll(() => removeFolder(folder));

it("a process that resumes after another has taken over returns its outcome and writes nothing", async () => {
  const whole = await wholeOutcome(folder);
  for (const at of [10, 45, 70]) {
    const own = newFolder(folder, String(at));
    const stopped = startAgent(own, { at, when: "before", signal: "SIGSTOP" });
    await stopped.said("stopping");
    const opened = sqliteStore(join(own, "store.db"));
    const store = withShortLeases(opened);
    await driveToEnd(crashCast(store, own), store);
    stopped.kill("SIGCONT");
    // The store refuses the commit before which the process stopped, and the process tries no other.
    const last = String(at + 1);
    expect(await stopped.ended).toMatchObject({ code: 0, last, problems: "" });
    const outcome = await outcomeIn(store);
    await opened.close();
    expect(outcome.transcripts).toEqual(whole.transcripts);
    const once = executionsIn(own).filter(({ name }) => !repeatable.has(name));
    expect(new Set(once.map(({ callId }) => callId)).size).toBe(once.length);
  }
});
