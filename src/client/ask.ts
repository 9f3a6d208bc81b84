import type { Awaitable } from "../base/time.ts";
import type { Agent, Answer, Approval, Input, Reply, Run, WaitReason } from "../contract/index.ts";
import { isTerminal, type TaskEvent, type Tree, taskOf } from "../protocol/index.ts";

/** How a question is asked. */
export interface AskOptions {
  readonly sessionId: string;
  readonly userId?: string;
  /** Shows the events and folds them. */
  readonly view: { readonly tree: Tree; see(event: TaskEvent): Awaitable<void> };
  /** Decides about an approval; undefined leaves it open. */
  readonly decide: (approval: Approval) => Promise<Answer | undefined>;
  /** Cancels the run when it aborts. */
  readonly signal: AbortSignal;
  /** Called with each run, such as the one after an approval; it can be steered. */
  readonly onRun?: (run: Run) => void;
  /** Called with the reply; background tasks may still run. */
  readonly onReply?: (reply: Reply) => void;
  /** Called every second while the run waits, and with undefined when it continues. */
  readonly onWait?: (reason: WaitReason | undefined) => void;
}

/** Asks an agent a question, shows the run and passes its approvals to `decide`; undefined continues a session. */
export async function ask(agent: Agent, question: Input, options: AskOptions): Promise<Reply> {
  const { sessionId, userId, decide, signal, onRun, onReply, onWait } = options;
  let input: Input = question;
  let isWaiting = false;
  const wait = (reason: WaitReason | undefined) => {
    if (reason === undefined && !isWaiting) return;
    isWaiting = reason !== undefined;
    onWait?.(reason);
  };
  const view: AskOptions["view"] = {
    get tree() {
      return options.view.tree;
    },
    see(event) {
      wait(undefined);
      return options.view.see(event);
    },
  };
  let reading: Reading | undefined;
  try {
    for (;;) {
      // A new question denies the approvals that an earlier run left open.
      const run: Run = agent.run(input, {
        sessionId,
        signal,
        ...(input !== undefined && { onSuspended: "deny" as const }),
        ...(userId !== undefined && { userId }),
        ...(onWait && { onWait: wait }),
      });
      onRun?.(run);
      await reading?.stop();
      reading = readLog(run, view);
      const reply = await resultOf(run, reading);
      const answers: Answer[] = [];
      // The log is read on while a person decides: background tasks do not wait for that.
      for (const approval of reply.approvals) {
        const answer = signal.aborted ? undefined : await decide(approval);
        if (answer) answers.push(answer);
      }
      const isCancelled = signal.aborted && reply.approvals.length > 0;
      if (!isCancelled && answers.length > 0) {
        input = answers;
        continue;
      }
      if (isCancelled) {
        await run.cancel("cancelled");
        await reading.stop(); // it may have ended with the suspension
        reading = readLog(run, view);
      } else onReply?.(reply);
      // Background tasks may outlive the reply.
      await reading.ended;
      if (isCancelled) onReply?.(reply); // the view has the end of the suspended tasks now
      return reply;
    }
  } finally {
    wait(undefined);
    await reading?.stop();
  }
}

/** Returns the reply once the view has everything that it is about. */
async function resultOf(run: Run, reading: Reading): Promise<Reply> {
  try {
    const reply = await run.result();
    await reading.until((tree) => hasRest(tree, reply));
    return reply;
  } catch (error) {
    await reading.ended.catch(() => {}); // the view shows the end of a failed run
    throw error;
  }
}

/** Whether a tree has the end of a task, or the approvals that it waits for. */
function hasRest(tree: Tree, { task, approvals }: Reply): boolean {
  const root = taskOf(tree, task.taskId);
  if (approvals.length === 0) return root !== undefined && isTerminal(root.status);
  return approvals.every(({ id, taskId }) =>
    taskOf(tree, taskId)?.approvals.some(({ approval_id }) => approval_id === id),
  );
}

/** A view that follows the log of a run until its tree rests. */
interface Reading {
  readonly ended: Promise<void>;
  /** Resolves when the tree satisfies a condition, or when the reading ends. */
  until(condition: (tree: Tree) => boolean): Promise<void>;
  stop(): Promise<void>;
}

/** Follows a log from the first event that the view does not have. */
function readLog(run: Run, view: AskOptions["view"]): Reading {
  const events = run.events({ after: view.tree.safeCursor, until: "tree" })[Symbol.asyncIterator]();
  let isStopped = false;
  let awaited:
    | { readonly condition: (tree: Tree) => boolean; readonly met: () => void }
    | undefined;
  const read = async () => {
    for (;;) {
      const next = await events.next();
      if (next.done || isStopped) return;
      await view.see(next.value);
      if (awaited?.condition(view.tree)) awaited.met();
    }
  };
  const ended = read();
  ended.catch(() => {}); // the result of the run rejects as well
  return {
    ended,
    async until(condition) {
      if (condition(view.tree)) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      awaited = { condition, met: resolve };
      await Promise.race([promise, ended]);
    },
    async stop() {
      isStopped = true;
      await events.return?.();
      await ended.catch(() => {});
    },
  };
}
