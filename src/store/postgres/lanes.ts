import { RivuletError } from "../../base/error.ts";
import type { EncodedCommit } from "./commit-encoding.ts";
import { converted, type Database } from "./database.ts";
import type { Connection } from "./pg-connection.ts";

/** Commits of one conversation that wait to be written. */
export interface CommitCall {
  readonly conversation: string;
  readonly commits: readonly EncodedCommit[];
  readonly bytes: number;
  /** Called with the number of commits that were written, at least 1. */
  readonly resolve: (written: number) => void;
  readonly reject: (error: unknown) => void;
}

/** Another write of one conversation. */
interface OtherCall {
  readonly conversation: string;
  readonly run: (connection: Connection) => Promise<void>;
}

/** The ways to write commits. */
export interface CommitWriter {
  /** Whether the numbers of all events are known and there is nothing else to write. */
  isAppend(call: CommitCall): boolean;
  /** Settles every call. */
  append(connection: Connection, calls: readonly CommitCall[]): Promise<void>;
  commit(connection: Connection, calls: readonly CommitCall[]): Promise<void>;
}

/** Limits of one transaction: it holds the locks of its conversations until it is on disk. */
const maxCommits = 256;
const maxBytes = 4 * 1024 * 1024;
/** Limit of all commits that wait, for example while the database is away. */
const maxWaiting = 64 * 1024 * 1024;

/** Writes calls in order for each conversation, and calls of many conversations together. */
export class Lanes {
  readonly #lanes: readonly Lane[];
  #bytes = 0;

  constructor(database: Database, writer: CommitWriter) {
    this.#lanes = database.writers.map((connection) => new Lane(connection, writer));
  }

  /** Writes the first commit, and those after it as far as none is refused; returns how many were written. */
  commit(conversation: string, commits: readonly EncodedCommit[]): Promise<number> {
    const bytes = sizeOf(commits);
    if (this.#bytes + bytes > maxWaiting && this.#bytes > 0) return Promise.reject(queueFull());
    this.#bytes += bytes;
    return new Promise<number>((done, failed) => {
      const resolve = (written: number) => {
        this.#bytes -= bytes;
        done(written);
      };
      const reject = (error: unknown) => {
        this.#bytes -= bytes;
        failed(error);
      };
      this.#laneOf(conversation).commit({ conversation, commits, bytes, resolve, reject });
    });
  }

  /** Runs another write of a conversation, after the earlier ones of the same conversation. */
  write<Result>(
    conversation: string,
    work: (connection: Connection) => Promise<Result>,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      const run = (connection: Connection) =>
        converted(work(connection), conversation).then(resolve, reject);
      this.#laneOf(conversation).other({ conversation, run });
    });
  }

  /** Resolves when nothing waits. */
  async drain(): Promise<void> {
    await Promise.all(this.#lanes.map((lane) => lane.drain()));
  }

  #laneOf(conversation: string): Lane {
    let hash = 0;
    for (let index = 0; index < conversation.length; index++)
      hash = (Math.imul(hash, 31) + conversation.charCodeAt(index)) | 0;
    return this.#lanes[Math.abs(hash) % this.#lanes.length] as Lane;
  }
}

/** One connection and the writes that wait for it. While a transaction is under way, the next group collects. */
class Lane {
  readonly #connection: Connection;
  readonly #writer: CommitWriter;
  #waiting: (CommitCall | OtherCall)[] = [];
  #isActive = false;
  #drained = Promise.withResolvers<void>();

  constructor(connection: Connection, writer: CommitWriter) {
    this.#connection = connection;
    this.#writer = writer;
  }

  commit(call: CommitCall): void {
    this.#add(call);
  }

  other(call: OtherCall): void {
    this.#add(call);
  }

  drain(): Promise<void> {
    return this.#isActive ? this.#drained.promise : Promise.resolve();
  }

  #add(call: CommitCall | OtherCall): void {
    this.#waiting.push(call);
    if (this.#isActive) return;
    this.#isActive = true;
    this.#drained = Promise.withResolvers();
    // At the end of this turn of the event loop, so that all writes of a turn share a transaction.
    setImmediate(() => void this.#run());
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      const { appends, commits, others } = this.#nextGroup();
      if (appends.length > 0) await this.#writer.append(this.#connection, appends);
      if (commits.length > 0) await this.#writer.commit(this.#connection, commits);
      for (const { run } of others) await run(this.#connection);
    }
    this.#isActive = false;
    this.#drained.resolve();
  }

  /** Takes what fits in one round; a conversation has calls of one kind in it, so that they stay in order. */
  #nextGroup() {
    const appends: CommitCall[] = [];
    const commits: CommitCall[] = [];
    const others: OtherCall[] = [];
    const left: (CommitCall | OtherCall)[] = [];
    const kinds = new Map<string, unknown>();
    let count = 0;
    let bytes = 0;
    for (const call of this.#waiting) {
      const { conversation } = call;
      const isFull = count >= maxCommits || bytes >= maxBytes;
      const kind = "run" in call ? others : this.#writer.isAppend(call) ? appends : commits;
      const earlier = kinds.get(conversation);
      if (isFull || (earlier !== undefined && (earlier !== kind || kind === others))) {
        kinds.set(conversation, left);
        left.push(call);
        continue;
      }
      kinds.set(conversation, kind);
      count += "run" in call ? 1 : call.commits.length;
      if ("run" in call) others.push(call);
      else {
        (kind as CommitCall[]).push(call);
        bytes += call.bytes;
      }
    }
    this.#waiting = left;
    return { appends, commits, others };
  }
}

function sizeOf(commits: readonly EncodedCommit[]): number {
  return commits.reduce((sum, { body }) => sum + body.length, 0);
}

function queueFull(): RivuletError<"store_failed"> {
  return new RivuletError("store_failed", "Too many commits wait for the database.", {
    retryable: true,
    hint: "The database is away or too slow. Try again later.",
  });
}
