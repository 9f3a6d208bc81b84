import { describe, expect, it } from "vitest";
import type { Store } from "../contract/store.ts";
import { memoryStore } from "../store/memory.ts";
import type { ContractCase } from "./contract.ts";
import { storeContract } from "./store-contract.ts";

/** Stores with one defect each. */
const defects: Readonly<Record<string, (store: Store) => Partial<Store>>> = {
  "ignores ifIdle": (store) => ({ enqueue: (record) => store.enqueue(record) }),
  "ignores begins": (store) => ({
    commit: ({ begins: _, ...commit }) => store.commit(commit),
  }),
  "writes past a refused commit": (store) => ({
    async commit(commit, following = []) {
      await store.commit(commit);
      const all = await Promise.allSettled(following.map((next) => store.commit(next)));
      return 1 + all.filter(({ status }) => status === "fulfilled").length;
    },
  }),
  "refuses a list as a whole": (store) => ({
    async commit(commit, following = []) {
      for (const next of [commit, ...following]) await store.commit(next);
      return 1 + following.length;
    },
  }),
  "loses the rest of a list": (store) => ({
    commit: async (commit, following = []) => {
      await store.commit(commit);
      return 1 + following.length;
    },
  }),
  "loses a row of a post": (store) => ({
    post: async (rows) => {
      await store.post(rows.slice(0, 1));
      return rows;
    },
  }),
  "lists tasks in the wrong order": (store) => ({
    tasks: async (query) => (await store.tasks(query)).toReversed(),
  }),
  "lists only tasks as work": (store) => ({
    expired: async (limit) => {
      const waiting = await store.tasks({ status: ["queued", "in_progress"] });
      const roots = new Set(waiting.map(({ rootTaskId }) => rootTaskId));
      return (await store.expired(limit)).filter(() => roots.size > 0);
    },
  }),
  "never wakes a watcher": () => ({ watch: () => () => {} }),
};

/** The names of the cases that fail or do not end. */
async function failing(cases: readonly ContractCase[]): Promise<string[]> {
  const names = await Promise.all(
    cases.map(async ({ group, name, run }) => {
      const outcome = run().then(
        () => "passed",
        () => "failed",
      );
      const silence = new Promise<string>((resolve) => setTimeout(resolve, 500, "waits"));
      return (await Promise.race([outcome, silence])) === "passed" ? [] : [`${group}: ${name}`];
    }),
  );
  return names.flat();
}

describe("storeContract", () => {
  it.each(Object.entries(defects))("finds a store that %s", async (_, defect) => {
    const groups = /^(enqueue|commit|commit with begins|inbox|tasks|expired|watch)$/;
    const cases = storeContract(({ clock }) => {
      const store = memoryStore({ clock });
      return { store: { ...store, ...defect(store) } };
    }).filter(({ group }) => groups.test(group));
    expect(await failing(cases)).not.toEqual([]);
  });

  it("names each case once", () => {
    const names = storeContract(() => ({ store: memoryStore() })).map(
      ({ group, name }) => `${group}: ${name}`,
    );
    expect(names.length).toBeGreaterThan(200);
    expect(new Set(names).size).toBe(names.length);
  });

  it("resolves to a reason when the store lacks an ability, and closes the store", async () => {
    let closed = 0;
    const cases = storeContract(() => {
      const store = memoryStore();
      const close = async () => {
        closed += 1;
        await store.close();
      };
      return { store: { ...store, close }, ownClock: true };
    });
    const find = (part: string) => cases.find(({ name }) => name.includes(part));
    expect(await find("renews from the current time")?.run()).toBe(
      "The store has a clock of its own.",
    );
    expect(await find("have one owner per conversation")?.run()).toMatch(/twice/);
    expect(await find("keeps leases and continues")?.run()).toMatch(/again/);
    expect(closed).toBe(3);
  });
});
