import type { Agent, Answer, Approval, Input, Run, WaitReason } from "../protocol/agent.ts";
import type { TaskEvent } from "../protocol/event.ts";
import type { Reply } from "../protocol/message.ts";
import type { Tree } from "../protocol/task.ts";

/** How a question is asked. */
export interface AskOptions {
  readonly sessionId: string;
  /** Shows the events and folds them. */
  readonly view: { readonly tree: Tree; see(event: TaskEvent): void };
  readonly decide: (approval: Approval) => Promise<Answer>;
  /** Cancels the run when it aborts. */
  readonly signal: AbortSignal;
  /** Called with each run, such as the one after an approval; it can be steered. */
  readonly onRun?: (run: Run) => void;
  /** Called with the reply; background tasks may still run. */
  readonly onReply?: (reply: Reply) => void;
  readonly onWait?: (reason: WaitReason) => void;
}

/** Asks an agent a question, shows the run and passes its approvals to `decide`; undefined continues a session. */
export async function ask(
  agent: Agent,
  question: string | undefined,
  options: AskOptions,
): Promise<Reply> {
  const { sessionId, view, decide, signal, onRun, onReply, onWait } = options;
  let input: Input = question;
  for (;;) {
    // A new question denies the approvals that an earlier run left open.
    const run: Run = agent.run(input, {
      sessionId,
      signal,
      ...(input !== undefined && { onSuspended: "deny" as const }),
      ...(onWait && { onWait }),
    });
    onRun?.(run);
    for await (const event of run) view.see(event);
    const reply = await run.result();
    const answers: Answer[] = [];
    for (const approval of reply.approvals)
      if (!signal.aborted) answers.push(await decide(approval));
    const isCancelled = signal.aborted && reply.approvals.length > 0;
    if (isCancelled) await run.cancel("cancelled");
    else if (answers.length > 0) {
      input = answers;
      continue;
    }
    if (!isCancelled) onReply?.(reply);
    // Background tasks may outlive the reply.
    for await (const event of run.events({ after: view.tree.safeCursor, until: "tree" }))
      view.see(event);
    if (isCancelled) onReply?.(reply); // the view has the end of the suspended tasks now
    return reply;
  }
}
