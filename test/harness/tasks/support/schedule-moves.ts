import { userMessage } from "../../../../src/contract/message.ts";
import type { TaskRecord } from "../../../../src/contract/store.ts";
import { taskRunner } from "../../../../src/harness/tasks/task-runner.ts";
import type { ReActAgent } from "../../../../src/index.ts";
import { isTerminal } from "../../../../src/protocol/task.ts";
import type { Random } from "../../../support/random.ts";
import { type Actor, leaseMs, sessionId, type World } from "./schedule-world.ts";

/** The possible next events of a schedule. */
type Move = (world: World, actor: Actor) => Promise<void> | void;

const moves = {
  ask({ random, plans, runs, watchOver }, { lead }) {
    const onBusy = random.pick(["queue", "fail"] as const);
    const onSuspended = random.pick(["deny", "fail"] as const);
    const run = lead.run(plans.ask(), { sessionId, onBusy, onSuspended });
    runs.push(run);
    watchOver("ask", run.result());
  },
  goOn({ random, runs, watchOver }, { lead }) {
    const onBusy = random.pick(["queue", "fail"] as const);
    const run = lead.run(undefined, { sessionId, onBusy });
    runs.push(run);
    watchOver("goOn", run.result());
  },
  answer({ random, watchOver }, { lead }) {
    watchOver("answer", answerSome(lead, random));
  },
  cancelRun({ random, runs, watchOver }) {
    if (runs.length > 0) watchOver("cancelRun", random.pick(runs).cancel("enough"));
  },
  async cancelTask(world, { lead }) {
    const task = await anyTask(world);
    if (!task) return;
    const { taskId } = task;
    world.watchOver("cancelTask", lead.attach({ taskId }).cancel("enough"));
  },
  async postCancel(world) {
    const task = await anyTask(world);
    if (task === undefined || isTerminal(task.status)) return;
    const { taskId, rootTaskId } = task;
    const message = userMessage("enough");
    const row = { id: `cancel:${taskId}`, kind: "cancel", rootTaskId, taskId, message } as const;
    await world.store.post([{ ...row, sessionId: task.sessionId }]);
  },
  sweep(world, actor) {
    const lostTasks = world.random.chance(0.7) ? "resume" : "fail";
    world.watchOver("sweep", runnerOf(world, actor, lostTasks).sweep());
  },
  shutDown(world, actor) {
    world.watchOver("shutDown", runnerOf(world, actor).shutDown());
    world.begin();
  },
  async read(world) {
    const task = await anyTask(world);
    if (task !== undefined) keepReading(world, task.taskId);
  },
  kill({ begin }, { process }) {
    process.kill();
    begin();
  },
  cutOff({ begin }, { process }) {
    process.cutOff();
    begin();
  },
  pause({ begin }, { process }) {
    process.pause();
    begin();
  },
  wake({ actors }) {
    for (const { process } of actors) process.goOn();
  },
  async tick({ random }, { process }) {
    await process.clock.advance(random.int(1, 30_000));
  },
  async expire({ storeClock }) {
    await storeClock.advance(leaseMs + 1);
  },
} as const satisfies Record<string, Move>;

/** The name of a move. */
export type MoveName = keyof typeof moves;

/** The moves, repeated by their weight. */
export const moveNames: readonly MoveName[] = [
  ...(["ask", "ask", "goOn", "answer", "answer"] as const),
  ...(["cancelRun", "cancelTask", "postCancel", "sweep", "sweep", "shutDown"] as const),
  ...(["read", "kill", "cutOff", "pause", "wake"] as const),
  ...(["tick", "tick", "tick", "expire", "expire"] as const),
];

/** Makes a move without waiting for the work that it starts. */
export async function makeMove(name: MoveName, world: World, actor: Actor): Promise<void> {
  const move: Move = moves[name];
  await move(world, actor);
}

/** The task runner of a process. */
export function runnerOf(
  { watchOver }: World,
  { lead, process }: Actor,
  lostTasks: "resume" | "fail" = "resume",
) {
  return taskRunner({
    agents: [lead],
    lostTasks,
    clock: process.clock,
    onProblem: (session, error) => watchOver(`sweep of ${session}`, Promise.reject(error)),
  });
}

async function anyTask({ store, random }: World): Promise<TaskRecord | undefined> {
  const records = await store.tasks({ conversation: sessionId });
  return records.length > 0 ? random.pick(records) : undefined;
}

async function answerSome(lead: ReActAgent, random: Random): Promise<void> {
  const approvals = (await lead.approvals({ sessionId })).filter(() => random.chance(0.7));
  const answers = approvals.map((one) => (random.chance(0.7) ? one.approve() : one.deny("no")));
  if (answers.length > 0) await lead.call(answers, { sessionId });
}

/** Reads a task repeatedly and checks that its final state never changes. */
function keepReading({ store, blame }: World, taskId: string): void {
  let before: string | undefined;
  const read = async () => {
    const record = await store.task(taskId);
    if (record === undefined || !isTerminal(record.status)) return;
    const told = JSON.stringify(record);
    before ??= told;
    if (before !== told) blame(`${taskId} was ${before}, and is ${told}`);
  };
  store.watch({ task: taskId }, () => void read());
  void read();
}
