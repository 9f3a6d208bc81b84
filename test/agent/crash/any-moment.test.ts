import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sqliteStore } from "../../../src/index.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { createFolder, removeFolder } from "../../store/support/folder.ts";
import { executionsIn } from "../../support/executions.ts";
import { seededRandom } from "../../support/random.ts";
import { requires } from "../../support/requires.ts";
import { seed } from "../../support/seed.ts";
import { type CastName, repeatable } from "./support/crash-cast.ts";
import { type Outcome, outcomeIn, remainsIn } from "./support/remains.ts";
import { type Running, startAgent, startTracedAgent } from "./support/run-agent.ts";
import { newFolder, wholeOutcome } from "./support/whole.ts";

const random = seededRandom(seed);

let folder: string;
beforeAll(() => {
  folder = createFolder();
});
afterAll(() => removeFolder(folder));

/** One more death without progress would end the run as poison. */
const mostInARow = 4;

/** The cast of a conversation, and how it ends when nothing comes between. */
interface Case {
  readonly cast: CastName;
  readonly whole: Outcome;
}

/** Whether a process was killed; what it has left behind is lawful. If it was not, it has ended well. */
async function wasKilled(own: string, running: Running): Promise<boolean> {
  const { code, signal, problems } = await running.ended;
  if (signal === null) {
    expect({ code, problems }).toEqual({ code: 0, problems: "" });
    return false;
  }
  const store = sqliteStore(join(own, "store.db"));
  await remainsIn(store);
  await store.close();
  return true;
}

/** Starts a process that is killed some time after it began. */
function startDoomed(own: string, cast: CastName): Running {
  const running = startAgent(own, undefined, cast);
  void running.said("started").then(() => {
    setTimeout(() => running.kill("SIGKILL"), random.int(0, cast === "children" ? 400 : 150));
  });
  return running;
}

/** Starts a process that is killed when its database changes a file. */
function startDoomedAtWrite(own: string, cast: CastName): Running {
  const call = random.pick(["pwrite64", "pwrite64", "fdatasync"] as const);
  const most = { pwrite64: 300, fdatasync: cast === "children" ? 20 : 60 }[call];
  return startTracedAgent(own, call, random.int(1, most), cast);
}

/** Runs process after process on one conversation until one gets through; returns how many were killed. */
async function killOnAndOn(
  own: string,
  { cast, whole }: Case,
  startNext: typeof startDoomed,
): Promise<number> {
  let killed = 0;
  while (killed < mostInARow && (await wasKilled(own, startNext(own, cast)))) killed += 1;
  if (killed === mostInARow)
    expect(await wasKilled(own, startAgent(own, undefined, cast))).toBe(false);
  const store = sqliteStore(join(own, "store.db"));
  const outcome = await outcomeIn(store);
  await store.close();
  const executions = executionsIn(own);
  expect(executions.filter(({ isRecorded }) => isRecorded)).toEqual([]);
  const once = executions.filter(({ name }) => !repeatable.has(name));
  expect(new Set(once.map(({ callId }) => callId)).size).toBe(once.length);
  expect(outcome.transcripts).toEqual(whole.transcripts);
  return killed;
}

async function killMany(tested: Case, kills: number, startNext: typeof startDoomed) {
  for (let round = 0, killed = 0; killed < kills; round++) {
    const own = newFolder(folder, `${tested.cast}-${startNext.name}-${round}`);
    try {
      killed += await killOnAndOn(own, tested, startNext);
    } catch (error) {
      throw new Error(`round ${round}; RIVULET_SEED=${seed}`, { cause: error });
    }
    removeFolder(own);
  }
}

describe("a run resumes in the next process", () => {
  const timeout = isDeep ? 3_600_000 : 600_000;

  describe.each([
    ["one agent", "steps"],
    ["fifty children on one log", "children"],
  ] as const)("of %s", (_, cast) => {
    let whole: Outcome;
    beforeAll(async () => {
      whole = await wholeOutcome(folder, cast);
    }, timeout);

    it(
      "after a kill at any moment",
      () => killMany({ cast, whole }, isDeep ? 100 : 5, startDoomed),
      timeout,
    );

    it.runIf(requires("strace"))(
      "when they are killed inside a write",
      () => killMany({ cast, whole }, isDeep ? 100 : 3, startDoomedAtWrite),
      timeout,
    );
  });
});
