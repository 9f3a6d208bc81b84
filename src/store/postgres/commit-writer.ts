import { fenced } from "../store-error.ts";
import type { EncodedCommit } from "./commit-encoding.ts";
import type { Database } from "./database.ts";
import { failureOf, refusalOf, storeFailed } from "./failure.ts";
import type { KnownLog, KnownLogs } from "./known-logs.ts";
import type { CommitCall, CommitWriter } from "./lanes.ts";
import type { Connection, Value } from "./pg-connection.ts";

/** A commit that was written. */
export interface Written {
  readonly commit: EncodedCommit;
  /** The number before its first event; undefined if it has none, or if the answer with the number was lost. */
  readonly after: number | undefined;
  /** Keys that only the database knows. */
  readonly touched: readonly string[];
  /** Whether another process may follow its log. */
  readonly isFollowed: boolean;
  /** The number of changes of its conversation after it; undefined if only events were written. */
  readonly revision: number | undefined;
}

const appendStatement = {
  name: "append",
  text: "SELECT place, is_watched, listening FROM rivulet.append_1($1, $2, $3, $4, $5, $6, $7, $8)",
};
/** Finds rows that an earlier attempt wrote, by their bytes: another process may use the same lease. */
const findAppended = {
  name: "find_appended",
  text: `SELECT count(*) FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::int[], $5::int[])
      AS g(fence, log, last, at, len)
    JOIN rivulet.batches b ON b.log = g.log AND b.last = g.last AND b.fence = g.fence
      AND b.events = substring($6::bytea FROM g.at FOR g.len)`,
};
const commitStatement = {
  name: "commit",
  text: `SELECT log_no, after, touched, is_done, new_rev, listening
    FROM rivulet.commit_1($1::jsonb, $2, $3, $4)`,
};
/** How long others are told of the events of a new log, until those that follow it have asked for it. */
const newLogMs = 3_000;
const none: readonly never[] = [];
/** How often a group is sent again because a number or an id existed. */
const maxRaces = 5;

/** Writes groups of commits, and finds out what was written when an answer was lost. */
export class PostgresCommitWriter implements CommitWriter {
  readonly #database: Database;
  readonly #known: KnownLogs;
  readonly #onWritten: (written: Written) => void;
  /** Called with the number of processes that listen; undefined if the answer was lost. */
  readonly #onListening: (count: number | undefined) => void;

  constructor(
    database: Database,
    known: KnownLogs,
    onWritten: (written: Written) => void,
    onListening: (count: number | undefined) => void,
  ) {
    this.#database = database;
    this.#known = known;
    this.#onWritten = onWritten;
    this.#onListening = onListening;
  }

  isAppend({ commits }: CommitCall): boolean {
    return commits.every(
      (commit) =>
        commit.parts === undefined && commit.batches.length > 0 && this.#known.get(commit),
    );
  }

  async append(connection: Connection, calls: readonly CommitCall[]): Promise<void> {
    const rows = appendRows(calls, this.#known);
    try {
      const written = await this.#database.repeat(async ({ mayBeDone }) => {
        const statement = this.#database.named(appendStatement);
        try {
          return await connection.run<AppendedRow>(statement, rows.values);
        } catch (error) {
          const isWritten =
            mayBeDone &&
            failureOf(error) === "exists" &&
            (await this.#areWritten(connection, rows));
          if (!isWritten) throw error;
          return rows.lasts.map((_, index): AppendedRow => [index + 1, true, undefined]);
        }
      });
      this.#settleAppends(calls, rows, written);
    } catch (error) {
      if (failureOf(error) !== "exists") return rejectAll(calls, error);
      // Another process wrote with the same lease: the function reads the end of the log.
      for (const { conversation } of calls) this.#known.forget(conversation);
      await this.commit(connection, calls);
    }
  }

  async #areWritten(
    connection: Connection,
    { values, lasts: wantedRows }: AppendRows,
  ): Promise<boolean> {
    const [, fences, logs, lasts, , ats, lengths, body] = values;
    const wanted = [fences, logs, lasts, ats, lengths, body];
    const [row] = await connection.run<[number]>(this.#database.named(findAppended), wanted);
    return row?.[0] === wantedRows.length;
  }

  #settleAppends(calls: readonly CommitCall[], rows: AppendRows, written: readonly AppendedRow[]) {
    const isWatched = new Map<number, boolean>();
    for (const [place, one] of written) isWatched.set(place, one);
    this.#onListening(written[0]?.[2]);
    const now = performance.now();
    let place = 0;
    for (const call of calls) {
      let count = 0;
      for (const commit of call.commits) {
        const first = place + 1;
        place += commit.batches.length;
        // All rows of a call have the same lease, so all or none were written.
        if (!isWatched.has(first)) continue;
        const known = rows.known[first - 1] as KnownLog;
        known.last = rows.lasts[place - 1] as number;
        count += 1;
        const isFollowed = isWatched.get(first) === true || now - known.since < newLogMs;
        const after = known.last - commit.events.length;
        this.#onWritten({ commit, after, touched: none, isFollowed, revision: undefined });
      }
      if (count > 0) call.resolve(count);
      else {
        this.#known.forget(call.conversation);
        call.reject(fenced(call.conversation));
      }
    }
  }

  async commit(connection: Connection, calls: readonly CommitCall[]): Promise<void> {
    // The same for all attempts: a conversation whose last step has this id was written by an earlier one.
    const step = randomStep();
    let group = calls.map((call) => ({ call, commits: call.commits }));
    for (let races = 0; group.length > 0; ) {
      const sent = group;
      try {
        const statement = this.#database.named(commitStatement);
        const rows = await this.#database.repeat(() => {
          const values = commitValues(sent, step, this.#known);
          const { given, timeline } = this.#database;
          return connection.run<CommittedRow>(statement, [...values, given, timeline]);
        });
        this.#settleCommits(sent, rows);
        return;
      } catch (error) {
        const failure = failureOf(error);
        if (failure === "refused") group = withoutRefused(sent, error);
        else if (failure === "exists" && races < maxRaces) {
          races += 1;
          for (const { call } of sent) this.#known.forget(call.conversation);
        } else {
          return rejectAll(
            sent.map(({ call }) => call),
            error,
          );
        }
      }
    }
  }

  #settleCommits(group: readonly Sent[], rows: readonly CommittedRow[]): void {
    this.#onListening(rows[0]?.[5]);
    let place = 0;
    for (const { call, commits } of group) {
      for (const commit of commits) {
        const row = rows[place] as CommittedRow;
        place += 1;
        const [number, after, touched, isDone, revision] = row;
        if (isDone) this.#known.forget(call.conversation);
        else if (after !== null && number !== null) {
          this.#known.set(commit, { number, last: after + commit.events.length });
        }
        const known = after === null ? undefined : after;
        this.#onWritten({ commit, after: known, touched, isFollowed: true, revision });
      }
      call.resolve(commits.length);
    }
  }
}

type AppendedRow = [place: number, isWatched: boolean, listening: number | undefined];
type CommittedRow = [
  number: number | null,
  after: number | null,
  touched: readonly string[],
  isDone: boolean,
  revision: number,
  listening: number,
];

interface Sent {
  readonly call: CommitCall;
  readonly commits: readonly EncodedCommit[];
}

interface AppendRows {
  readonly values: readonly Value[];
  /** The log of each row, and the number of its last event. */
  readonly known: readonly KnownLog[];
  readonly lasts: readonly number[];
}

/** One row for each batch, with the numbers that its owner expects. */
function appendRows(calls: readonly CommitCall[], known: KnownLogs): AppendRows {
  const conversations: string[] = [];
  const numbers: Record<"fences" | "logs" | "lasts" | "counts" | "ats" | "lengths", number[]> = {
    ...{ fences: [], logs: [], lasts: [], counts: [], ats: [], lengths: [] },
  };
  const knownOf: KnownLog[] = [];
  const ends = new Map<KnownLog, number>();
  const bodies: Buffer[] = [];
  let base = 1;
  for (const call of calls) {
    for (const commit of call.commits) {
      const log = known.get(commit) as KnownLog;
      let last = ends.get(log) ?? log.last;
      for (const { count, place } of commit.batches) {
        last += count;
        knownOf.push(log);
        conversations.push(call.conversation);
        numbers.fences.push(commit.lease.fence);
        numbers.logs.push(log.number);
        numbers.lasts.push(last);
        numbers.counts.push(count);
        numbers.ats.push(base + place[0]);
        numbers.lengths.push(place[1]);
      }
      ends.set(log, last);
      bodies.push(commit.body);
      base += commit.body.length;
    }
  }
  const { fences, logs, lasts, counts, ats, lengths } = numbers;
  const values = [conversations, fences, logs, lasts, counts, ats, lengths, joined(bodies)];
  return { values, known: knownOf, lasts };
}

/** The commits as JSON, and their texts and events in one body. */
function commitValues(group: readonly Sent[], step: number, known: KnownLogs): readonly Value[] {
  const ends = new Map<string, number>();
  const commits: unknown[] = [];
  const bodies: Buffer[] = [];
  let base = 1;
  for (const { commits: sent } of group) {
    for (const commit of sent) {
      const { lease, log, batches, body, parts, events } = commit;
      const found = batches.length > 0 ? known.get(commit) : undefined;
      const after = found && (ends.get(log) ?? found.last);
      if (after !== undefined) ends.set(log, after + events.length);
      commits.push({
        ...{ conv: lease.sessionId, fence: lease.fence, step, base, log, ...parts },
        ...(batches.length > 0 && {
          batches: batches.map(({ count, place }) => [count, ...place]),
        }),
        ...(found && { no: found.number, after }),
      });
      bodies.push(body);
      base += body.length;
    }
  }
  return [JSON.stringify(commits), joined(bodies)];
}

/** Takes the refused commits out, with those that follow them in the same call; the others were undone with them. */
function withoutRefused(group: readonly Sent[], error: unknown): Sent[] {
  const { late, at = 0 } = refusalOf(error);
  const refused = new Set(late ?? [at]);
  let place = 0;
  return group.flatMap(({ call, commits }) => {
    const first = commits.findIndex((_, index) => refused.has(place + index));
    place += commits.length;
    if (first < 0) return [{ call, commits }];
    if (first > 0) return [{ call, commits: commits.slice(0, first) }];
    call.reject(storeFailed(error, call.conversation));
    return [];
  });
}

function rejectAll(calls: readonly CommitCall[], error: unknown): void {
  for (const call of calls) call.reject(storeFailed(error, call.conversation));
}

function joined(bodies: readonly Buffer[]): Buffer {
  return bodies.length === 1 ? (bodies[0] as Buffer) : Buffer.concat(bodies);
}

/** An id that no other step has; never 0, which no step has. */
export function randomStep(): number {
  const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2));
  return (high % 2 ** 21) * 2 ** 32 + low + 1;
}
