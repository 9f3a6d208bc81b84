import {
  memoryStore,
  type ReActAgent,
  RivuletError,
  type Run,
  type Store,
} from "../../../../src/index.ts";
import { ManualClock } from "../../../../src/testing.ts";
import { keepEvents } from "../../../support/keep-events.ts";
import { type Random, seededRandom } from "../../../support/random.ts";
import { checkedStore } from "./checked-store.ts";
import { castOn, type Executions, makePlans, type Plans } from "./schedule-cast.ts";
import { type SimulatedProcess, simulateProcess } from "./simulated-process.ts";

/** The conversation that all processes of a schedule work on. */
export const sessionId = "s";

/** How long a lease lasts. */
export const leaseMs = 10_000;

/** A process with its agents. */
export interface Actor {
  readonly process: SimulatedProcess;
  readonly lead: ReActAgent;
}

/** The shared state of the processes of a schedule. */
export interface World {
  readonly random: Random;
  /** The store without the delays and failures of a process. */
  readonly store: Store;
  readonly storeClock: ManualClock;
  readonly plans: Plans;
  readonly executions: Executions;
  readonly actors: readonly Actor[];
  readonly runs: Run[];
  /** The problems so far. */
  problems(): readonly string[];
  blame(problem: string): void;
  /** Starts another process. */
  begin(): Actor;
  /** Runs work without waiting; it may fail only with errors of cancels, crashes and takeovers. */
  watchOver(what: string, work: Promise<unknown>): void;
}

const expected: ReadonlySet<string | undefined> = new Set([
  ...["agent_busy", "session_suspended", "unknown_approval", "nothing_to_resume"],
  ...["already_answered", "not_found"],
  ...["cancelled", "executor_lost", "shutting_down", "store_failed"],
]);

/** A world without processes. */
export function openWorld(seed: number): World {
  const random = seededRandom(seed);
  const storeClock = new ManualClock(1_000_000_000);
  const store = memoryStore({ clock: storeClock, ...keepEvents });
  const checked = checkedStore(store);
  const plans = makePlans(seededRandom(seed + 1));
  const executions: Executions = new Map();
  const actors: Actor[] = [];
  const problems: string[] = [];
  const blame = (problem: string) => void problems.push(problem);
  return {
    ...{ random, store, storeClock, plans, executions, actors, runs: [], blame },
    problems: () => [...problems, ...checked.problems],
    begin() {
      const process = simulateProcess(checked.store, {
        name: `p${actors.length}`,
        // Its clock may be off by an hour in either direction.
        now: storeClock.now() + random.int(-3_600_000, 3_600_000),
        random: seededRandom(seed + 2 + actors.length),
      });
      const actor = { process, lead: castOn(process, plans, executions) };
      actors.push(actor);
      return actor;
    },
    watchOver(what, work) {
      work.catch((error: unknown) => {
        const code = error instanceof RivuletError ? error.code : undefined;
        if (!expected.has(code)) blame(`${what}: ${code} ${(error as Error)?.stack ?? error}`);
      });
    },
  };
}
