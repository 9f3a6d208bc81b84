import type { Clock } from "../../base/clock.ts";
import type { Store } from "../../contract/index.ts";
import { MissingAbility, type Suite, type WithFixture } from "../contract.ts";

/** An empty store to test, with its optional abilities. */
export interface StoreUnderTest {
  readonly store: Store;
  /** True when the store has a clock of its own, which the cases cannot move. */
  readonly ownClock?: boolean;
  /** Closes the store and opens the same data again, as the next process does. */
  readonly reopen?: () => Promise<Store>;
  /** Opens the same data a second time, as another process does. */
  readonly second?: () => Promise<Store>;
  /** Deletes the data, once every store on it is closed. */
  readonly dispose?: () => Promise<void>;
}

/** Opens an empty store; one without `ownClock` must take its time from the clock. */
export type CreateStore = (options: {
  readonly clock: Pick<Clock, "now">;
}) => StoreUnderTest | Promise<StoreUnderTest>;

/** A clock that stands still until a case moves it. */
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

/** The fixture of a case; a field that the store does not offer throws `MissingAbility`. */
export interface StoreFixture {
  readonly store: Store;
  readonly clock: StillClock;
  readonly reopen: () => Promise<Store>;
  readonly openSecond: () => Promise<Store>;
  /** Opens another empty store of the same kind. */
  readonly create: () => Promise<Store>;
}

/** How the cases of the store contract are written down. */
export type StoreSuite = Suite<StoreFixture>;

/** Opens a store for each case, and closes and deletes it after the case. */
export function withStore(create: CreateStore): WithFixture<StoreFixture, undefined> {
  return async (run) => {
    const time = stillClock();
    const opened: StoreUnderTest[] = [];
    const stores: Store[] = [];
    const open = async (clock: StillClock) => {
      const under = await create({ clock });
      opened.push(under);
      stores.push(under.store);
      return under;
    };
    const noted = (ability: (() => Promise<Store>) | undefined, missing: string) => {
      if (ability === undefined) throw new MissingAbility(missing);
      return async () => {
        const store = await ability();
        stores.push(store);
        return store;
      };
    };
    try {
      const { store, ownClock = false, reopen, second } = await open(time);
      await run({
        store,
        get clock() {
          if (ownClock) throw new MissingAbility("The store has a clock of its own.");
          return time;
        },
        get reopen() {
          return noted(reopen, "The store cannot open the same data again.");
        },
        get openSecond() {
          return noted(second, "The store cannot open the same data twice.");
        },
        create: async () => (await open(stillClock())).store,
      });
    } finally {
      for (const store of stores) await store.close();
      for (const { dispose } of opened) await dispose?.();
    }
  };
}
