import type { Agent, Answer, Approval, Input, Run } from "../protocol/agent.ts";
import type { Reply } from "../protocol/message.ts";
import type { Watcher } from "./screen.ts";

/** Puts a question to an agent and shows what happens, with whoever decides on what is asked on the way. */
export async function ask(
  agent: Agent,
  question: string,
  {
    sessionId,
    watcher,
    decide,
    signal,
  }: {
    readonly sessionId: string;
    readonly watcher: Watcher;
    readonly decide: (approval: Approval) => Promise<Answer>;
    /** Aborts: the run is cancelled, and what it has come to is shown. */
    readonly signal: AbortSignal;
  },
): Promise<Reply> {
  let input: Input = question;
  for (;;) {
    // Who asks something new does not mean to answer what was left open the last time.
    const run: Run = agent.run(input, { sessionId, signal, onSuspended: "deny" });
    for await (const event of run) watcher.see(event);
    const reply = await run.result();
    const answers: Answer[] = [];
    for (const approval of reply.approvals)
      if (!signal.aborted) answers.push(await decide(approval));
    // Cancelled while it waits: nobody will answer.
    if (signal.aborted && reply.approvals.length > 0) await run.cancel("cancelled");
    else if (answers.length > 0) {
      input = answers;
      continue;
    }
    // What works in the background may outlive the answer, and is shown to its end.
    const rest = run.events({ after: watcher.tree.safeCursor, until: "tree" });
    for await (const event of rest) watcher.see(event);
    return reply;
  }
}
