import { type Message, textOf } from "../../../../src/contract/message.ts";
import type { Store, TaskRecord } from "../../../../src/contract/store.ts";
import { isTerminal } from "../../../../src/protocol/task.ts";
import { expectLawful, readLog } from "../../../agent/support/laws.ts";

/** Counts of what happened in a conversation. */
export type Seen = Readonly<Record<string, number>>;

/** Returns the problems of a conversation that should have ended. */
export async function problemsIn(store: Store, sessionId: string): Promise<readonly string[]> {
  const problems: string[] = [];
  const records = await store.tasks({ conversation: sessionId });
  for (const root of records.filter(({ depth }) => depth === 0)) {
    await expectLawful(store, root.taskId).catch((error: { actual?: unknown }) => {
      problems.push(JSON.stringify(error.actual ?? error, undefined, 1));
    });
  }
  for (const post of await store.posts({ sessionId })) problems.push(`${post.id} was never taken`);
  for (const record of records) problems.push(...(await resultProblems(store, record)));
  return problems;
}

/** Checks that the outcome of a task is stored and delivered to its parent once. */
async function resultProblems(store: Store, record: TaskRecord): Promise<readonly string[]> {
  const { taskId, status, mode, depth, parentSessionId = "", result, error } = record;
  if (!isTerminal(status)) return [];
  if (status === "failed" ? error === undefined : result === undefined) {
    return [`${taskId} is ${status} without a result`];
  }
  if (depth === 0) return [];
  const messages = await store.session(parentSessionId);
  const said = textOf(result?.content ?? []);
  const hints = messages.filter(({ content }) => isHintOf(taskId, content));
  if (hints.length > 1) return [`${taskId} was told ${hints.length} times`];
  if (hints.some((hint) => !textOf(hint.content).includes(said))) {
    return [`${taskId} was told without its result`];
  }
  const [call] = messages.flatMap(({ content }) =>
    content.flatMap((block) =>
      block.type === "tool_result" && block.id === taskId ? [block] : [],
    ),
  );
  const isRead = call?.state !== "success" || textOf(call.output).includes(said);
  return mode === "sync" && !isRead
    ? [`${taskId} has ended, and its call says something else`]
    : [];
}

function isHintOf(taskId: string, content: Message["content"]): boolean {
  return content.some((block) => block.type === "hint" && block.metadata?.taskId === taskId);
}

/** Counts what happened, so that a test can check its own coverage. */
export async function seenIn(store: Store, sessionId: string): Promise<Seen> {
  const seen: Record<string, number> = {};
  const count = (what: string) => {
    seen[what] = (seen[what] ?? 0) + 1;
  };
  const records = await store.tasks({ conversation: sessionId });
  for (const { taskId, status, mode, depth, error } of records) {
    count(error?.code === "executor_lost" ? "lost" : status);
    if (mode === "background") count("in the background");
    if (depth > 0) continue;
    for (const event of await readLog(store, taskId)) {
      if (event.type === "task.resumed" && event.reason === "recovered") count("recovered");
      else if (event.type === "task.suspended") count("suspended");
      else if (event.type === "task.child.promoted") count("promoted");
      else if (event.type === "task.hint.added") count("told");
    }
  }
  return seen;
}
