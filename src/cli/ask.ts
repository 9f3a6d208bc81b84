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
    const run: Run = agent.run(input, { sessionId, signal });
    for await (const event of run) watcher.see(event);
    const reply = await run.result();
    if (signal.aborted && reply.approvals.length > 0) {
      // It waits and nobody will answer: what waits is cancelled as well.
      await run.cancel("cancelled");
      return reply;
    }
    if (reply.approvals.length === 0) return reply;
    const answers: Answer[] = [];
    for (const approval of reply.approvals) answers.push(await decide(approval));
    input = answers;
  }
}
