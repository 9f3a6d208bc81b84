import type { Client } from "pg";
import { RivuletError } from "../../base/error.ts";
import { storeClosed } from "../store-error.ts";
import { failureOf, isPassing, storeFailed } from "./failure.ts";
import {
  cannotOpen,
  checkServer,
  type Identity,
  isNoAddress,
  mayOpenSoon,
  openDatabase,
} from "./open.ts";
import type { Settings } from "./options.ts";
import { Connection, connect, type Statement, type Value } from "./pg-connection.ts";
import { inSchema } from "./schema.ts";

/** How long opening waits for a server at an address where nobody answers. */
const noAddressMs = 3_000;
const [shortestPauseMs, longestPauseMs] = [50, 2_000];

/** The statements of a repeated attempt. */
export interface Attempt {
  /** Whether an earlier attempt may have been executed. */
  readonly mayBeDone: boolean;
}

/** The connections of a store: opened when they are needed, and again after they were lost. */
export class Database {
  readonly settings: Settings;
  readonly writers: readonly Connection[];
  readonly #readers: readonly Connection[];
  readonly #statements = new Map<Statement, Statement>();
  #opening: Promise<Identity> | undefined;
  #identity: Identity | undefined;
  #isImpatient = false;
  #isClosed = false;

  constructor(settings: Settings) {
    this.settings = settings;
    const { writers, readers } = settings.pool;
    const create = () => new Connection(() => this.#connect(), settings);
    this.writers = Array.from({ length: writers }, create);
    this.#readers = Array.from({ length: readers }, create);
  }

  /** The time of a given clock; undefined for the clock of the database. */
  get given(): number | undefined {
    return this.settings.clock?.now();
  }

  /** The timeline of the server, from the newest connection. */
  get timeline(): number {
    return this.#identity?.timeline ?? 0;
  }

  /** Runs a statement that may be repeated, on the reading connection with the least to do. */
  read<Row extends readonly unknown[]>(
    statement: Statement,
    values: readonly Value[],
  ): Promise<readonly Row[]> {
    return this.repeat(() => this.readOnce<Row>(statement, values));
  }

  /** Runs a statement once on a reading connection. */
  readOnce<Row extends readonly unknown[]>(
    statement: Statement,
    values: readonly Value[],
  ): Promise<readonly Row[]> {
    const [first, ...others] = this.#readers as [Connection, ...Connection[]];
    const least = others.reduce((a, b) => (b.pending < a.pending ? b : a), first);
    return least.run<Row>(this.named(statement), values);
  }

  /** The statement for the schema of the store. */
  named(statement: Statement): Statement {
    let named = this.#statements.get(statement);
    if (named === undefined) {
      const { schema } = this.settings;
      named = { name: statement.name, text: inSchema(statement.text, schema) };
      this.#statements.set(statement, named);
    }
    return named;
  }

  /**
   * Repeats an attempt while the database is not available, as long as the store is patient; and as often as `races` when
   * another process was faster with the same id.
   */
  async repeat<Result>(
    attempt: (state: Attempt) => Promise<Result>,
    { races = 0 } = {},
  ): Promise<Result> {
    const start = performance.now();
    let racesLeft = races;
    let mayBeDone = false;
    let pauseMs = shortestPauseMs;
    for (;;) {
      await this.open();
      try {
        return await attempt({ mayBeDone });
      } catch (error) {
        const failure = failureOf(error);
        const isOver = performance.now() - start >= this.settings.patienceMs || this.#isImpatient;
        const isRace = failure === "exists" && racesLeft > 0;
        if (isRace) racesLeft -= 1;
        if ((!isPassing(failure) && !isRace) || isOver) throw error;
        mayBeDone ||= failure === "unknown";
        const isSoon = failure === "again" || isRace;
        await pause(isSoon ? 10 : pauseMs);
        if (!isSoon) pauseMs = Math.min(2 * pauseMs, longestPauseMs);
      }
    }
  }

  /** Resolves when the tables are there; a failed opening is tried again by the next call. */
  async open(): Promise<void> {
    if (this.#identity) return;
    this.#opening ??= this.#open();
    try {
      this.#identity = await this.#opening;
    } finally {
      this.#opening = undefined;
    }
  }

  async #open(): Promise<Identity> {
    const start = performance.now();
    for (;;) {
      try {
        return await this.#openOnce();
      } catch (error) {
        const { patienceMs, place } = this.settings;
        const mostMs = isNoAddress(error) ? Math.min(noAddressMs, patienceMs) : patienceMs;
        const isOver = performance.now() - start >= mostMs || this.#isImpatient;
        if (!mayOpenSoon(error) || isOver) throw cannotOpen(place, error);
        await pause(shortestPauseMs * 2);
      }
    }
  }

  async #openOnce(): Promise<Identity> {
    const client = await connect(this.settings);
    try {
      return await openDatabase(client, this.settings);
    } finally {
      await client.end().catch(() => {});
    }
  }

  /** Opens a connection, and checks that it leads to the same server: a name may now stand for another one. */
  async #connect(): Promise<Client> {
    if (this.#isClosed) throw storeClosed();
    const client = await connect(this.settings);
    try {
      const identity = await checkServer(client, this.settings);
      const known = this.#identity;
      if (known && known.system !== identity.system) {
        throw new RivuletError("not_a_store", `${this.settings.place} is now another server.`, {
          hint: "Restart the process if this is intended.",
        });
      }
      if (known && known.timeline !== identity.timeline) {
        this.#identity = identity;
        this.settings.onProblem(
          new RivuletError("store_failed", `${this.settings.place} was restored or failed over.`, {
            hint: "Commits may be lost if its replica was behind.",
          }),
        );
      }
      return client;
    } catch (error) {
      client.end().catch(() => {});
      throw error;
    }
  }

  /** Closes all connections after their last answers. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#opening?.catch(() => {});
    await Promise.all([...this.writers, ...this.#readers].map((one) => one.close()));
  }

  /** Ends the patience of pending calls, so that a store can be closed while its database is away. */
  stopWaiting(): void {
    this.#isImpatient = true;
  }
}

/** Waits between half the time and all of it, so that many processes do not come back at once. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms * (0.5 + Math.random() / 2)));
}

/** Converts the error of a call. */
export async function converted<Result>(
  running: Promise<Result>,
  conversation = "",
): Promise<Result> {
  try {
    return await running;
  } catch (error) {
    throw storeFailed(error, conversation);
  }
}
