import type { Store, ToolContext } from "../../../../src/index.ts";
import { HarnessAgent, memoryStore } from "../../../../src/index.ts";
import { ManualClock } from "../../../../src/testing/index.ts";
import { type Asked, castModel, castTools, declarations } from "./cast.ts";
import { type Plan, type TaskPlan, tasksOf } from "./plan.ts";
import { type Witness, watchedStore } from "./watched-store.ts";

/** The root session of every tree. */
export const sessionId = "s";

/** The agents of a plan in a world of their own, and what is noted of what they do. */
export interface Stage {
  readonly plan: Plan;
  /** What the root is asked: as planned, and at last something that only lets it hear what is left to be told. */
  readonly roots: readonly TaskPlan[];
  readonly tasks: ReadonlyMap<string, TaskPlan>;
  readonly agent: HarnessAgent;
  readonly store: Store;
  readonly clock: ManualClock;
  readonly witness: Witness;
  /** What models were asked, with the moment. */
  readonly asked: (Asked & { readonly at: number })[];
  /** How often each call of the tree's own tools was executed. */
  readonly executed: Map<string, number>;
  /** What was not as it should be while it was played. */
  readonly problems: string[];
  /** How many events were written. */
  events: number;
  /** True: somebody has asked people something since they last looked. */
  isAsked: boolean;
  /** Called after each write. */
  onWritten: () => void;
}

/** Sets a plan up. No time passes in it, unless a caller's time is to run out. */
export function openStage(plan: Plan): Stage {
  const roots: readonly TaskPlan[] = [
    ...plan.roots,
    { key: "z", kind: "lead", turns: [], end: "say" },
  ];
  const tasks = tasksOf({ ...plan, roots });
  const clock = new ManualClock(1_700_000_000_000);
  const { store, witness } = watchedStore(memoryStore({ clock }), ({ events = [] }) => {
    stage.events += events.length;
    stage.isAsked ||= events.some(({ type }) => type === "task.approval.requested");
    stage.onWritten();
  });
  const agent = new HarnessAgent({
    name: "lead",
    model: castModel(tasks, {
      onAsked: (one) => stage.asked.push({ ...one, at: witness.tick() }),
    }),
    tools: castTools({
      onCall: (callId) => stage.executed.set(callId, (stage.executed.get(callId) ?? 0) + 1),
      hold: (context) => untilPromoted(store, clock, context),
    }),
    store,
    clock,
    filesystem: false,
    subagents: declarations(),
    modelExecution: { maxAttempts: 1 },
    parallel: plan.parallel,
    onWarning: (warning) => stage.problems.push(`warned: ${warning}`),
  });
  const stage: Stage = {
    ...{ plan, roots, tasks, agent, store, clock, witness },
    ...{ asked: [], executed: new Map(), problems: [] },
    events: 0,
    isAsked: false,
    onWritten() {},
  };
  return stage;
}

/** Lets time pass until the caller of a task waits no longer; all others have far more time than ever passes. */
async function untilPromoted(
  store: Store,
  clock: ManualClock,
  { taskId, signal }: ToolContext,
): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    signal.throwIfAborted();
    if ((await store.task(taskId))?.mode === "background") return;
    await clock.advance(1_000);
  }
  throw new Error("Nobody was promoted.");
}
