import type { CommittedEvents, WatchKey } from "../../contract/index.ts";
import { allInboxes, type Watchers } from "../watchers.ts";
import type { Database } from "./database.ts";

/** A kind of thing that watchers watch. */
export type WatchKind = "log" | "session" | "task" | "inbox";

/** A key with watchers in this process. */
interface WatchedKey {
  readonly kind: WatchKind;
  readonly id: string;
  watchers: number;
  conversation: string | undefined;
  /** The number of changes, or of the last event, up to which its watchers were woken; undefined: not known. */
  seen: number | undefined;
}

const logsStatement = {
  name: "poll_logs",
  text: `SELECT g.i, greatest(l.trimmed, coalesce(
      (SELECT b.last FROM rivulet.batches b WHERE b.log = l.no ORDER BY b.last DESC LIMIT 1), -1))
    FROM unnest($1::text[]) WITH ORDINALITY AS g(log, i) JOIN rivulet.logs l ON l.log = g.log`,
};
const keysStatement = {
  name: "poll_keys",
  text: `SELECT g.i, c.conv, (SELECT rev FROM rivulet.conversations v WHERE v.conv = c.conv)
    FROM unnest($1::text[], $2::boolean[]) WITH ORDINALITY AS g(id, is_task, i)
      CROSS JOIN LATERAL (SELECT CASE WHEN g.is_task
        THEN (SELECT t.conv FROM rivulet.tasks t WHERE t.task_id = g.id)
        ELSE rivulet.conversation_of_1(NULL, g.id) END AS conv) c`,
};

// A row with a lower number may become visible later, so the newest hundred count, not the highest number.
const newestStatement = {
  name: "poll_newest",
  text: `SELECT coalesce(sum(no), 0) FROM (
      (SELECT no FROM rivulet.posts ORDER BY no DESC LIMIT 100)
      UNION ALL (SELECT no FROM rivulet.tasks WHERE status = 'queued' ORDER BY no DESC LIMIT 100)
    ) newest`,
};

/** How many conversations without watchers have a known number of changes. */
const maxRevisions = 10_000;

/** The keys that this process watches, and what their watchers were told: a look at the database shows the rest. */
export class WatchedKeys {
  readonly #watchers: Watchers;
  readonly #ownLast: (log: string) => number | undefined;
  readonly #keys = new Map<string, WatchedKey>();
  /** The number of changes of conversations after the last write of this process. */
  readonly #revisions = new Map<string, number>();

  constructor(watchers: Watchers, ownLast: (log: string) => number | undefined) {
    this.#watchers = watchers;
    this.#ownLast = ownLast;
  }

  get size(): number {
    return this.#keys.size;
  }

  /** The logs with watchers. */
  get logs(): readonly string[] {
    return [...this.#keys.values()].filter(({ kind }) => kind === "log").map(({ id }) => id);
  }

  /** Adds a watcher of a key; returns a function that removes it. */
  add(key: WatchKey): () => void {
    const [kind, id] = entryOf(key);
    const name = `${kind} ${id}`;
    const watched = this.#keys.get(name) ?? {
      ...{ kind, id, watchers: 0, conversation: undefined },
      seen: kind === "log" ? this.#ownLast(id) : this.#revisions.get(id),
    };
    watched.watchers += 1;
    this.#keys.set(name, watched);
    let isStopped = false;
    return () => {
      if (isStopped) return;
      isStopped = true;
      watched.watchers -= 1;
      if (watched.watchers === 0) this.#keys.delete(name);
    };
  }

  /** Notes the events that this process appended. */
  appended(log: string, { after, events }: CommittedEvents): void {
    const watched = this.#keys.get(`log ${log}`);
    if (watched && (watched.seen ?? after) === after) watched.seen = after + events.length;
  }

  /** Notes a change that this process wrote. Changes of others before it stay to be found. */
  changed(conversation: string, revision: number): void {
    let mayBeWatched = false;
    for (const watched of this.#keys.values()) {
      if (watched.kind === "log") continue;
      const isOfIt = (watched.conversation ?? watched.id) === conversation;
      // Before the first look, a key may be of any conversation.
      mayBeWatched ||= isOfIt || watched.conversation === undefined;
      if (isOfIt && (watched.seen ?? 0) === revision - 1) watched.seen = revision;
    }
    const known = this.#revisions.get(conversation) ?? (mayBeWatched ? 0 : revision - 1);
    if (known !== revision - 1) return;
    this.#revisions.delete(conversation);
    this.#revisions.set(conversation, revision);
    if (this.#revisions.size > maxRevisions) {
      for (const oldest of this.#revisions.keys()) {
        this.#revisions.delete(oldest);
        break;
      }
    }
  }

  /** Looks for changes in the database, and wakes the watchers that were not told of them. */
  async poll(database: Database): Promise<void> {
    const all = [...this.#keys.values()];
    const every = this.#keys.get(`inbox ${allInboxes}`);
    const others = all.filter((watched) => watched.kind !== "log" && watched !== every);
    if (every) {
      const [row] = await database.readOnce<[string]>(newestStatement, []);
      this.#found(every, Number(row?.[0] ?? 0));
    }
    await this.pollLogs(database, this.logs);
    if (others.length > 0) {
      const rows = await database.readOnce<[number, string | null, number | null]>(keysStatement, [
        others.map(({ id }) => id),
        others.map(({ kind }) => kind === "task"),
      ]);
      for (const [place, conversation, revision] of rows) {
        const watched = others[place - 1] as WatchedKey;
        // A key that does not exist yet has no changes, and may begin in any conversation.
        if (conversation === null && watched.conversation === undefined) continue;
        if (conversation !== null) watched.conversation = conversation;
        this.#found(watched, revision ?? 0);
      }
    }
  }

  /** Does the same for some logs. */
  async pollLogs(database: Database, logs: readonly string[]): Promise<void> {
    if (logs.length === 0) return;
    const rows = await database.readOnce<[place: number, last: number]>(logsStatement, [logs]);
    for (const [place, last] of rows) {
      const watched = this.#keys.get(`log ${logs[place - 1]}`);
      if (watched) this.#found(watched, last);
    }
  }

  #found(watched: WatchedKey, current: number): void {
    const { kind, id, conversation = id } = watched;
    const seen = watched.seen ?? (kind === "log" ? -1 : (this.#revisions.get(conversation) ?? 0));
    watched.seen = current;
    if (current === seen) return;
    // The number tells a reader that has these events that there is nothing new.
    const isAhead = kind === "log" && current > seen;
    this.#watchers.touch(kind, id, isAhead ? { after: current, events: [] } : undefined);
  }
}

function entryOf(key: WatchKey): [kind: WatchKind, id: string] {
  const [kind = "log"] = (["log", "session", "task", "inbox"] as const).filter((one) => one in key);
  return [kind, (key as Record<WatchKind, string>)[kind]];
}
