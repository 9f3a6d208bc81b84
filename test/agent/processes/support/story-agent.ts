// Plays one part in a story of several processes on one database: reads commands from stdin, one JSON object per line,
// and prints each task, event and outcome as a line, before it continues. See story-process.ts for both formats.
// node story-agent.ts
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import type { HarnessAgent, Run, Store } from "../../../../src/index.ts";
import { sqliteStore } from "../../../../src/index.ts";
import { isTerminal } from "../../../../src/protocol/task.ts";
import { sessionId, storyAgent } from "./story-cast.ts";
import type { Command, Line, Outcome } from "./story-process.ts";

const pollMs = 20;
let store: Store | undefined;
let lead: HarnessAgent | undefined;

function opened(): { store: Store; lead: HarnessAgent } {
  if (store === undefined || lead === undefined) throw new Error("No story is open.");
  return { store, lead };
}

/** Prints a line; a pipe takes it before this returns, so a killed process has printed all that it has shown. */
function print(line: Line): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** Prints the events of a run as they come, and resolves to its outcome. */
async function show(id: number, run: Run, started: number): Promise<Outcome> {
  const { store } = opened();
  const { taskId } = await run.task;
  print({ id, taskId });
  let startedMs: number | undefined;
  let isStreamed: boolean | undefined;
  for await (const event of run) {
    print({ id, event });
    if (event.task_id !== taskId) continue;
    if (event.type === "task.in_progress") startedMs = performance.now() - started;
    if (event.type === "task.text.delta") isStreamed ??= await isRunning(store, taskId);
  }
  const { text, task } = await run.result();
  return { text, taskId: task.taskId, startedMs, isStreamed };
}

async function isRunning(store: Store, taskId: string): Promise<boolean> {
  return (await store.task(taskId))?.status === "in_progress";
}

/** Follows the whole tree of a root task until each of its tasks has ended, however often it rests before. */
async function watchTree(id: number, taskId: string): Promise<Outcome> {
  const { store, lead } = opened();
  for (let after = -1; ; await sleep(pollMs)) {
    const run = lead.attach({ taskId }, { after, until: "tree" });
    for await (const event of run) {
      print({ id, event });
      if ("sequence_number" in event) after = event.sequence_number;
    }
    const tasks = await store.tasks({ rootTaskId: taskId });
    const isWhole = after === (await store.last(taskId));
    if (isWhole && tasks.every(({ status }) => isTerminal(status))) {
      const { text } = await run.result();
      return { text, taskId };
    }
  }
}

/** Approves the first approval that waits, as soon as there is one. */
async function answer(id: number): Promise<Outcome> {
  const { lead } = opened();
  for (;;) {
    const [approval] = await lead.approvals({ sessionId });
    if (approval) return show(id, lead.run(approval.approve(), { sessionId }), performance.now());
    await sleep(pollMs);
  }
}

/** Approves what waits, until every task of the session has ended. */
async function answerAll(): Promise<Outcome> {
  const { store, lead } = opened();
  for (;;) {
    const tasks = await store.tasks({ conversation: sessionId });
    if (tasks.every(({ status }) => isTerminal(status))) return {};
    const [approval] = await lead.approvals({ sessionId });
    // The answer of a process that was killed may have come first.
    if (approval) await lead.call(approval.approve(), { sessionId }).catch(ignoreTooLate);
    await sleep(pollMs);
  }
}

function ignoreTooLate(error: { code?: string }): void {
  if (error.code !== "unknown_approval" && error.code !== "nothing_to_resume") throw error;
}

async function obey(command: Command): Promise<Outcome> {
  const { id } = command;
  switch (command.order) {
    case "open":
      store = sqliteStore(join(command.folder, "store.db"));
      lead = storyAgent(store, command.folder);
      return {};
    case "run":
      return show(id, opened().lead.run(command.input, { sessionId }), performance.now());
    case "watch":
      return watchTree(id, command.taskId);
    case "answer":
      return answer(id);
    case "answerAll":
      return answerAll();
    case "close":
      await store?.close();
      return {};
  }
}

createInterface(process.stdin).on("line", (line) => {
  const command = JSON.parse(line) as Command;
  obey(command).then(
    (outcome) => print({ id: command.id, outcome }),
    (error: Error) => print({ id: command.id, problem: `${error.stack}` }),
  );
});
