import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sqliteStore } from "../../../src/index.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { createFolder, removeFolder } from "../../store/support/folder.ts";
import { executionsIn } from "../../support/executions.ts";
import { crashCast, driveToEnd, withShortLeases } from "./support/crash-cast.ts";
import { expectRightCalls, type Outcome, outcomeIn, remainsIn } from "./support/remains.ts";
import { type Boundary, startAgent } from "./support/run-agent.ts";
import { newFolder, wholeOutcome } from "./support/whole.ts";

const rounds = isDeep ? 5 : 1;
const atOnce = 2;
// What is done between two commits is lost with the second one: after the first, less is.
const strides = isDeep ? { before: 1, after: 1 } : { before: 3, after: 9 };

let folder: string;
let whole: Outcome;
beforeAll(async () => {
  folder = createFolder();
  whole = await wholeOutcome(folder);
});
afterAll(() => removeFolder(folder));

/** Kills a process at a boundary and goes on in this one; false when the process ended before it got there. */
async function crashAt(at: number, when: Boundary["when"], round: number): Promise<boolean> {
  const own = newFolder(folder, `${round}-${when}-${at}`);
  const { signal, code, problems } = await startAgent(own, { at, when, signal: "SIGKILL" }).ended;
  if (signal === null) {
    expect({ code, problems }).toEqual({ code: 0, problems: "" });
    return false;
  }
  const opened = sqliteStore(join(own, "store.db"));
  const store = withShortLeases(opened);
  const remains = await remainsIn(store);
  const before = executionsIn(own);
  await driveToEnd(crashCast(store, own), store);
  const outcome = await outcomeIn(store);
  await opened.close();
  const all = executionsIn(own);
  expect(all.filter(({ isRecorded }) => isRecorded)).toEqual([]);
  expectRightCalls(outcome, remains, { before, after: all.slice(before.length) });
  expect(outcome.transcripts).toEqual(whole.transcripts);
  removeFolder(own);
  return true;
}

describe("a run of more than twenty steps", () => {
  it("covers every kind of call", () => {
    const count = (name: string) => whole.calls.filter((call) => call.name === name).length;
    expect(whole.calls.every(({ state }) => state === "success")).toBe(true);
    for (const name of ["look", "sign", "pay", "transfer", "outside", "helper", "clerk"]) {
      expect(count(name), name).toBeGreaterThan(0);
    }
  });

  it.each(["before", "after"] as const)(
    "goes on in another process when it is killed right %s any of its commits",
    async (when) => {
      for (let round = 0; round < rounds; round++) {
        const failed: { readonly at: number; readonly error: unknown }[] = [];
        let next = 0;
        let killed = 0;
        // How many commits there are differs from run to run: deltas that come close together share one.
        let hasEnded = false;
        const crashOn = async () => {
          while (!hasEnded) {
            const at = next;
            next += strides[when];
            try {
              if (await crashAt(at, when, round)) killed += 1;
              else hasEnded = true;
            } catch (error) {
              failed.push({ at, error });
            }
          }
        };
        await Promise.all(Array.from({ length: atOnce }, crashOn));
        const places = failed.map(({ at }) => at);
        if (failed.length > 0) {
          throw new Error(`killed right ${when} commit ${places}`, { cause: failed[0]?.error });
        }
        expect(killed * strides[when]).toBeGreaterThan(50);
        console.info(`killed right ${when} ${killed} commits`);
      }
    },
    isDeep ? 3_600_000 : 600_000,
  );
});
