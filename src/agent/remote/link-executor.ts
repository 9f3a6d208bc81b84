import { onAbort } from "../../base/clock.ts";
import type { Drive } from "../drive/drive.ts";
import { beginQueued, type Executor } from "../drive/executor.ts";
import { openTask, remoteSettings } from "../drive/lifecycle.ts";
import type { TaskRun } from "../loop/task-run.ts";
import { type LinkedChild, openRemote } from "./remote.ts";

/** Follows a task behind a link, whose other end tells its lifecycle. */
export class LinkExecutor implements Executor {
  readonly #parent: TaskRun;
  #child: LinkedChild | undefined;
  /** Whether the child had begun before it was opened. */
  #isBegun = true;

  constructor(parent: TaskRun) {
    this.#parent = parent;
  }

  async open(drive: Drive): Promise<TaskRun | undefined> {
    const { conversation, record, controller, start } = drive;
    const { agent, fail: failure, caller, isNew = false } = start;
    const parent = this.#parent;
    const starter = { parent, agent, failure, output: caller?.output };
    const child = await openRemote(conversation, record, starter);
    this.#child = child;
    const open = child.log.runs.get(record.taskId);
    if (open) {
      open.state.record = { ...open.state.record, mode: drive.record.mode };
      onAbort(controller.signal, () => open.control.controller.abort(controller.signal.reason));
      return open;
    }
    // A queued task below the child of a link waits at its other end.
    if (record.status === "queued" && child.isTop(record)) {
      this.#isBegun = false;
      const settings = remoteSettings(parent.settings, record, child.link);
      const { state } = drive;
      const options = caller && { caller };
      return openTask({ conversation, settings, state, parent, controller, ...options, isNew });
    }
    await child.log.settled();
    drive.state.record = (await conversation.store.task(record.taskId)) ?? record;
    return undefined;
  }

  async run(task: TaskRun, drive: Drive): Promise<undefined> {
    const child = this.#child as LinkedChild;
    if (!this.#isBegun && !(await beginQueued(task, drive))) return;
    drive.onOpen();
    return child.drive(task);
  }
}
