import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { connect, type RemoteRun } from "../../../src/client.ts";
import type { Store } from "../../../src/contract/store.ts";
import { postgresStore } from "../../../src/postgres.ts";
import { isTerminal } from "../../../src/protocol/task.ts";
import type { TaskEvent } from "../../../src/protocol.ts";
import { lawProblems } from "../../agent/support/laws.ts";
import { type PostgresServer, startPostgres } from "../../support/postgres-server.ts";
import { type Random, seededRandom } from "../../support/random.ts";
import { startProxy, type TcpProxy } from "../../support/tcp-proxy.ts";
import { Figures } from "./figures.ts";
import { kinds } from "./kinds.ts";
import { type ChaosNode, startNode } from "./nodes.ts";

/** How large a chaos run is. */
export interface ChaosSize {
  readonly runs: number;
  readonly kills: number;
  readonly stops: number;
  readonly killEveryMs: readonly [min: number, max: number];
  readonly restartEveryMs: readonly [min: number, max: number];
  readonly leaseMs: number;
  /** How long the runs may take to end after the last fault. */
  readonly limitMs: number;
}

/** The findings of a chaos run. */
export interface ChaosReport {
  readonly problems: readonly string[];
  readonly figures: readonly string[];
}

const workerCount = 4;
const webCount = 2;
/** Five losses in a row are poison; a stop and a kill may meet. */
const mostLosses = 3;
/** How long the start of a worker may take, restarts of the database included. */
const maxStartMs = 60_000;

/** Runs the whole: processes, clients and faults. */
export async function runChaos(size: ChaosSize, seed: number): Promise<ChaosReport> {
  const folder = mkdtempSync(join(tmpdir(), "rivulet-chaos-"));
  const server = await startPostgres({ recovery_init_sync_method: "syncfs" });
  const proxy = await startProxy(server);
  const chaos = new Chaos(size, seededRandom(seed), server, proxy, join(folder, "executions"));
  try {
    return await chaos.run();
  } finally {
    await chaos.close();
    await proxy.close();
    await server.remove();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A run that a client follows. */
interface Followed {
  readonly taskId: string;
  readonly sessionId: string;
  last: number;
  hasEnded: boolean;
  isCancelled: boolean;
  /** When something was sent that an event will confirm. */
  readonly sent: Map<string, number>;
}

/** Which event confirms what a client sent. */
const confirmed: Readonly<Record<string, string>> = {
  "task.approval.resolved": "answer",
  "task.hint.added": "steer",
  "task.cancelling": "cancel",
  "task.cancelled": "cancel",
};

class Chaos {
  readonly #size: ChaosSize;
  readonly #random: Random;
  readonly #server: PostgresServer;
  readonly #proxy: TcpProxy;
  readonly #executions: string;
  readonly #admin: pg.Pool;
  readonly #figures = new Figures();
  readonly #problems: string[] = [];
  readonly #workers: ChaosNode[] = [];
  readonly #webs: ChaosNode[] = [];
  readonly #starting = new Set<Promise<void>>();
  readonly #runs: Followed[] = [];
  readonly #over = new AbortController();

  constructor(
    size: ChaosSize,
    random: Random,
    server: PostgresServer,
    proxy: TcpProxy,
    executions: string,
  ) {
    this.#size = size;
    this.#random = random;
    this.#server = server;
    this.#proxy = proxy;
    this.#executions = executions;
    writeFileSync(executions, "");
    this.#admin = new pg.Pool({ connectionString: server.url, max: 2 });
    this.#admin.on("error", () => {});
  }

  async run(): Promise<ChaosReport> {
    const store = postgresStore({ url: this.#server.url, onProblem: () => {} });
    try {
      await store.last("none"); // creates the tables
      await Promise.all([
        ...Array.from({ length: webCount }, () => this.#start("web")),
        ...Array.from({ length: workerCount }, () => this.#start("worker")),
      ]);
      this.#proxy.decide(() => (this.#random.chance(0.0005) ? "lose" : "pass"));
      const [least, most] = this.#size.killEveryMs;
      const everyMs = (this.#size.kills * (least + most)) / 2 / this.#size.runs;
      const clients = Array.from({ length: this.#size.runs }, (_, number) =>
        this.#follow(number, number * everyMs),
      );
      void this.#watch();
      await Promise.all([this.#kill(), this.#stop(), this.#restart()]);
      this.#proxy.decide(() => "pass");
      const late = pause(this.#size.limitMs, "late", { ref: false });
      const ended = Promise.all(clients).then(() => "ended");
      if ((await Promise.race([ended, late])) === "late") await this.#blameUnended(store);
      this.#over.abort();
      await Promise.race([ended, pause(5_000)]);
      await this.#check(store);
      return { problems: this.#problems, figures: this.#figures.lines(this.#size) };
    } finally {
      await store.close();
    }
  }

  async close(): Promise<void> {
    this.#over.abort();
    await Promise.allSettled(this.#starting);
    for (const { child } of [...this.#workers, ...this.#webs]) child.kill("SIGKILL");
    await this.#admin.end();
  }

  #start(role: "worker" | "web"): Promise<void> {
    const url = new URL(this.#server.url);
    url.port = String(this.#proxy.port);
    const { leaseMs } = this.#size;
    const starting = startNode({ url: url.href, role, leaseMs, executions: this.#executions }).then(
      (node) => void (role === "web" ? this.#webs : this.#workers).push(node),
      // The database may be away for as long as a process waits for it.
      (error: unknown) => {
        if (this.#webs.length < webCount) throw error;
        this.#figures.count("starts without a database");
        return this.#over.signal.aborted ? undefined : this.#start(role);
      },
    );
    this.#starting.add(starting);
    const forget = () => void this.#starting.delete(starting);
    starting.then(forget, forget);
    return starting;
  }

  #between([least, most]: readonly [number, number]): Promise<void> {
    return pause(this.#random.int(least, most));
  }

  /** Kills workers; each is replaced at once. */
  async #kill(): Promise<void> {
    for (let kills = 0; kills < this.#size.kills; kills++) {
      await this.#between(this.#size.killEveryMs);
      const victim = await this.#victim();
      if (victim === undefined) return;
      this.#workers.splice(this.#workers.indexOf(victim), 1);
      await this.#noteOwned(victim);
      victim.child.kill("SIGKILL");
      this.#figures.count("kills");
      this.#start("worker").catch((error: unknown) => void this.#problems.push(String(error)));
    }
  }

  /**
   * A worker to kill or to stop, while another one runs. It is none with a conversation that was lost `mostLosses` times
   * without a step between: on a slow machine the faults, not the run, would make it poison.
   */
  async #victim(): Promise<ChaosNode | undefined> {
    for (let left = maxStartMs; left > 0; left -= 50) {
      const frail = await this.#ask(
        "SELECT DISTINCT owner FROM rivulet.conversations WHERE held AND losses >= $1",
        [mostLosses],
      );
      const owners = new Set(frail.map(({ owner }) => owner));
      const able = this.#workers.filter(({ id }) => !owners.has(id));
      if (this.#workers.length > 1 && able.length > 0) return this.#random.pick(able);
      await pause(50);
    }
    this.#problems.push(`${this.#workers.length} workers run, and none can be killed`);
    return undefined;
  }

  /** Stops workers for longer than their lease. */
  async #stop(): Promise<void> {
    const [least, most] = this.#size.killEveryMs;
    const everyMs = (this.#size.kills * (least + most)) / 2 / (this.#size.stops + 1);
    for (let stops = 0; stops < this.#size.stops; stops++) {
      await pause(everyMs);
      const { child } = (await this.#victim()) ?? {};
      if (child === undefined) return;
      child.kill("SIGSTOP");
      this.#figures.count("stops");
      await this.#between([1.2 * this.#size.leaseMs, 2.5 * this.#size.leaseMs]);
      child.kill("SIGCONT");
    }
  }

  /** Restarts the database, and ends some of its connections. */
  async #restart(): Promise<void> {
    const [least, most] = this.#size.killEveryMs;
    const until = performance.now() + (this.#size.kills * (least + most)) / 2;
    const isOver = new AbortController();
    const terminate = async () => {
      while (!isOver.signal.aborted) {
        await this.#between([2_000, 5_000]);
        await this.#ask(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE pid <> pg_backend_pid() AND datname = current_database() AND random() < 0.3`,
        );
      }
    };
    const terminating = terminate();
    while (performance.now() < until) {
      await this.#between(this.#size.restartEveryMs);
      if (performance.now() >= until) break;
      await this.#server.stop("immediate");
      await this.#server.start();
      this.#figures.count("restarts");
    }
    isOver.abort();
    await terminating;
  }

  /** The rows of a query; none while the database is away. */
  async #ask(sql: string, values: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
    const { rows } = await this.#admin.query(sql, [...values]).catch(() => ({ rows: [] }));
    return rows;
  }

  async #noteOwned({ id }: ChaosNode): Promise<void> {
    const owned = await this.#ask(
      "SELECT conv, fence FROM rivulet.conversations WHERE owner = $1 AND held AND work",
      [id],
    );
    for (const { conv, fence } of owned) this.#figures.lost(String(conv), String(fence));
  }

  /** Looks who owns what, for the figures. */
  async #watch(): Promise<void> {
    while (!this.#over.signal.aborted) {
      const rows = await this.#ask("SELECT conv, fence, held, losses FROM rivulet.conversations");
      for (const { conv, fence, held, losses } of rows)
        this.#figures.saw(String(conv), String(fence), held === true, Number(losses));
      await pause(50);
    }
  }

  #anyRun(taskId: string): RemoteRun {
    const { url, token } = this.#random.pick(this.#webs);
    return connect(url, { token }).task(taskId);
  }

  /** A client starts a run and follows it, now on this web node and then on that. */
  async #follow(number: number, afterMs: number): Promise<void> {
    const sessionId = `chaos-${number}`;
    const run: Followed = {
      ...{ taskId: `task_chaos_${number}`, sessionId, last: -1 },
      ...{ hasEnded: false, isCancelled: false, sent: new Map() },
    };
    await pause(afterMs);
    this.#runs.push(run);
    const kind = this.#random.pick(kinds);
    const start = async () => {
      const { url, token } = this.#random.pick(this.#webs);
      const { taskId } = run;
      await connect(url, { token }).agent("lead").run(`Do: ${kind}.`, { sessionId, taskId }).task;
    };
    await this.#untilDone(start);
    for (const deed of ["steer", "cancel"] as const)
      if (this.#random.chance(deed === "steer" ? 0.25 : 0.1)) void this.#send(deed, run);
    while (!(run.hasEnded || this.#over.signal.aborted)) {
      try {
        await this.#read(run);
      } catch {
        await pause(100);
      }
    }
  }

  /** Reads some events, or all that follow. */
  async #read(run: Followed): Promise<void> {
    let left = this.#random.int(5, 60);
    for await (const event of this.#anyRun(run.taskId).events({ after: run.last, until: "log" })) {
      if (event.type === "task.snapshot" || event.type === "error") {
        this.#problems.push(`${run.taskId}: ${event.type} follows ${run.last}`);
        continue;
      }
      if (event.sequence_number !== run.last + 1)
        this.#problems.push(`${run.taskId}: ${event.sequence_number} follows ${run.last}`);
      run.last = event.sequence_number;
      this.#see(run, event);
      if (--left === 0) return;
    }
    run.hasEnded = true;
  }

  #see(run: Followed, event: TaskEvent): void {
    const deed = confirmed[event.type];
    const at = deed === undefined ? undefined : run.sent.get(deed);
    if (deed !== undefined && at !== undefined) {
      this.#figures.took(deed, performance.now() - at);
      run.sent.delete(deed);
    }
    if (event.type === "task.approval.requested")
      void this.#answer(run, event.task_id, event.approval_id);
  }

  async #send(deed: "steer" | "cancel", run: Followed): Promise<void> {
    await pause(this.#random.int(200, 3_000));
    if (run.hasEnded) return;
    run.isCancelled ||= deed === "cancel";
    await this.#untilDone(async () => {
      const remote = this.#anyRun(run.taskId);
      run.sent.set(deed, performance.now());
      await (deed === "steer" ? remote.steer("Hurry.") : remote.cancel("enough"));
    }, 3);
  }

  async #answer(run: Followed, taskId: string, approvalId: string): Promise<void> {
    const { taskId: rootTaskId } = run;
    const answer = { type: "answer", approvalId, taskId, rootTaskId, decision: "approve" } as const;
    await this.#untilDone(async () => {
      if (run.hasEnded) return;
      run.sent.set("answer", performance.now());
      await this.#anyRun(rootTaskId).answer(answer);
    });
  }

  async #untilDone(attempt: () => Promise<void>, most = Number.POSITIVE_INFINITY): Promise<void> {
    for (let attempts = 0; attempts < most && !this.#over.signal.aborted; attempts++) {
      try {
        return await attempt();
      } catch (error) {
        this.#figures.refused(error);
        await pause(200);
      }
    }
  }

  /** Says of each run without an end what it waits for. */
  async #blameUnended(store: Store): Promise<void> {
    for (const { taskId, sessionId, last, hasEnded } of this.#runs) {
      if (hasEnded) continue;
      const tasks = await store.tasks({ conversation: sessionId });
      const posts = await store.posts({ conversation: sessionId });
      const [lease] = await this.#ask(
        `SELECT held, owner, losses, work, until - extract(epoch FROM clock_timestamp()) * 1000 AS left_ms
          FROM rivulet.conversations WHERE conv = $1`,
        [sessionId],
      );
      const states = tasks.map(({ agentName, status, mode }) => `${agentName} ${status} ${mode}`);
      const waits = { states, posts: posts.map(({ id }) => id), lease, read: last };
      this.#problems.push(`${taskId} does not end: ${JSON.stringify(waits)}`);
    }
  }

  async #check(store: Store): Promise<void> {
    for (const { taskId, sessionId, last, isCancelled } of this.#runs) {
      this.#problems.push(...(await lawProblems(store, taskId)));
      const end = await store.last(taskId);
      if (end !== last) this.#problems.push(`${taskId} ends at ${end}, and was read to ${last}`);
      for (const { agentName, status, error } of await store.tasks({ conversation: sessionId })) {
        this.#figures.count(status);
        const isExpected = status === "completed" || (status === "cancelled" && isCancelled);
        if (isTerminal(status) && !isExpected)
          this.#problems.push(`${agentName} of ${taskId} is ${status}: ${JSON.stringify(error)}`);
      }
    }
    for (const line of readFileSync(this.#executions, "utf8").trim().split("\n")) {
      this.#figures.count("executions");
      const { callId, isRecorded } = JSON.parse(line) as { callId: string; isRecorded: boolean };
      if (isRecorded) this.#problems.push(`call ${callId} ran again although it had a result`);
    }
  }
}
