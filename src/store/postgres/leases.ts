import type { Claim, Lease } from "../../contract/index.ts";
import { randomStep } from "./commit-writer.ts";
import type { Database } from "./database.ts";
import { assertStorable } from "./ids.ts";
import type { Connection } from "./pg-connection.ts";

// The next fence is drawn where the row is locked: drawn earlier, it could be lower than that of the owner before. A
// lease from before the clock was set back is shortened instead. The id of the request tells whether it was granted, and
// makes a repeated request return the lease of the one whose answer was lost.
const acquireStatement = {
  name: "acquire",
  text: `INSERT INTO rivulet.conversations AS v (conv, fence, held, owner, until, ttl, due, step)
    SELECT $1, nextval('rivulet.fences'), true, $2, t.now + $3, $3, t.now + $3, $5
    FROM (SELECT rivulet.now_ms_1($6) AS now) t
    ON CONFLICT (conv) DO UPDATE SET
      fence = CASE WHEN v.step = $5 OR v.held AND v.until > rivulet.now_ms_1($6) THEN v.fence
        ELSE nextval('rivulet.fences') END,
      owner = CASE WHEN v.held AND v.until > rivulet.now_ms_1($6) THEN v.owner ELSE $2 END,
      losses = CASE WHEN v.held AND v.until > rivulet.now_ms_1($6) THEN v.losses ELSE v.losses + v.held::int END,
      step = CASE WHEN v.held AND v.until > rivulet.now_ms_1($6) THEN v.step ELSE $5 END,
      ttl = CASE WHEN v.held AND v.until > rivulet.now_ms_1($6) THEN v.ttl ELSE $3 END,
      until = rivulet.now_ms_1($6) + CASE WHEN v.held AND v.until > rivulet.now_ms_1($6) THEN v.ttl ELSE $3 END,
      due = rivulet.now_ms_1($6) + CASE WHEN v.held AND v.until > rivulet.now_ms_1($6) THEN v.ttl * (1 + v.losses)
        ELSE $3 * (1 + v.losses + v.held::int) END,
      held = true
    WHERE v.step = $5 AND v.held
      OR v.losses + v.held::int <= $4::float8 AND (NOT v.held OR v.until <= rivulet.now_ms_1($6))
      OR v.held AND v.until > rivulet.now_ms_1($6) + v.ttl
    RETURNING v.step = $5, v.fence, v.losses`,
};
const renewStatement = {
  name: "renew",
  text: `WITH l AS MATERIALIZED (
      SELECT conv, fence, held, losses FROM rivulet.conversations WHERE conv = ANY ($1) ORDER BY conv FOR UPDATE
    )
    UPDATE rivulet.conversations v SET until = t.now + $3, ttl = $3, due = t.now + $3 * (1 + l.losses)
    FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS g(conv, fence, i)
      JOIN l ON l.conv = g.conv AND l.fence = g.fence AND l.held,
      (SELECT rivulet.now_ms_1($4) AS now) t
    WHERE v.conv = l.conv RETURNING g.i, v.losses`,
};
const releaseStatement = {
  name: "release",
  text: `UPDATE rivulet.conversations v SET held = false, owner = NULL, rev = rev + 1,
      until = least(until, t.now), due = least(until, t.now)
    FROM (SELECT rivulet.now_ms_1($3) AS now) t
    WHERE conv = $1 AND fence = $2 AND held RETURNING rev`,
};
const ownerStatement = { name: "owner", text: "SELECT rivulet.owner_1($1, $2)" };
const expiredStatement = { name: "expired", text: "SELECT rivulet.expired_1($1, $2)" };
const claimStatement = {
  name: "claim",
  text: `SELECT claimed, new_fence, new_losses
    FROM rivulet.claim_2($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
};

const claimedStatement = {
  name: "claimed",
  text: "SELECT conv, fence, losses FROM rivulet.conversations WHERE work AND held AND step = $1",
};

/** Makes `owner` the only writer of a conversation; undefined if it has a live owner. */
export async function acquireLease(
  database: Database,
  connection: Connection,
  request: { sessionId: string; owner: string; ttlMs: number; maxLosses: number },
): Promise<Lease | undefined> {
  const { sessionId, owner, ttlMs, maxLosses } = request;
  assertStorable(sessionId, owner);
  const step = randomStep();
  const most = Math.min(maxLosses, Number.MAX_SAFE_INTEGER);
  const now = database.given ?? Date.now();
  const [row] = await database.repeat(() =>
    connection.run<[isGranted: boolean, fence: number, losses: number]>(
      database.named(acquireStatement),
      [sessionId, owner, ttlMs, most, step, database.given],
    ),
  );
  const [isGranted, fence, losses] = row ?? [];
  if (!isGranted || fence === undefined || losses === undefined) return undefined;
  return { sessionId, owner, fence, expiresAt: now + ttlMs, losses };
}

/** How long renewals wait for others: every conversation renews its own lease, and a statement renews any number. */
const gatherMs = 20;

interface Renewal {
  readonly leases: readonly Lease[];
  readonly resolve: (held: readonly Lease[]) => void;
  readonly reject: (error: unknown) => void;
}

/** Renews leases together with those of other calls. */
export class Renewals {
  readonly #database: Database;
  readonly #waiting = new Map<number, Renewal[]>();

  constructor(database: Database) {
    this.#database = database;
  }

  /** Extends leases; returns those that still hold, in the given order. */
  renew(leases: readonly Lease[], ttlMs: number): Promise<readonly Lease[]> {
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(ttlMs) ?? [];
      if (waiting.push({ leases, resolve, reject }) > 1) return;
      this.#waiting.set(ttlMs, waiting);
      setTimeout(() => void this.#flush(ttlMs), gatherMs);
    });
  }

  async #flush(ttlMs: number): Promise<void> {
    const renewals = this.#waiting.get(ttlMs) ?? [];
    this.#waiting.delete(ttlMs);
    try {
      const all = renewals.flatMap(({ leases }) => leases);
      const held = new Map<Lease, Lease>();
      for (const [old, renewed] of await renewLeases(this.#database, all, ttlMs))
        held.set(old, renewed);
      for (const { leases, resolve } of renewals)
        resolve(leases.flatMap((lease) => held.get(lease) ?? []));
    } catch (error) {
      for (const { reject } of renewals) reject(error);
    }
  }
}

/** Extends leases; returns those that still hold, each with its renewal. */
async function renewLeases(
  database: Database,
  leases: readonly Lease[],
  ttlMs: number,
): Promise<readonly (readonly [old: Lease, renewed: Lease])[]> {
  if (leases.length === 0) return [];
  const now = database.given ?? Date.now();
  const rows = await database.read<[place: number, losses: number]>(renewStatement, [
    leases.map(({ sessionId }) => sessionId),
    leases.map(({ fence }) => fence),
    ttlMs,
    database.given,
  ]);
  const lossesAt = new Map(rows);
  return leases.flatMap((lease, index) => {
    const losses = lossesAt.get(index + 1);
    return losses === undefined ? [] : [[lease, { ...lease, expiresAt: now + ttlMs, losses }]];
  });
}

/** Ends a lease; returns whether it held, and the number of changes of its conversation. */
export async function releaseLease(
  database: Database,
  connection: Connection,
  { sessionId, fence }: Lease,
): Promise<{ readonly isReleased: boolean; readonly revision: number | undefined }> {
  return database.repeat(async ({ mayBeDone }) => {
    const values = [sessionId, fence, database.given];
    const [row] = await connection.run<[number]>(database.named(releaseStatement), values);
    return { isReleased: row !== undefined || mayBeDone, revision: row?.[0] };
  });
}

/** The live lease on a conversation. */
export async function liveOwner(
  database: Database,
  sessionId: string,
): Promise<{ readonly leftMs: number } | undefined> {
  assertStorable(sessionId);
  const [row] = await database.read<[number]>(ownerStatement, [sessionId, database.given]);
  const leftMs = row?.[0] ?? 0;
  return leftMs > 0 ? { leftMs } : undefined;
}

/** Conversations without a live owner in which a scheduler would start something. */
export async function listExpired(database: Database, limit: number): Promise<readonly string[]> {
  const rows = await database.read<[string]>(expiredStatement, [limit, database.given]);
  return rows.map(([conversation]) => conversation);
}

type ClaimedRow = [conversation: string, fence: number, losses: number];

/** Takes conversations that the process can run. */
export async function claimLeases(
  database: Database,
  request: { owner: string; ttlMs: number; limit: number; claim: Claim },
): Promise<readonly Lease[]> {
  const { owner, ttlMs, limit, claim } = request;
  const { agents, places = [], maxLosses = Number.MAX_SAFE_INTEGER, maxPerUser } = claim;
  const runs = runsOf(agents, places);
  assertStorable(owner, ...runs.flat());
  const now = database.given ?? Date.now();
  const step = randomStep();
  const rows = await database.repeat(async ({ mayBeDone }) => {
    // Leases of an attempt whose answer was lost would expire unused, and count as losses.
    const taken = mayBeDone ? await database.readOnce<ClaimedRow>(claimedStatement, [step]) : [];
    if (taken.length > 0) return taken;
    return database.readOnce<ClaimedRow>(claimStatement, [
      owner,
      ttlMs,
      limit,
      Math.min(maxLosses, Number.MAX_SAFE_INTEGER),
      maxPerUser,
      runs.map(([agent]) => agent),
      runs.map(([, version]) => version),
      runs.map(([, , place]) => place),
      step,
      database.given,
    ]);
  });
  return rows.map(([sessionId, fence, losses]) => {
    return { sessionId, owner, fence, expiresAt: now + ttlMs, losses };
  });
}

type Runnable = readonly [agent: string, version: string, place: string];

/** All that a process can run; what a conversation does not name is empty, and fits every process. */
function runsOf(agents: Claim["agents"], places: readonly string[]): readonly Runnable[] {
  const runnable = new Map<string, readonly [agent: string, version: string]>();
  for (const { agentId, version } of [{ agentId: "", version: "" }, ...agents]) {
    for (const one of ["", version ?? ""])
      runnable.set(JSON.stringify([agentId, one]), [agentId, one]);
  }
  return [...runnable.values()].flatMap(([agent, version]) =>
    ["", ...new Set(places)].map((place): Runnable => [agent, version, place]),
  );
}
