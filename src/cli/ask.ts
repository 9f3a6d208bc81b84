import type { Agent, Answer, Approval, Input, Run, WaitReason } from "../protocol/agent.ts";
import type { Reply } from "../protocol/message.ts";
import type { Watcher } from "./screen.ts";

/** Asks an agent a question, shows the run and passes its approvals to `decide`. */
export async function ask(
  agent: Agent,
  question: string,
  options: {
    readonly sessionId: string;
    readonly watcher: Watcher;
    readonly decide: (approval: Approval) => Promise<Answer>;
    /** Cancels the run when it aborts. */
    readonly signal: AbortSignal;
    readonly onWait?: (reason: WaitReason) => void;
  },
): Promise<Reply> {
  const { sessionId, watcher, decide, signal, onWait } = options;
  let input: Input = question;
  for (;;) {
    // A new question denies the approvals that an earlier run left open.
    const run: Run = agent.run(input, {
      sessionId,
      signal,
      onSuspended: "deny",
      ...(onWait && { onWait }),
    });
    for await (const event of run) watcher.see(event);
    const reply = await run.result();
    const answers: Answer[] = [];
    for (const approval of reply.approvals)
      if (!signal.aborted) answers.push(await decide(approval));
    if (signal.aborted && reply.approvals.length > 0) await run.cancel("cancelled");
    else if (answers.length > 0) {
      input = answers;
      continue;
    }
    // Background tasks may outlive the reply.
    const rest = run.events({ after: watcher.tree.safeCursor, until: "tree" });
    for await (const event of rest) watcher.see(event);
    return reply;
  }
}
