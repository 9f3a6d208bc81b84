import type { LogEvent } from "../../../src/protocol/event.ts";
import { emptyTree, materialize, reduce } from "../../../src/protocol.ts";
import { expectLawful } from "../../agent/support/laws.ts";
import { comparable } from "../../client/support/serving.ts";
import { childProblems } from "../../harness/subagents/trees/children.ts";
import { foldProblems } from "../../harness/subagents/trees/fold.ts";
import type { Played } from "../../harness/subagents/trees/play.ts";
import { shownProblems, sourceProblems } from "../../harness/subagents/trees/sources.ts";
import { sessionId } from "../../harness/subagents/trees/stage.ts";
import { stubProblems } from "../../harness/subagents/trees/stub.ts";
import { type Truth, truthOf } from "../../harness/subagents/trees/truth.ts";

/** Features with results that depend on the moment. */
export const timed = ["root cancel", "cancel", "stuck", "list", "output", "wait"] as const;

/** The documents of the roots; results are numbered as they arrive. */
export async function documentsOf(played: Played): Promise<unknown> {
  const { logs } = await truthOf(played);
  const documents = logs.map((log) => materialize(reduce(emptyTree(), log)));
  const numbered = /^(reference_id|annotations|child_task_id|message_id)$/;
  const text = JSON.stringify(documents, (key, value: unknown) =>
    numbered.test(key) ? undefined : value,
  );
  return comparable(JSON.parse(text));
}

/** Returns all problems of a finished tree; expects that the laws hold. */
export async function problemsOf(played: Played): Promise<readonly string[]> {
  const { store, plan, tasks, executed, asked, cancelledAt = Infinity } = played;
  const truth = await truthOf(played);
  for (const { taskId } of await store.tasks({ sessionId })) await expectLawful(store, taskId);
  const again = [...executed].filter(([, times]) => times > 1);
  const late = asked.filter(({ key, at }) => key.startsWith("r") && at > cancelledAt);
  return [
    ...played.problems,
    ...truth.problems,
    ...again.map(([callId, times]) => `${callId} was executed ${times} times`),
    ...late.map(({ key }) => `the model of ${key} was asked after the cancel`),
    ...sourceProblems(truth),
    ...shownProblems(played, truth),
    ...childProblems(truth).filter((problem) => !isOfPeople(problem, truth)),
    ...truth.logs.flatMap((log) => foldProblems(log as readonly LogEvent[], plan.seed)),
    ...(await stubProblems(truth, tasks)).filter((problem) => !isOfPeople(problem, truth)),
  ];
}

/**
 * The transcript of a remote task has the results of its calls as people see them, and those below the child have no
 * input: what a model reads is not sent. Such a parent cannot be played again from its transcript.
 */
function isOfPeople(problem: string, { byKey }: Truth): boolean {
  const [, key = ""] = /^(\S+) alone has /.exec(problem) ?? [];
  const [, child = ""] =
    /^(\S+) (?:is .* parent reads|has (?:a|another|another's|no|the) .*(?:agent|there|result))/.exec(
      problem,
    ) ?? [];
  return Boolean(byKey.get(key)?.record.remote ?? byKey.get(child)?.parent?.record.remote);
}
