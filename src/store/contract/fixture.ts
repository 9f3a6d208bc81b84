import { it } from "vitest";
import type { Clock } from "../../protocol/clock.ts";
import type { Store } from "../../protocol/store.ts";

/** A store to test, and what else it can do. */
export interface StoreUnderTest {
  readonly store: Store;
  /** True when the store goes by a clock that the suite cannot move. */
  readonly ownClock?: boolean;
  /** Closes the store and opens the same data again, as the next process would. */
  readonly reopen?: () => Promise<Store>;
  /** Another handle on the same data, as a second process has at the same time. */
  readonly second?: () => Promise<Store>;
  /** Removes the data, once everything that was opened on it is closed. */
  readonly dispose?: () => Promise<void>;
}

/** Opens an empty store that goes by the given clock where it can. */
export type CreateStore = (options: { clock: Pick<Clock, "now"> }) => Promise<StoreUnderTest>;

/** A clock that stands still until it is moved. */
export interface StillClock {
  now(): number;
  advance(ms: number): void;
}

/** A clock that stands at a round number. */
export function stillClock(): StillClock {
  let time = 1_700_000_000_000;
  return {
    now: () => time,
    advance(ms) {
      time += ms;
    },
  };
}

interface Opened extends StoreUnderTest {
  readonly time: StillClock;
}

/** What a case may ask for by name; one that a store cannot offer skips the case and says so. */
export interface ContractFixtures {
  opened: Opened;
  store: Store;
  clock: StillClock;
  reopen: () => Promise<Store>;
  second: Store;
}

/** `it` with a fresh store for each case, closed and removed after it. */
export function contractTest(name: string, create: CreateStore) {
  const told = new Set<string>();
  function without(what: string): string {
    const reason = `the ${name} store has no ${what}`;
    if (!told.has(reason)) console.info(`Some cases of the contract are skipped: ${reason}.`);
    told.add(reason);
    return reason;
  }
  return it.extend<ContractFixtures>({
    // biome-ignore lint/correctness/noEmptyPattern: this fixture needs no other
    opened: async ({}, use) => {
      const time = stillClock();
      const opened = await create({ clock: time });
      await use({ ...opened, time });
      await opened.store.close();
      await opened.dispose?.();
    },
    store: async ({ opened }, use) => use(opened.store),
    clock: async ({ opened, skip }, use) => {
      if (opened.ownClock) return skip(without("clock that can be moved"));
      await use(opened.time);
    },
    reopen: async ({ opened, skip }, use) => {
      const { reopen } = opened;
      if (!reopen) return skip(without("data that outlives it"));
      const stores: Store[] = [];
      await use(async () => {
        const store = await reopen();
        stores.push(store);
        return store;
      });
      for (const store of stores) await store.close();
    },
    second: async ({ opened, skip }, use) => {
      if (!opened.second) return skip(without("second handle on the same data"));
      const store = await opened.second();
      await use(store);
      await store.close();
    },
  });
}

/** The `it` of a contract's cases. */
export type ContractTest = ReturnType<typeof contractTest>;
