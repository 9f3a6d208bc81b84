// The cost of a child must not depend on how many children there were before: counted in what the store reads.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import {
  HarnessAgent,
  memoryStore,
  type Store,
  type SubagentDeclaration,
  sqliteStore,
} from "../../../src/index.ts";
import { type ScriptedTurn, scriptedModel } from "../../../src/testing.ts";

const folder = mkdtempSync(join(tmpdir(), "growth-"));
afterAll(() => rmSync(folder, { recursive: true }));

const load = { wave: 20, waves: 12 };

/** The store, and how many rows and events its readers have got. */
function counting(store: Store): { readonly store: Store; readonly rows: () => number } {
  let rows = 0;
  const counted =
    <Args extends unknown[], Row>(list: (...args: Args) => Promise<readonly Row[]>) =>
    async (...args: Args): Promise<readonly Row[]> => {
      const found = await list(...args);
      rows += found.length;
      return found;
    };
  const own: Store = {
    ...store,
    read: counted(store.read),
    tasks: counted(store.tasks),
    posts: counted(store.posts),
    session: counted(store.session),
    async task(id) {
      rows += 1;
      return store.task(id);
    },
  };
  return { store: own, rows: () => rows };
}

const answering: SubagentDeclaration = {
  name: "worker",
  description: "Works.",
  model: scriptedModel(() => "Done."),
};
const failing: SubagentDeclaration = {
  ...answering,
  model: scriptedModel(() => ({ error: new Error("No.") })),
};
const delegating: SubagentDeclaration = {
  name: "worker",
  description: "Delegates.",
  leaf: false,
  model: scriptedModel(({ assistantCount }) =>
    assistantCount === 0
      ? { call: "agent_spawn", input: { agent_id: "leaf", task: "Work." } }
      : "Done.",
  ),
};
const leaf: SubagentDeclaration = { ...answering, name: "leaf" };

interface Manner {
  readonly input?: (n: number) => object;
  readonly workers?: readonly SubagentDeclaration[];
  readonly parallelChildren?: number;
}

const manners: Readonly<Record<string, Manner>> = {
  "at once": {},
  "in a queue": { parallelChildren: 4 },
  "in the background": { input: () => ({ timeout_seconds: 0 }) },
  "with labels": { input: (n) => ({ label: `worker ${n}` }) },
  "that fail": { workers: [failing] },
  "with children of their own": { workers: [delegating, leaf] },
};

/** Runs waves of children of one root; returns the rows that each wave read. */
async function rowsPerWave(
  opened: Store,
  manner: Manner,
  { wave, waves } = load,
): Promise<readonly number[]> {
  const { store, rows } = counting(opened);
  const { input = () => ({}), workers = [answering], parallelChildren = load.wave } = manner;
  const perWave: number[] = [];
  let before = 0;
  let started = 0;
  const model = scriptedModel((): ScriptedTurn => {
    if (started > 0) perWave.push(rows() - before);
    before = rows();
    if (started >= wave * waves) return "Done.";
    return Array.from({ length: wave }, () => {
      const task = { agent_id: "worker", task: `Task ${started}.`, ...input(started) };
      started += 1;
      return { call: "agent_spawn", input: task };
    });
  });
  const lead = new HarnessAgent({
    ...{ name: "lead", model, store, subagents: workers, maxIters: waves + 1 },
    limits: { childrenPerTask: 10_000, parallelChildren },
  });
  const { generateReason } = await lead.call("Go.");
  expect(generateReason).toBe("model_stop");
  const records = await opened.tasks({});
  expect(records.length).toBeGreaterThan(wave * waves);
  await opened.close();
  return perWave;
}

/** Runs work, and counts how often it looks into sets and tests patterns. */
async function lookupsOf(work: () => Promise<unknown>): Promise<number> {
  const { has } = Set.prototype;
  const { test } = RegExp.prototype;
  let lookups = 0;
  Set.prototype.has = function (value) {
    lookups += 1;
    return has.call(this, value);
  };
  RegExp.prototype.test = function (text) {
    lookups += 1;
    return test.call(this, text);
  };
  try {
    await work();
  } finally {
    Object.assign(Set.prototype, { has });
    Object.assign(RegExp.prototype, { test });
  }
  return lookups;
}

it("a child of a large wave is compared with no more calls than one of a small wave", async () => {
  const perChild = async (wave: number) => {
    const manner = { parallelChildren: wave };
    const lookups = await lookupsOf(() => rowsPerWave(memoryStore(), manner, { wave, waves: 1 }));
    return lookups / wave;
  };
  expect(await perChild(400)).toBeLessThanOrEqual(1.2 * (await perChild(50)));
});

it("a wave of 200 children starts in several turns of the event loop", async () => {
  let inTurn = 0;
  let most = 0;
  const store = memoryStore();
  const counted: Store = {
    ...store,
    async task(id) {
      const found = await store.task(id);
      if (found?.parentTaskId !== undefined) return found;
      // Each start reads the root twice.
      if (inTurn === 0)
        setImmediate(() => {
          inTurn = 0;
        });
      inTurn += 1;
      most = Math.max(most, inTurn);
      return found;
    },
  };
  await rowsPerWave(counted, { parallelChildren: 200 }, { wave: 200, waves: 1 });
  expect(most).toBeGreaterThan(1);
  expect(most).toBeLessThanOrEqual(2 * 2 * 64); // a turn may have the rest of the one before
});

it.each([4, 200])(
  "200 children with labels, %i at a time, are stored in the order of their calls",
  async (parallelChildren) => {
    const callOf = (n: number) => ({
      call: "agent_spawn",
      input: { agent_id: "worker", task: `Task ${n}.`, label: `worker ${n}` },
    });
    const calls = Array.from({ length: 200 }, (_, n) => callOf(n));
    const store = memoryStore();
    const lead = new HarnessAgent({
      ...{ name: "lead", store, subagents: [answering] },
      model: scriptedModel([calls, [callOf(7), callOf(150)], "Done."]), // labels that are taken
      limits: { childrenPerTask: 300, parallelChildren },
    });
    await lead.call("Go.", { sessionId: "s" });
    const children = await store.tasks({ parentSessionId: "s" });
    expect(children.map(({ label }) => label)).toEqual(calls.map(({ input }) => input.label));
  },
);

describe.each([
  ["memory", () => memoryStore()],
  ["SQLite", (name: string) => sqliteStore(join(folder, `${name}.db`))],
] as const)("%s: a hundred more children read as many rows as the first hundred", (_, open) => {
  it.each(Object.entries(manners))("%s", { timeout: 60_000 }, async (title, manner) => {
    const perWave = await rowsPerWave(open(title), manner);
    const early = Math.max(...perWave.slice(0, 4));
    const late = Math.max(...perWave.slice(-4));
    expect(late).toBeLessThanOrEqual(1.2 * early);
  });

  it("in a long queue", { timeout: 60_000 }, async () => {
    const perChild = async (wave: number) => {
      const rows = await rowsPerWave(
        open(`queue of ${wave}`),
        { parallelChildren: 4 },
        { wave, waves: 2 },
      );
      return (rows[1] ?? 0) / wave;
    };
    expect(await perChild(160)).toBeLessThanOrEqual(1.5 * (await perChild(40)));
  });
});
