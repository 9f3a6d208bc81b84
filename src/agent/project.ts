import type { AgentEvent, Run, StandardSchema, StreamOptions } from "../protocol/agent.ts";
import type { TaskEvent, TaskSnapshot } from "../protocol/event.ts";
import { inTurn } from "./in-turn.ts";
import { Projection } from "./projection.ts";
import { replay } from "./replay.ts";
import type { AgentSettings } from "./settings.ts";

type Projectable = Run<unknown> & { before(): Promise<readonly TaskEvent[]> };

/** A run as agent events. Like the run it can be iterated again, and by several at once: each starts where the run does. */
export function projectRun(
  run: Projectable,
  settings: AgentSettings,
  options: StreamOptions<StandardSchema | undefined>,
): AsyncIterable<AgentEvent> {
  return {
    [Symbol.asyncIterator]: () => iterate(run, new Projection(settings, options)),
  };
}

function iterate(run: Projectable, projection: Projection): AsyncIterableIterator<AgentEvent> {
  const events = run[Symbol.asyncIterator]();
  const ready: AgentEvent[] = [];
  const snapshots: TaskSnapshot[] = [];
  let isPrimed = false;
  let isEndTold = false;
  let isOver = false;
  let isLeft = false;

  /** Snapshots follow each other and are taken together, before what comes after them. */
  function apply(event: TaskEvent | undefined, out: AgentEvent[]): void {
    if (event?.type === "task.snapshot") return void snapshots.push(event);
    if (snapshots.length > 0)
      for (const told of replay(snapshots.splice(0))) projection.apply(told, out);
    if (event) projection.apply(event, out);
  }

  async function pull(): Promise<IteratorResult<AgentEvent>> {
    try {
      await fill();
    } catch (error) {
      isOver = true;
      throw error;
    }
    return take() ?? { value: undefined, done: true };
  }

  async function fill(): Promise<void> {
    if (!isPrimed && !isLeft) {
      // A resumed run goes on in the middle of items that an earlier one has opened.
      for (const event of await run.before()) apply(event, []);
      apply(undefined, []);
      isPrimed = true;
    }
    while (ready.length === 0 && !isOver && !isLeft) {
      const next = await events.next();
      if (isLeft) return;
      if (next.done) isOver = true;
      apply(next.done ? undefined : next.value, ready);
      // Its background tasks may go on for long after the root has ended.
      if (!isEndTold && (isOver || projection.isRootOver)) {
        isEndTold = true;
        projection.end(await run.result(), ready);
      }
    }
  }

  function take(): IteratorResult<AgentEvent> | undefined {
    const value = isLeft ? undefined : ready.shift();
    return value && { value, done: false };
  }

  return inTurn({
    take,
    pull,
    async leave() {
      isLeft = true;
      await events.return?.();
    },
  });
}
