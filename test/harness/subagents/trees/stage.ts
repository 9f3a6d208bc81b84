import { HarnessAgent, memoryStore, type Store, type ToolContext } from "../../../../src/index.ts";
import { ManualClock } from "../../../../src/testing.ts";
import { keepEvents } from "../../../support/keep-events.ts";
import { type Asked, castModel, castTools, declarations } from "./cast.ts";
import { type Plan, type TaskPlan, tasksOf } from "./plan.ts";
import { type Witness, watchedStore } from "./watched-store.ts";

/** The root session of every tree. */
export const sessionId = "s";

/** The agents of a plan with their store and clock, and the records of their actions. */
export interface Stage {
  readonly plan: Plan;
  /** The planned root tasks, and a last one that only receives pending results. */
  readonly roots: readonly TaskPlan[];
  readonly tasks: ReadonlyMap<string, TaskPlan>;
  readonly agent: HarnessAgent;
  readonly store: Store;
  readonly clock: ManualClock;
  readonly witness: Witness;
  /** The requests of models, with their moment. */
  readonly asked: (Asked & { readonly at: number })[];
  /** The number of executions of each call. */
  readonly executed: Map<string, number>;
  /** Problems during the play. */
  readonly problems: string[];
  /** How long nothing may be written while other processes work, in milliseconds. */
  readonly silenceMs?: number;
  /** The number of written events. */
  events: number;
  /** Whether an approval was requested since the last look. */
  isAsked: boolean;
  /** Called after each write. */
  onWritten: () => void;
}

/** Creates the stage of a plan. Its clock stands still except for planned timeouts. */
export function openStage(plan: Plan, subagents = declarations(), silenceMs?: number): Stage {
  const roots: readonly TaskPlan[] = [
    ...plan.roots,
    { key: "z", kind: "lead", turns: [], end: "say" },
  ];
  const tasks = tasksOf({ ...plan, roots });
  const clock = new ManualClock(1_700_000_000_000);
  const { store, witness } = watchedStore(
    memoryStore({ clock, ...keepEvents }),
    ({ events = [] }) => {
      stage.events += events.length;
      stage.isAsked ||= events.some(({ type }) => type === "task.approval.requested");
      stage.onWritten();
    },
  );
  const agent = new HarnessAgent({
    name: "lead",
    model: castModel(tasks, {
      onAsked: (one) => stage.asked.push({ ...one, at: witness.tick() }),
    }),
    tools: castTools({
      onCall: (callId) => stage.executed.set(callId, (stage.executed.get(callId) ?? 0) + 1),
      hold: (context) => untilPromoted([store], clock, context),
    }),
    store,
    clock,
    filesystem: false,
    subagents,
    modelExecution: { maxAttempts: 1 },
    parallel: plan.parallel,
    onWarning: (warning) => stage.problems.push(`warned: ${warning}`),
  });
  const stage: Stage = {
    ...{ plan, roots, tasks, agent, store, clock, witness },
    ...{ asked: [], executed: new Map(), problems: [] },
    ...(silenceMs !== undefined && { silenceMs }),
    events: 0,
    isAsked: false,
    onWritten() {},
  };
  return stage;
}

/**
 * Advances the clock past the timeout of a task's caller; all other timeouts are much longer. The caller may use any of
 * the stores.
 */
export async function untilPromoted(
  stores: readonly Store[],
  clock: ManualClock,
  { taskId, signal }: ToolContext,
): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    signal.throwIfAborted();
    const records = await Promise.all(stores.map((store) => store.task(taskId)));
    if (records.some((record) => record?.mode === "background")) return;
    await clock.advance(1_000);
    if (stores.length > 1) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error("No task was promoted.");
}
