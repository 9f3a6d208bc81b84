import { type Ending, failed } from "../loop/ending.ts";
import { fail, runLoop } from "../loop/loop.ts";
import type { AgentSettings } from "../loop/settings.ts";
import type { TaskRun } from "../loop/task-run.ts";
import type { Drive } from "./drive.ts";
import { beginTask, cancelQueued, endTask, openTask, resumeTask } from "./lifecycle.ts";

/** Runs the agent of a task: the loop for our agents, a link for agents on other servers and any other object. */
export interface Executor {
  /** Opens the task; undefined if the task has ended since its record was read. */
  open(drive: Drive): Promise<TaskRun | undefined>;
  /** Begins or resumes the open task and takes it to its rest; resolves to the ending to write, if it is not written. */
  run(task: TaskRun, drive: Drive): Promise<Ending | undefined>;
}

/** Runs a task in the loop of this process; `loop` takes a begun task to its ending. */
export function loopExecutor(
  settings: AgentSettings,
  parent: TaskRun | undefined,
  loop = runLoop,
): Executor {
  return {
    open({ conversation, state, controller, start }) {
      const { caller, isNew = false } = start;
      const isChild = state.record.depth > 0;
      const isQueued = state.record.status === "queued";
      const isAnnounced = !isNew && isChild && isQueued;
      const isUnwritten = isNew || (!isChild && isQueued);
      const task = { conversation, settings, state, parent, controller, caller };
      return openTask({ ...task, isNew: isUnwritten, isAnnounced });
    },
    async run(task, drive) {
      const { input = [], status } = task.state.record;
      const { aborted } = task.control.controller.signal;
      if (status !== "queued") await resumeTask(task, aborted ? "cancelled" : "approval_resolved");
      else if (!(await beginQueued(task, drive))) return undefined;
      drive.onOpen();
      const { fail: failure } = drive.start;
      return failure ? fail(task, failure) : loop(task, input);
    },
  };
}

/** Begins a queued task; false if the task was failed or cancelled instead. */
export async function beginQueued(task: TaskRun, drive: Drive): Promise<boolean> {
  const { fail: failure, isNew, onBegin } = drive.start;
  const isCancelled = task.control.controller.signal.aborted && !isNew;
  if (failure) await endTask(task, failed(task, failure));
  else if (isCancelled) await cancelQueued(task, drive.cancelRow());
  else await beginTask(task, task.state.record.input ?? [], onBegin);
  return !failure && !isCancelled;
}

/** Loads the executor of agents behind links, which is above this folder and which few processes need. */
export const linkExecutor: { load: () => Promise<LinkExecutorModule> } = {
  load: () => Promise.reject(new Error("No executor for agents behind links is set.")),
};

interface LinkExecutorModule {
  readonly LinkExecutor: new (parent: TaskRun) => Executor;
}
