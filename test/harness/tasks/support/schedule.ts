import type { TaskRecord } from "../../../../src/contract/store.ts";
import type { ReActAgent } from "../../../../src/index.ts";
import { turns } from "../../../agent/support/tools.ts";
import { problemsIn, type Seen, seenIn } from "./aftermath.ts";
import { noPlan } from "./schedule-cast.ts";
import { type MoveName, makeMove, moveNames, runnerOf } from "./schedule-moves.ts";
import { type Actor, leaseMs, openWorld, sessionId, type World } from "./schedule-world.ts";

const unfinished = ["queued", "in_progress", "suspended"] as const;
const maxRounds = 60;

/** The result of a schedule. */
export interface Played {
  /** The problems; empty on success. */
  readonly problems: readonly string[];
  /** The moves in order, for the report of a failure. */
  readonly story: readonly string[];
  /** Counts of what happened. */
  readonly seen: Seen;
}

/** Plays one schedule, which depends only on the seed. */
export async function playSchedule(seed: number): Promise<Played> {
  const world = openWorld(seed);
  const { random, actors, store } = world;
  const story: string[] = [];
  const move = async (name: MoveName, actor: Actor) => {
    story.push(`${name} ${actor.process.name}`);
    await makeMove(name, world, actor);
    await turns(random.int(0, 25));
  };
  await move("ask", world.begin());
  for (let left = random.int(4, 24); left > 0; left--) {
    const alive = actors.filter(({ process }) => process.state === "alive");
    await move(random.pick(moveNames), alive.length > 0 ? random.pick(alive) : world.begin());
  }
  await giveTime(world);
  const last = world.begin();
  if (await endAll(world, last)) await hearOfAll(world, last.lead);
  for (const [callId, { name, times }] of world.executions) {
    if (times > 1 && name !== "look") world.blame(`${name} ${callId} ran ${times} times`);
  }
  const problems = [...world.problems(), ...(await problemsIn(store, sessionId))];
  for (const { process } of actors) process.bury();
  await turns(5);
  return { problems, story, seen: await seenIn(store, sessionId) };
}

/** Gives the remaining processes time to finish, then kills them. */
async function giveTime({ actors }: World): Promise<void> {
  for (const { process } of actors) process.goOn();
  for (let round = 0; round < 20; round++) {
    for (const { process } of actors) {
      if (process.state === "alive") await process.clock.advance(40_000);
    }
    await turns(20);
  }
  for (const { process } of actors) process.kill();
}

/** Lets one process resume the rest and answer all approvals; resolves to true when all tasks have ended. */
async function endAll(world: World, last: Actor): Promise<boolean> {
  const { store, storeClock } = world;
  const { lead, process } = last;
  const runner = runnerOf(world, last);
  let left: readonly TaskRecord[] = [];
  for (let round = 0; round < maxRounds; round++) {
    await storeClock.advance(leaseMs + 1);
    await runner.sweep();
    world.watchOver("answer", answerAll(lead));
    await turns(60);
    await process.clock.advance(60_000);
    await turns(20);
    left = await store.tasks({ conversation: sessionId, status: unfinished });
    if (left.length === 0) return true;
  }
  for (const { taskId, agentName, status, mode, depth } of left) {
    world.blame(`${agentName} ${taskId} is ${status} for ever (${mode}, depth ${depth})`);
  }
  return false;
}

async function answerAll(lead: ReActAgent): Promise<void> {
  const answers = (await lead.approvals({ sessionId })).map((one) => one.approve());
  if (answers.length > 0) await lead.call(answers, { sessionId });
}

/** Calls the lead once more, so that it receives the results of background tasks. */
async function hearOfAll({ watchOver, blame }: World, lead: ReActAgent): Promise<void> {
  const settled = lead.call(noPlan, { sessionId });
  watchOver("the last call", settled);
  const over = settled.then(() => true).catch(() => true);
  const late = turns(2_000).then(() => false);
  if (!(await Promise.race([over, late]))) blame("the last call does not end");
}
