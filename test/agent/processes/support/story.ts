import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { type Store, sqliteStore } from "../../../../src/index.ts";
import { checkStream } from "../../../../src/protocol/check/check.ts";
import { emptyTree, reduce } from "../../../../src/protocol/reduce.ts";
import type { TaskStatus } from "../../../../src/protocol/task.ts";
import type { TaskEvent } from "../../../../src/protocol.ts";
import { executionsIn } from "../../../support/executions.ts";
import { expectLawful, readLog } from "../../support/laws.ts";
import { firstMessage, repeatable, secondMessage, sessionId } from "./story-cast.ts";
import { type Job, type Outcome, StoryProcess } from "./story-process.ts";

/** How many processes play a story, and after how many milliseconds of it which of them are killed. */
export interface Plot {
  readonly processes: 2 | 3;
  readonly kills?: Partial<Readonly<Record<"a" | "b", number>>>;
}

/** How a story went. */
export interface Story {
  readonly first: Outcome | undefined;
  readonly second: Outcome | undefined;
  readonly answer: Outcome | undefined;
  /** The statuses of the background children when the second task began. */
  readonly childrenAtSecond: readonly TaskStatus[];
  /** How many tasks another process has recovered. */
  readonly recovered: number;
}

const timeoutMs = 60_000;

/** Three processes that play story after story; a killed one is replaced. */
export class Trio {
  readonly #folder: string;
  #processes: readonly StoryProcess[];

  constructor(folder: string) {
    this.#folder = folder;
    this.#processes = [1, 2, 3].map(() => new StoryProcess(folder));
  }

  /** Plays a story in a new database and checks all that it has left. */
  async play(name: string, { processes, kills = {} }: Plot): Promise<Story> {
    this.#processes = this.#processes.map((process) =>
      process.isAlive ? process : new StoryProcess(this.#folder),
    );
    const folder = join(this.#folder, name);
    mkdirSync(folder);
    const [a, b, c] = this.#processes as [StoryProcess, StoryProcess, StoryProcess];
    const survivor = kills.b === undefined ? b : a;
    const reader = processes === 3 ? c : survivor;
    const store = sqliteStore(join(folder, "store.db"));
    try {
      for (const process of [a, b, c]) await process.send({ order: "open", folder }).outcome;
      const story = await within(timeoutMs, name, () => playStory({ store, a, b, reader }, kills));
      expectOnce(folder, name, Object.keys(kills).length);
      return story;
    } finally {
      for (const process of [a, b, c]) await process.send({ order: "close" }).outcome;
      await store.close();
    }
  }

  async end(): Promise<void> {
    await Promise.all(this.#processes.map((process) => process.kill()));
  }
}

interface Stage {
  readonly store: Store;
  readonly a: StoryProcess;
  readonly b: StoryProcess;
  /** The process that attaches to the root tasks. */
  readonly reader: StoryProcess;
}

async function playStory(
  { store, a, b, reader }: Stage,
  kills: NonNullable<Plot["kills"]>,
): Promise<Story> {
  const first = a.send({ order: "run", input: firstMessage });
  const firstId = (await first.taskId) ?? "";
  const killing = Object.entries(kills).map(async ([name, ms]) => {
    await sleep(ms);
    await (name === "a" ? a : b).kill();
  });
  const watchedFirst = reader.send({ order: "watch", taskId: firstId });
  const answer = b.send({ order: "answer" });
  await first.outcome;
  const second = b.send({ order: "run", input: secondMessage });
  await second.taskId;
  const children = await store.tasks({ rootTaskId: firstId });
  const childrenAtSecond = children.slice(1).map(({ status }) => status);
  // A process that was killed may have stored its task without having printed it.
  if (!b.isAlive) await Promise.all(killing);
  const secondId = (await store.tasks({ sessionId }))[1]?.taskId;
  const watchedSecond = secondId && reader.send({ order: "watch", taskId: secondId });
  if (kills.b !== undefined) {
    await Promise.all(killing);
    await reader.send({ order: "answerAll" }).outcome;
  }
  const jobs = [first, second, answer, watchedFirst, ...(watchedSecond ? [watchedSecond] : [])];
  await Promise.all([...killing, ...jobs.map(({ outcome }) => outcome)]);

  await expectWhole(store, firstId, watchedFirst, [first]);
  if (secondId && watchedSecond) await expectWhole(store, secondId, watchedSecond, [second]);
  const log = await readLog(store, firstId);
  expectPart(log, answer);
  const rows = await store.posts({ conversation: sessionId });
  expect(rows.filter(({ id }) => !id.startsWith("done:"))).toEqual([]);
  const logs = secondId ? [...log, ...(await readLog(store, secondId))] : log;
  return {
    first: await first.outcome,
    second: await second.outcome,
    answer: await answer.outcome,
    childrenAtSecond,
    recovered: logs.filter((event) => "reason" in event && event.reason === "recovered").length,
  };
}

/** Expects a lawful log that `watched` has seen whole, and the other readers from its beginning. */
async function expectWhole(
  store: Store,
  rootTaskId: string,
  watched: Job,
  others: readonly Job[],
): Promise<void> {
  const log = await readLog(store, rootTaskId);
  await expectLawful(store, rootTaskId);
  for (const { events } of [watched, ...others]) {
    const seen = log.slice(0, events.length);
    expect(events).toEqual(seen);
    expect(foldOf(events)).toEqual(foldOf(seen));
    expect(checkStream(events, { partial: true })).toEqual([]);
  }
  expect(foldOf(watched.events)).toEqual(foldOf(log));
  expect(checkStream(watched.events)).toEqual([]);
}

/** Expects that a reader has seen a part of a log, without a gap. */
function expectPart(log: readonly TaskEvent[], { events }: Job): void {
  const [first] = events;
  if (first === undefined) return;
  const from = log.findIndex((event) => numberOf(event) === numberOf(first));
  expect(events).toEqual(log.slice(from, from + events.length));
}

function numberOf(event: TaskEvent): number | undefined {
  return "sequence_number" in event ? event.sequence_number : undefined;
}

function foldOf(events: readonly TaskEvent[]) {
  return reduce(emptyTree(), events as TaskEvent[]);
}

/** Expects that no call ran again after its result was recorded, and that a crash repeats repeatable calls only. */
function expectOnce(folder: string, hint: string, deaths: number): void {
  const executions = executionsIn(folder);
  expect({ hint, again: executions.filter(({ isRecorded }) => isRecorded) }).toEqual({
    hint,
    again: [],
  });
  const times = new Map<string, number>();
  for (const { name, callId } of executions) {
    const count = (times.get(callId) ?? 0) + 1;
    times.set(callId, count);
    expect(count, `${hint}: ${name} ${callId}`).toBeLessThanOrEqual(
      repeatable.has(name) ? 1 + deaths : 1,
    );
  }
}

async function within<T>(ms: number, name: string, work: () => Promise<T>): Promise<T> {
  const over = new AbortController();
  const late = sleep(ms, undefined, { signal: over.signal }).then(() => {
    throw new Error(`Story ${name} has not ended after ${ms} ms.`);
  });
  late.catch(() => {});
  try {
    return await Promise.race([work(), late]);
  } finally {
    over.abort();
  }
}
