import { processOf } from "../../../src/agent/drive/process.ts";
import type { Store, TaskRecord } from "../../../src/contract/store.ts";
import type { ReActAgent, TaskRunner } from "../../../src/index.ts";
import { memoryStore, taskRunner } from "../../../src/index.ts";
import { isTerminal } from "../../../src/protocol/task.ts";
import { type Random, seededRandom } from "../../support/random.ts";
import { createCast, type Kind, kinds, leaseMs } from "./cast.ts";
import { faultyStore, type Network } from "./faulty-store.ts";
import { type Actor, Laws } from "./laws.ts";
import { type Machine, replaceClocks, VirtualTime } from "./virtual-time.ts";

/** How long faults happen, and how long everything may take to end after them. */
const faultyMs = 15_000;
const calmMs = 90_000;
/** A machine without faults for so long has no request that waits for an answer. */
const soundMs = 8_000;
const hourMs = 3_600_000;

/** What happened in a simulation. */
export interface Simulated {
  /** The broken laws; empty on success. */
  readonly problems: readonly string[];
  /** Every operation that reached the database, and every fault; ids are replaced by numbers. */
  readonly trace: readonly string[];
  readonly seen: Readonly<Record<string, number>>;
}

/** A process of the simulation. */
interface Node {
  readonly actor: Actor;
  readonly machine: Machine;
  readonly store: Store;
  readonly lead: ReActAgent;
  readonly runner: TaskRunner | undefined;
  isDraining: boolean;
}

/** A run that a client wants to see end. */
interface Wish {
  readonly sessionId: string;
  readonly taskId: string;
  readonly kind: Kind;
}

/** Simulates processes, a network and a database with faults; the same seed gives the same trace. */
export async function simulate(seed: number): Promise<Simulated> {
  const restore = replaceClocks();
  try {
    return await new World(seed).run();
  } finally {
    restore();
  }
}

class World {
  readonly #random: Random;
  readonly #time: VirtualTime;
  readonly #database: Machine = { name: "database", skewMs: 0, state: "runs" };
  readonly #clients: Machine = { name: "clients", skewMs: 0, state: "runs" };
  readonly #network: Network;
  readonly #shared: Store;
  readonly #laws: Laws;
  readonly #trace: string[] = [];
  readonly #nodes: Node[] = [];
  readonly #soundSince = new Map<Machine, number>();
  readonly #changes = new Map<string, number>();
  readonly #wishes: Wish[] = [];
  #started = 0;

  constructor(seed: number) {
    const random = seededRandom(seed);
    this.#random = random;
    this.#time = new VirtualTime(() => random.next());
    const time = this.#time;
    this.#shared = memoryStore({ clock: { now: () => time.now } });
    this.#laws = new Laws(this.#shared, () => time.now);
    this.#network = {
      ...{ time, random, database: this.#database, downUntil: 0, cutUntil: new Map() },
      lostRequests: random.pick([0, 0.01, 0.05]),
      lostAnswers: random.pick([0, 0.01, 0.05]),
      lostWakes: random.pick([0, 0.1, 0.5]),
      onFault: (machine) => this.#trouble(machine),
    };
  }

  async run(): Promise<Simulated> {
    for (let workers = this.#random.int(2, 3); workers > 0; workers--) this.#start("worker");
    this.#start("web");
    const wishes = this.#random.int(2, 4);
    for (let number = 0; number < wishes; number++) this.#wish(number);
    this.#time.after(this.#random.int(300, 1_500), this.#clients, () => this.#fault());
    while (this.#time.now < faultyMs && this.#hasNoProblem) await this.#time.step();
    this.#heal();
    const end = this.#time.now + calmMs;
    while (this.#time.now < end && this.#hasNoProblem && !(await this.#hasEnded()))
      for (let steps = 0; steps < 50; steps++) await this.#time.step();
    if (this.#hasNoProblem) await this.#blameUnended();
    await this.#bury();
    return { problems: this.#laws.problems, trace: numbered(this.#trace), seen: this.#laws.seen };
  }

  get #hasNoProblem(): boolean {
    return this.#laws.problems.length === 0;
  }

  #note(text: string): void {
    this.#trace.push(`${this.#time.now} ${text}`);
  }

  #trouble(machine: Machine): void {
    this.#soundSince.set(machine, this.#time.now);
  }

  /** Starts a process: a worker, or one that runs nothing. */
  #start(kind: "worker" | "web"): void {
    const { skewMs } = { skewMs: this.#random.int(-hourMs, hourMs) };
    const machine: Machine = { name: `${kind}${this.#started++}`, skewMs, state: "runs" };
    const actor: Actor = {
      name: machine.name,
      soundSince: () =>
        machine.state === "runs"
          ? (this.#soundSince.get(machine) ?? Number.NEGATIVE_INFINITY)
          : this.#time.now,
    };
    const store = faultyStore(this.#watched(actor), machine, this.#network);
    this.#time.on(machine, () => {
      const random = seededRandom(this.#random.int(0, 2 ** 31));
      const lead = createCast(store, random, (taskId, name, callId) => {
        this.#laws.works(taskId, name, actor, callId);
        if (name !== "change") return;
        const times = (this.#changes.get(callId) ?? 0) + 1;
        this.#changes.set(callId, times);
        if (times > 1) this.#laws.blame(`${name} ${callId}, which may not be repeated, runs again`);
      });
      const process = processOf(store);
      process.onModelCall = (task) => this.#laws.works(task.state.record.taskId, "a model", actor);
      if (kind === "web") process.runNothing();
      const runner = kind === "worker" ? taskRunner({ agents: [lead] }) : undefined;
      runner?.start();
      this.#nodes.push({ actor, machine, store, lead, runner, isDraining: false });
    });
    this.#note(`${machine.name} starts`);
  }

  /** The shared store with the laws around it, as one process uses it. */
  #watched(actor: Actor): Store {
    const shared = this.#shared;
    const laws = this.#laws;
    const note = (text: string) => this.#note(`${actor.name} ${text}`);
    return {
      ...shared,
      acquire: async (sessionId, owner, ttlMs, maxLosses) => {
        const lease = await shared.acquire(sessionId, owner, ttlMs, maxLosses);
        note(`acquire ${sessionId} ${lease?.fence}`);
        if (lease) laws.acquired(lease, actor, ttlMs);
        return lease;
      },
      claim: async (owner, ttlMs, limit, claim) => {
        const leases = (await shared.claim?.(owner, ttlMs, limit, claim)) ?? [];
        for (const lease of leases) {
          note(`claim ${lease.sessionId} ${lease.fence}`);
          laws.acquired(lease, actor, ttlMs);
        }
        return leases;
      },
      release: async (lease) => {
        note(`release ${lease.sessionId} ${lease.fence}`);
        laws.released(lease);
        return shared.release(lease);
      },
      commit: async (first, following = []) => {
        laws.asked(first, actor);
        const written = await shared.commit(first, following);
        for (const commit of [first, ...following].slice(0, written)) {
          const types = commit.events?.map(({ type }) => type).join(" ") ?? "";
          note(`commit ${commit.log} ${commit.lease.fence} ${types}`);
          await laws.committed(commit, actor);
        }
        return written;
      },
      enqueue: async (record, options) => {
        const stored = await shared.enqueue(record, options);
        note(`enqueue ${record.taskId}`);
        laws.enqueued(stored);
        return stored;
      },
      post: async (rows) => {
        const stored = await shared.post(rows);
        for (const { id } of rows) note(`post ${id}`);
        laws.posted(rows);
        return stored;
      },
    };
  }

  /** Runs a call of a client on a process; rejects when no answer comes in time. */
  #call<T>(node: Node, run: (lead: ReActAgent) => Promise<T>): Promise<T> {
    const time = this.#time;
    return new Promise<T>((resolve, reject) => {
      const back = (deliver: () => void) =>
        time.after(this.#random.int(1, 10), this.#clients, deliver);
      time.after(this.#random.int(1, 10), node.machine, () => {
        run(node.lead).then(
          (value) => back(() => resolve(value)),
          (error: unknown) => back(() => reject(error as Error)),
        );
      });
      time.after(4_000, this.#clients, () => reject(new Error("no answer")));
    });
  }

  #anyNode(): Node {
    return this.#random.pick(this.#nodes.filter(({ machine }) => machine.state !== "killed"));
  }

  /** A client starts a run, and answers, steers and cancels it through any process. */
  #wish(number: number): void {
    const sessionId = `session-${number}`;
    const kind = this.#random.pick(kinds);
    const wish = { sessionId, taskId: `task_${number}`, kind };
    this.#wishes.push(wish);
    this.#time.after(this.#random.int(0, 3_000), this.#clients, () => void this.#follow(wish));
    for (const deed of ["steer", "cancel"] as const) {
      if (!this.#random.chance(0.3)) continue;
      const at = this.#random.int(500, 8_000);
      this.#time.after(at, this.#clients, () => void this.#do(deed, wish));
    }
  }

  async #do(deed: "steer" | "cancel", { taskId }: Wish): Promise<void> {
    this.#note(`client ${deed} ${taskId}`);
    const call = this.#call(this.#anyNode(), async (lead) => {
      const run = lead.attach({ taskId });
      await (deed === "steer" ? run.steer("Hurry.") : run.cancel("enough"));
    });
    await call.catch(() => {});
  }

  async #follow({ sessionId, taskId, kind }: Wish): Promise<void> {
    for (;;) {
      const record = await this.#shared.task(taskId);
      if (record && isTerminal(record.status)) return;
      const node = this.#anyNode();
      const call =
        record === undefined
          ? this.#call(node, (lead) => lead.run(`Do: ${kind}.`, { sessionId, taskId }).task)
          : record.status === "suspended"
            ? this.#call(node, (lead) => answerAll(lead, sessionId))
            : undefined;
      await call?.catch((error: unknown) => this.#note(`client is told ${String(error)}`));
      await this.#time.sleep(this.#random.int(100, 500), this.#clients);
    }
  }

  /** Something goes wrong, and later something else. */
  #fault(): void {
    if (this.#time.now > faultyMs) return;
    const random = this.#random;
    const running = this.#nodes.filter((node) => node.machine.state === "runs" && !node.isDraining);
    const owners = running.filter(({ store }) => processOf(store).conversations.length > 0);
    const node = random.pick([owners, running, this.#nodes].find((some) => some.length > 0) ?? []);
    const { machine } = node;
    const fault = random.pick(["kill", "kill", "stop", "restart", "drain", "cut"] as const);
    this.#note(`${fault} ${machine.name}`);
    this.#laws.count(fault);
    if (fault === "kill" && machine.state === "runs") this.#replace(node, random.int(100, 2_000));
    else if (fault === "stop" && machine.state === "runs") {
      machine.state = "stopped";
      this.#time.after(random.int(500, 3 * leaseMs), this.#clients, () => this.#resume(machine));
    } else if (fault === "restart")
      this.#network.downUntil = this.#time.now + random.int(100, 3_000);
    else if (fault === "cut")
      this.#network.cutUntil.set(machine, this.#time.now + random.int(100, 5_000));
    else if (fault === "drain") this.#drain(node);
    this.#time.after(random.int(300, 4_000), this.#clients, () => this.#fault());
  }

  #resume(machine: Machine): void {
    if (machine.state !== "stopped") return;
    this.#note(`continue ${machine.name}`);
    this.#trouble(machine);
    this.#time.resume(machine);
  }

  /** Kills a process; another one starts after a time. */
  #replace({ machine }: Node, ms: number): void {
    machine.state = "killed";
    this.#trouble(machine);
    const kind = machine.name.startsWith("web") ? "web" : "worker";
    this.#time.after(ms, this.#clients, () => this.#start(kind));
  }

  /** A worker hands its work over and ends, as it does at a rolling update. */
  #drain(node: Node): void {
    const { machine, runner } = node;
    if (runner === undefined || node.isDraining || machine.state !== "runs") return;
    node.isDraining = true;
    this.#time.on(machine, () => {
      const over = () => {
        this.#time.after(0, this.#clients, () => {
          this.#note(`${machine.name} ends`);
          if (machine.state === "runs") this.#laws.ended(node.actor, soundMs);
          if (machine.state !== "killed") this.#replace(node, 1);
        });
      };
      void runner.shutDown({ graceMs: 3_000 }).then(over, over);
    });
  }

  #heal(): void {
    this.#note("heal");
    this.#network.lostAnswers = 0;
    this.#network.lostRequests = 0;
    this.#network.downUntil = 0;
    this.#network.cutUntil.clear();
    for (const { machine } of this.#nodes) this.#resume(machine);
  }

  async #unended(): Promise<readonly TaskRecord[]> {
    const left: TaskRecord[] = [];
    for (const { sessionId, taskId } of this.#wishes) {
      const records = await this.#shared.tasks({ conversation: sessionId });
      left.push(...records.filter(({ status }) => !isTerminal(status)));
      if (!records.some((record) => record.taskId === taskId))
        left.push({ taskId, status: "queued", sessionId } as TaskRecord);
    }
    return left;
  }

  async #hasEnded(): Promise<boolean> {
    return (await this.#unended()).length === 0;
  }

  async #blameUnended(): Promise<void> {
    for (const { taskId, agentName, status, mode } of await this.#unended())
      this.#laws.blame(`${agentName} ${taskId} is ${status} for ever (${mode})`);
    for (const { sessionId } of this.#wishes)
      for (const { id, kind } of await this.#shared.posts({ conversation: sessionId }))
        if (kind !== "hint") this.#laws.blame(`the ${kind} ${id} is never taken`);
  }

  /** Ends what runs, so that nothing of the simulation stays in memory. */
  async #bury(): Promise<void> {
    for (const { machine } of this.#nodes) machine.state = "killed";
    await this.#shared.close();
  }
}

async function answerAll(lead: ReActAgent, sessionId: string): Promise<void> {
  const approvals = await lead.approvals({ sessionId });
  if (approvals.length > 0)
    await lead.call(
      approvals.map((approval) => approval.approve()),
      { sessionId },
    );
}

/** Replaces random ids by numbers in the order of their appearance. */
function numbered(lines: readonly string[]): readonly string[] {
  const numbers = new Map<string, string>();
  return lines.map((line) =>
    line.replaceAll(
      /[a-z]+_[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g,
      (id) => {
        const number = numbers.get(id) ?? `#${numbers.size}`;
        numbers.set(id, number);
        return number;
      },
    ),
  );
}
