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
