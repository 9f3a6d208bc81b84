import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { sqliteStore } from "../../../src/index.ts";
import { createFolder, removeFolder } from "../../store/support/folder.ts";
import { seededRandom } from "../../support/random.ts";
import { deep } from "../support/deep.ts";
import { executionsIn, repeatable } from "./support/crash-cast.ts";
import { type Outcome, outcomeIn, remainsIn } from "./support/remains.ts";
import { startAgent } from "./support/run-agent.ts";
import { newFolder, wholeOutcome } from "./support/whole.ts";

const kills = deep ? 100 : 10;
const seed = Number(process.env.RIVULET_SEED ?? Math.floor(Math.random() * 1e9));
const random = seededRandom(seed);

let folder: string;
let whole: Outcome;
beforeAll(async () => {
  folder = createFolder();
  whole = await wholeOutcome(folder);
});
afterAll(() => removeFolder(folder));

/** Runs process after process on one conversation; each is killed some time after it began, until one gets through. */
async function killOnAndOn(own: string): Promise<number> {
  for (let killed = 0; ; killed++) {
    const running = startAgent(own);
    await running.said("started");
    const timer = setTimeout(() => running.kill("SIGKILL"), random.int(0, 150));
    const { code, signal, last, problems } = await running.ended;
    clearTimeout(timer);
    if (signal === null) {
      expect({ code, problems, last }).toMatchObject({ code: 0, problems: "" });
      return killed;
    }
    const store = sqliteStore(join(own, "store.db"));
    await remainsIn(store);
    await store.close();
  }
}

it(
  "a run goes on, process after process, whenever they are killed",
  async () => {
    let killed = 0;
    for (let round = 0; killed < kills; round++) {
      const own = newFolder(folder, String(round));
      try {
        killed += await killOnAndOn(own);
        const store = sqliteStore(join(own, "store.db"));
        const outcome = await outcomeIn(store);
        await store.close();
        const executions = executionsIn(own);
        expect(executions.filter(({ isRecorded }) => isRecorded)).toEqual([]);
        const once = executions.filter(({ name }) => !repeatable.has(name));
        expect(new Set(once.map(({ callId }) => callId)).size).toBe(once.length);
        expect(outcome.transcripts).toEqual(whole.transcripts);
      } catch (error) {
        throw new Error(`round ${round}; RIVULET_SEED=${seed}`, { cause: error });
      }
      removeFolder(own);
    }
  },
  deep ? 3_600_000 : 600_000,
);
