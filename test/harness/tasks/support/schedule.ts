import { cancelTask } from "../../../../src/agent/cancel.ts";
import { settingsBehind } from "../../../../src/agent/settings.ts";
import { taskRunner } from "../../../../src/harness/tasks/task-runner.ts";
import { memoryStore, type ReActAgent, RivuletError, type Run } from "../../../../src/index.ts";
import { userMessage } from "../../../../src/protocol/message.ts";
import type { Store, TaskRecord } from "../../../../src/protocol/store.ts";
import { isTerminal } from "../../../../src/protocol/task.ts";
import { ManualClock } from "../../../../src/testing/index.ts";
import { expectLawful } from "../../../agent/support/laws.ts";
import { turns } from "../../../agent/support/tools.ts";
import { type Random, seededRandom } from "../../../support/random.ts";
import { checkedStore } from "./checked-store.ts";
import { castOn, type Executions, makePlans } from "./schedule-cast.ts";
import { type SimulatedProcess, simulateProcess } from "./simulated-process.ts";

const sessionId = "s";
const unfinished = ["queued", "in_progress", "suspended"] as const;
const leaseMs = 10_000;
const maxRounds = 60;

/** How a schedule went. */
export interface Played {
  /** What went wrong; empty when all is well. */
  readonly problems: readonly string[];
  /** What was done, in order, for whoever reads a failure. */
  readonly story: readonly string[];
  readonly tasks: number;
}

/** What may come of a call while others cancel, crash and take over. */
const expected = new Set([
  ...["agent_busy", "fenced", "conflict", "task_ended", "session_suspended", "unknown_approval"],
  ...["cancelled", "executor_lost", "shutting_down", "nothing_new"],
]);

interface Actor {
  readonly process: SimulatedProcess;
  readonly lead: ReActAgent;
}

/** Plays one schedule: what its processes do, who disturbs them and when depends on the seed alone. */
export async function playSchedule(seed: number): Promise<Played> {
  const random = seededRandom(seed);
  const storeClock = new ManualClock(1_000_000_000);
  const inner = memoryStore({ clock: storeClock });
  const checked = checkedStore(inner);
  const plans = makePlans(seededRandom(seed + 1));
  const executions: Executions = new Map();
  const problems: string[] = [];
  const story: string[] = [];
  const actors: Actor[] = [];
  const runs: Run[] = [];
  const readers: (() => void)[] = [];
  const seen = new Map<string, string>();

  function begin(): Actor {
    const name = `p${actors.length}`;
    // Its clock may be an hour off in either direction.
    const now = storeClock.now() + random.int(-3_600_000, 3_600_000);
    const process = simulateProcess(checked.store, {
      name,
      now,
      random: seededRandom(seed + 2 + actors.length),
    });
    const actor = { process, lead: castOn(process, plans, executions) };
    actors.push(actor);
    return actor;
  }

  function watchOver(what: string, work: Promise<unknown>): void {
    work.catch((error: unknown) => {
      const code = error instanceof RivuletError ? error.code : undefined;
      if (code === undefined || !expected.has(code)) {
        problems.push(`${what}: ${code} ${(error as Error)?.stack ?? error}`);
      }
    });
  }

  async function anyTask(): Promise<TaskRecord | undefined> {
    const records = await inner.tasks({ conversation: sessionId });
    return records.length > 0 ? random.pick(records) : undefined;
  }

  /** A task that has ended says the same for ever. */
  async function read(taskId: string): Promise<void> {
    const record = await inner.task(taskId);
    if (record === undefined || !isTerminal(record.status)) return;
    const told = JSON.stringify(record);
    const before = seen.get(taskId);
    if (before !== undefined && before !== told) {
      problems.push(`${taskId} was ${before}, and is ${told}`);
    }
    seen.set(taskId, told);
  }

  const moves: Readonly<Record<string, (actor: Actor) => Promise<void> | void>> = {
    ask({ lead }) {
      const onBusy = random.pick(["queue", "fail"] as const);
      const onSuspended = random.pick(["deny", "fail"] as const);
      const run = lead.run(plans.ask(), { sessionId, onBusy, onSuspended });
      runs.push(run);
      watchOver("ask", run.result());
    },
    goOn({ lead }) {
      const run = lead.run(undefined, {
        sessionId,
        onBusy: random.pick(["queue", "fail"] as const),
      });
      runs.push(run);
      watchOver("goOn", run.result());
    },
    async answer({ lead }) {
      watchOver("answer", answerSome(lead, random));
    },
    cancelRun() {
      if (runs.length > 0) watchOver("cancelRun", random.pick(runs).cancel("enough"));
    },
    async cancelTask({ lead }) {
      const task = await anyTask();
      const settings = settingsBehind(lead);
      if (task && settings) watchOver("cancelTask", cancelTask(settings, task.taskId, "enough"));
    },
    async postCancel() {
      const task = await anyTask();
      if (task === undefined || isTerminal(task.status)) return;
      const { taskId, rootTaskId } = task;
      const message = { ...userMessage("enough"), metadata: { taskId } };
      const row = { id: `cancel:${taskId}`, kind: "cancel", rootTaskId, message } as const;
      await inner.post({ ...row, sessionId: task.sessionId });
    },
    sweep({ lead, process }) {
      const lostTasks = random.chance(0.7) ? "resume" : "fail";
      const runner = taskRunner({ agents: [lead], lostTasks, clock: process.clock, onProblem });
      watchOver("sweep", runner.sweep());
    },
    async shutDown({ lead, process }) {
      const runner = taskRunner({ agents: [lead], clock: process.clock, onProblem });
      watchOver("shutDown", runner.shutDown());
      begin();
    },
    async read() {
      const task = await anyTask();
      if (task === undefined) return;
      readers.push(inner.watch({ task: task.taskId }, () => void read(task.taskId)));
      await read(task.taskId);
    },
    kill({ process }) {
      process.kill();
      begin();
    },
    cutOff({ process }) {
      process.cutOff();
      begin();
    },
    pause({ process }) {
      process.pause();
      begin();
    },
    wake() {
      for (const { process } of actors) process.goOn();
    },
    async tick({ process }) {
      await process.clock.advance(random.int(1, 30_000));
    },
    async expire() {
      await storeClock.advance(leaseMs + 1);
    },
  };
  const weighted: readonly string[] = [
    ...["ask", "ask", "goOn", "answer", "answer", "cancelRun", "cancelTask", "postCancel"],
    ...["sweep", "sweep", "shutDown", "read", "kill", "cutOff", "pause", "wake"],
    ...["tick", "tick", "tick", "expire", "expire"],
  ];

  function onProblem(session: string, error: unknown): void {
    watchOver(`sweep of ${session}`, Promise.reject(error));
  }

  async function move(name: string, actor: Actor): Promise<void> {
    story.push(`${name} ${actor.process.name}`);
    await moves[name]?.(actor);
    await turns(random.int(0, 25));
  }

  begin();
  await move("ask", actors[0] as Actor);
  for (let left = random.int(4, 24); left > 0; left--) {
    const alive = actors.filter(({ process }) => process.state === "alive");
    await move(random.pick(weighted), alive.length > 0 ? random.pick(alive) : begin());
  }

  // Whoever is left gets time to end its work; then one process takes up all that is left.
  for (const { process } of actors) process.goOn();
  for (let round = 0; round < 20; round++) {
    for (const { process } of actors) {
      if (process.state === "alive") await process.clock.advance(40_000);
    }
    await turns(20);
  }
  for (const { process } of actors) process.kill();
  story.push("the end");
  const last = begin();
  const { lead, process } = last;
  const runner = taskRunner({ agents: [lead], clock: process.clock, onProblem });
  let left: readonly TaskRecord[] = [];
  for (let round = 0; round < maxRounds; round++) {
    await storeClock.advance(leaseMs + 1);
    await runner.sweep();
    watchOver("answer", answerAll(lead));
    await turns(60);
    await process.clock.advance(60_000);
    await turns(20);
    left = await inner.tasks({ conversation: sessionId, status: unfinished });
    if (left.length === 0) break;
  }
  if (left.length > 0) {
    for (const { taskId, agentName, status, mode, depth } of left) {
      problems.push(`${agentName} ${taskId} is ${status} for ever (${mode}, depth ${depth})`);
    }
  } else {
    const settled = lead.run("Do 9999.", { sessionId }).result();
    watchOver("the last call", settled);
    const over = settled.then(() => true).catch(() => true);
    const late = turns(2_000).then(() => false);
    if (!(await Promise.race([over, late]))) problems.push("the last call does not end");
  }
  problems.push(...checked.problems, ...(await finalProblems(inner)));
  for (const [callId, { name, times }] of executions) {
    if (times > 1 && name !== "look") problems.push(`${name} ${callId} ran ${times} times`);
  }
  for (const stop of readers) stop();
  for (const actor of actors) actor.process.bury();
  await turns(5);
  const { length: tasks } = await inner.tasks({ conversation: sessionId });
  return { problems, story, tasks };
}

async function answerSome(lead: ReActAgent, random: Random): Promise<void> {
  const approvals = (await lead.approvals({ sessionId })).filter(() => random.chance(0.7));
  const answers = approvals.map((one) => (random.chance(0.7) ? one.approve() : one.deny("no")));
  if (answers.length > 0) await lead.call(answers, { sessionId });
}

async function answerAll(lead: ReActAgent): Promise<void> {
  const approvals = await lead.approvals({ sessionId });
  if (approvals.length > 0)
    await lead.call(
      approvals.map((one) => one.approve()),
      { sessionId },
    );
}

/** What is wrong with what a conversation has left, when all of it has ended. */
async function finalProblems(store: Store): Promise<readonly string[]> {
  const problems: string[] = [];
  const records = await store.tasks({ conversation: sessionId });
  for (const root of records.filter(({ depth }) => depth === 0)) {
    await expectLawful(store, root.taskId).catch((error: { actual?: unknown }) => {
      problems.push(JSON.stringify(error.actual ?? error, undefined, 1));
    });
  }
  for (const post of await store.posts({ sessionId })) {
    problems.push(`${post.id} was never taken`);
  }
  for (const record of records) problems.push(...(await resultProblems(store, record)));
  return problems;
}

/** What a child came to is read once by the one who started it. */
async function resultProblems(store: Store, record: TaskRecord): Promise<readonly string[]> {
  const { taskId, status, depth, parentSessionId = "", result, error } = record;
  if (!isTerminal(status)) return [];
  const problems: string[] = [];
  if (status === "failed" ? error === undefined : result === undefined) {
    problems.push(`${taskId} is ${status} without a result`);
  }
  if (depth === 0) return problems;
  const blocks = (await store.session(parentSessionId)).flatMap(({ content }) => content);
  const hints = blocks.filter(
    (block) => block.type === "hint" && block.metadata?.taskId === taskId,
  );
  if (hints.length > 1) problems.push(`${taskId} was told ${hints.length} times`);
  return problems;
}
