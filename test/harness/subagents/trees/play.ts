import { unfinished } from "../../../../src/agent/drive/plan.ts";
import { processOf } from "../../../../src/agent/drive/process.ts";
import type { AgentEvent, Answer, Approval, Reply, Run } from "../../../../src/index.ts";
import { RivuletError } from "../../../../src/index.ts";
import type { TaskEvent } from "../../../../src/protocol/event.ts";
import { turns } from "../../../agent/support/tools.ts";
import { inputFor } from "./cast.ts";
import { marksIn, type Plan, type TaskPlan } from "./plan.ts";
import { openStage, type Stage, sessionId } from "./stage.ts";

/** The method that first calls the root. */
export type Door = "run" | "call" | "stream";

/** The reply or error of the first call of the root. */
export type First = Pick<Reply, "text" | "generateReason" | "approvals" | "content"> | RivuletError;

/** The result of a finished tree. */
export interface Played extends Stage {
  readonly first: First;
  /** The events of the runs, by task. */
  readonly shown: ReadonlyMap<string, readonly TaskEvent[]>;
  readonly streamed: readonly AgentEvent[];
  /** The moment when the first root and its descendants were cancelled. */
  readonly cancelledAt?: number;
}

/** The idle turns of the event loop after which the player looks for waiting approvals. */
const idleTurns = 300;

/** Plays a plan: calls the root, answers approvals and cancels, until everything has ended. */
export async function play(
  plan: Plan,
  door: Door = "run",
  stage: Stage = openStage(plan),
): Promise<Played> {
  const people = new People(stage);
  const shown = new Map<string, TaskEvent[]>();
  const follows: Promise<void>[] = [];
  const streamed: AgentEvent[] = [];
  let first: First | undefined;
  let cancelledAt: number | undefined;
  for (const [index, root] of stage.roots.entries()) {
    const opened = open(stage, root, index === 0 ? door : "run", streamed);
    const { run } = opened;
    if (run) follows.push(follow(run, shown));
    const cancel = index === 0 && run ? cancelOf(stage, run) : undefined;
    // The last root task only receives the ends of background tasks.
    const settles = plan.settles || index >= stage.roots.length - 2;
    await people.attendTo(opened.first, settles);
    first ??= await opened.first;
    if (cancel) {
      await cancel();
      if (stage.silenceMs === undefined) cancelledAt = stage.witness.tick();
      await expectNothing(stage, "after the cancel");
      cancelledAt ??= stage.witness.tick();
    } else if (settles) {
      await run?.settled();
      await expectNothing(stage, `when ${root.key} has settled`);
    }
  }
  await Promise.all([people.done(), ...follows]);
  await expectNothing(stage, "at the end");
  if (first === undefined) throw new Error("There was no root.");
  return {
    ...stage,
    ...{ first, shown, streamed },
    ...(cancelledAt !== undefined && { cancelledAt }),
  };
}

/** Calls the root with one of the methods. */
function open(
  { agent }: Stage,
  { key }: TaskPlan,
  door: Door,
  streamed: AgentEvent[],
): { readonly run?: Run; readonly first: Promise<First> } {
  const input = inputFor(key);
  if (door === "call") return { first: caught(agent.call(input, { sessionId })) };
  if (door === "stream") {
    return { first: caught(lastOf(agent.stream(input, { sessionId }), streamed)) };
  }
  const run = agent.run(input, { sessionId, until: "tree" });
  return { run, first: caught(run.result()) };
}

function caught(reply: Promise<First>): Promise<First> {
  return reply.catch((error: unknown) => {
    if (error instanceof RivuletError) return error;
    throw error;
  });
}

async function lastOf(events: AsyncIterable<AgentEvent>, streamed: AgentEvent[]): Promise<First> {
  for await (const event of events) streamed.push(event);
  const last = streamed.at(-1);
  if (last?.type !== "agent_result" || last.source) throw new Error("The stream has no result.");
  return { ...last, content: last.message.content };
}

/** Collects the events of a run; errors are in its result. */
async function follow(run: Run, shown: Map<string, TaskEvent[]>): Promise<void> {
  const { taskId } = await run.task;
  const events: TaskEvent[] = [];
  shown.set(taskId, events);
  try {
    for await (const event of run) events.push(event);
  } catch (error) {
    if (!(error instanceof RivuletError)) throw error;
  }
}

/** Cancels a run when its log has the planned length; the returned function ensures the cancel. */
function cancelOf(stage: Stage, run: Run): (() => Promise<void>) | undefined {
  const { cancelAt } = stage.plan;
  if (cancelAt === undefined) return undefined;
  let cancelling: Promise<void> | undefined;
  const cancel = () => {
    cancelling ??= run.cancel("enough");
    return cancelling;
  };
  stage.onWritten = () => {
    if (stage.events >= cancelAt) void cancel();
  };
  return async () => {
    stage.onWritten = () => {};
    await cancel();
  };
}

/** Records leftovers of a conversation that should have ended; other processes may take their time. */
async function expectNothing(stage: Stage, when: string): Promise<void> {
  const { problems, silenceMs = 0 } = stage;
  const until = performance.now() + silenceMs;
  let left = await leftovers(stage, when);
  for (; left.length > 0 && performance.now() < until; left = await leftovers(stage, when))
    await turns(10);
  problems.push(...left);
}

async function leftovers(stage: Stage, when: string): Promise<readonly string[]> {
  const { store, witness, clock } = stage;
  const problems: string[] = [];
  if (processOf(store).owned(sessionId)) problems.push(`it is still driven ${when}`);
  const lease = await store.acquire(sessionId, "somebody else", 1_000);
  if (lease) await store.release(lease);
  else problems.push(`its lease is held ${when}`);
  if (witness.watchers > 0) problems.push(`${witness.watchers} watchers are left ${when}`);
  if (clock.pending > 0) problems.push(`${clock.pending} timers are left ${when}`);
  const open = await store.tasks({ conversation: sessionId, status: unfinished });
  if (open.length > 0) problems.push(`${open.length} tasks have not ended ${when}`);
  return problems;
}

/** Answers approvals at once, or only when the root suspends. */
class People {
  readonly #stage: Stage;
  readonly #answered = new Set<string>();
  readonly #answers = new Set<Promise<unknown>>();

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  /** Answers until a root task and, optionally, its descendants have ended. */
  async attendTo(first: Promise<First>, toTheEnd: boolean): Promise<void> {
    const { plan, store, witness } = this.#stage;
    let isResting = false;
    void first.then(() => {
      isResting = true;
    });
    let writes = -1;
    let wroteAt = 0;
    for (let idle = 0; ; idle++) {
      await turns(1);
      if (writes !== witness.commits.length) {
        idle = 0;
        wroteAt = performance.now();
      }
      writes = witness.commits.length;
      const isLong = performance.now() - wroteAt > (this.#stage.silenceMs ?? 0);
      if (idle > 20 * idleTurns && isLong) throw new Error("It hangs.");
      if (plan.answers === "at once" || isResting || idle > idleTurns) await this.#look();
      if (!isResting || this.#answers.size > 0) continue;
      const left = toTheEnd ? { conversation: sessionId } : { sessionId };
      if ((await store.tasks({ ...left, status: unfinished })).length === 0) return;
    }
  }

  /** Resolves when all answered tasks have ended or suspended. */
  async done(): Promise<void> {
    await Promise.all(this.#answers);
  }

  async #look(): Promise<void> {
    const stage = this.#stage;
    if (!stage.isAsked) return;
    stage.isAsked = false;
    const waiting = await stage.agent.approvals({ sessionId });
    const open = waiting.filter(({ id }) => !this.#answered.has(id));
    for (const { id } of open) this.#answered.add(id);
    for (const some of stage.plan.together ? [open] : open.map((one) => [one])) {
      if (some.length > 0) this.#answer(some);
    }
  }

  #answer(approvals: readonly Approval[]): void {
    const { agent, problems } = this.#stage;
    const answer = agent.call(approvals.map(answerTo), { sessionId }).catch((error: unknown) => {
      // A cancel or failure in between is checked elsewhere.
      if (!(error instanceof RivuletError)) throw error;
      if (error.code === "unknown_approval" || marksIn(error.message).size > 0) return;
      problems.push(`an answer was refused: ${error.code} ${error.message}`);
    });
    this.#answers.add(answer);
    void answer.finally(() => this.#answers.delete(answer));
  }
}

/** The answer to an approval depends only on its call. */
export function answerTo(approval: Approval): Answer {
  const input = approval.call.input as { readonly n: number };
  const { n } = input;
  if (n % 3 === 0) return approval.deny("not that");
  return n % 3 === 1 ? approval.approve() : approval.edit({ ...input, n: n + 1 });
}
