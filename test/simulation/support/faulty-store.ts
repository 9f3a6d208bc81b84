import { RivuletError } from "../../../src/base/error.ts";
import type { Store } from "../../../src/contract/store.ts";
import { callsThrough } from "../../support/calls-through.ts";
import type { Random } from "../../support/random.ts";
import type { Machine, VirtualTime } from "./virtual-time.ts";

/** The network between the machines and the database, and how bad it is. */
export interface Network {
  readonly time: VirtualTime;
  readonly random: Random;
  /** The machine of the database; its clock decides when leases end. */
  readonly database: Machine;
  /** The shares of requests that do not arrive, and of answers that do not. */
  lostRequests: number;
  lostAnswers: number;
  /** The share of wake-ups that are left to the poll. */
  lostWakes: number;
  /** Until when the database refuses connections. */
  downUntil: number;
  /** Until when a machine cannot reach the database. */
  readonly cutUntil: Map<Machine, number>;
  /** Called for each fault that a machine may notice. */
  onFault(machine: Machine): void;
}

/** How long a machine asks again before it rejects, and how soon a poll finds what no wake-up told. */
const patienceMs = 6_000;
const pollMs = 2_000;

/**
 * The store of a machine: a shared store behind a network. Like PostgreSQL's it asks again when no answer comes, gets the
 * first answer then, keeps the order of the commits of a conversation, and gives up after a time with an unknown outcome.
 */
export function faultyStore(shared: Store, machine: Machine, network: Network): Store {
  const { time, random, database } = network;
  const commits = new Map<string, Promise<unknown>>();

  const isDown = () => time.now < Math.max(network.downUntil, network.cutUntil.get(machine) ?? 0);

  function reach<T>(ask: () => Promise<T>): Promise<T> {
    const since = time.now;
    return new Promise<T>((resolve, reject) => {
      const giveUp = () =>
        reject(
          new RivuletError("store_failed", "The database does not answer.", { retryable: true }),
        );
      /** The answer, once the request was executed. */
      let answer: Promise<T> | undefined;
      const again = () => {
        network.onFault(machine);
        time.after(random.int(50, 500), machine, () => {
          if (time.now - since > patienceMs) giveUp();
          else send();
        });
      };
      const send = () => {
        if (isDown() || random.chance(network.lostRequests)) return again();
        time.after(random.int(1, 6), database, () => {
          if (isDown()) return again();
          answer ??= ask();
          const settle = (deliver: () => void) => {
            if (isDown() || random.chance(network.lostAnswers)) return again();
            time.after(random.int(1, 6), machine, deliver);
          };
          answer.then(
            (value) => settle(() => resolve(value)),
            (error: unknown) => settle(() => reject(error as Error)),
          );
        });
      };
      send();
    });
  }

  /** One commit of a conversation after the other. */
  function inOrder<T>(conversation: string, ask: () => Promise<T>): Promise<T> {
    const before = commits.get(conversation);
    const done = before ? before.then(() => reach(ask)) : reach(ask);
    const settled = done.catch(() => {});
    commits.set(conversation, settled);
    return done;
  }

  return {
    ...callsThrough(shared, reach),
    claim: (...args) => reach(async () => (await shared.claim?.(...args)) ?? []),
    commit: (...args) => inOrder(args[0].lease.sessionId, () => shared.commit(...args)),
    watch: (key, wake) =>
      shared.watch(key, () => {
        const isLost = isDown() || random.chance(network.lostWakes);
        time.after(isLost ? random.int(20, pollMs) : random.int(1, 30), machine, () => wake());
      }),
    files: shared.files,
    close: () => Promise.resolve(),
  };
}
