import { processOf } from "../../../../src/agent/drive/process.ts";
import type { TaskRecord } from "../../../../src/contract/store.ts";
import {
  type Answer,
  type Approval,
  HarnessAgent,
  jsonSchema,
  memoryStore,
  RivuletError,
  type Store,
  tool,
} from "../../../../src/index.ts";
import { materialize } from "../../../../src/protocol/materialize.ts";
import { emptyTree, reduce } from "../../../../src/protocol/reduce.ts";
import { isTerminal } from "../../../../src/protocol/task.ts";
import { ManualClock } from "../../../../src/testing.ts";
import {
  type SimulatedProcess,
  simulateProcess,
} from "../../../harness/tasks/support/simulated-process.ts";
import { keepEvents } from "../../../support/keep-events.ts";
import { type Random, seededRandom } from "../../../support/random.ts";
import { expectLawful, readLog } from "../../support/laws.ts";
import { turns } from "../../support/tools.ts";
import type { Program } from "./program.ts";
import { promptModel } from "./script-prompt.ts";

const sessionId = "s";
const leaseMs = 10_000;
const maxRounds = 3_000;

/** How the processes that run a program are chosen and disturbed. */
export interface Disturbance {
  readonly seed: number;
  readonly processes: number;
  /** How often the owner of the session is killed or paused. */
  readonly stops: number;
}

/** A process and its lead. */
interface Node {
  readonly process: SimulatedProcess;
  readonly lead: HarnessAgent;
}

/** The state that a program has left. */
export interface Played {
  /** The document of each root task, normalised. */
  readonly documents: readonly unknown[];
  /** How many tasks another process has recovered. */
  readonly recovered: number;
}

/** The errors of a call that another process has overtaken or whose own process has died. */
const expected: ReadonlySet<string> = new Set([
  ...["unknown_approval", "nothing_to_resume", "store_failed"],
]);

/** Runs a program and returns the documents that it leaves. */
export async function runProgram(program: Program, disturbance: Disturbance): Promise<Played> {
  const stage = new Stage(disturbance);
  for (const { text, asks } of program) {
    await stage.send(text);
    // A task behind one that suspends would be withdrawn, so only other tasks are overtaken.
    if (asks || stage.random.chance(0.5)) await stage.settle();
  }
  await stage.settle();
  return stage.finish();
}

/** Simulated processes that share a session. */
class Stage {
  readonly random: Random;
  readonly #clock = new ManualClock(1_000_000_000);
  readonly #store: Store = memoryStore({ clock: this.#clock, ...keepEvents });
  readonly #nodes: Node[] = [];
  readonly #problems: string[] = [];
  readonly #processes: number;
  #stops: number;

  constructor({ seed, processes, stops }: Disturbance) {
    this.random = seededRandom(seed);
    this.#processes = processes;
    this.#stops = stops;
  }

  /** A process that is alive; a dead one is replaced first. */
  #pick(): Node {
    const isAlive = ({ process }: Node) => process.state === "alive";
    while (this.#nodes.filter(isAlive).length < this.#processes) this.#start();
    return this.random.pick(this.#nodes.filter(isAlive));
  }

  #start(): void {
    const process = simulateProcess(this.#store, {
      name: `p${this.#nodes.length}`,
      now: this.#clock.now(),
      random: seededRandom(this.random.int(0, 0x7fffffff)),
    });
    this.#nodes.push({ process, lead: programAgent(process) });
  }

  /** Sends a message through some process, until it is stored. */
  async send(text: string): Promise<void> {
    const { length } = await this.#store.tasks({ sessionId });
    for (;;) {
      const { lead, process } = this.#pick();
      this.#watch(lead.run(text, { sessionId }).result());
      for (let round = 0; ; round++) {
        if (round > maxRounds) throw new Error("A message is never stored.");
        await this.#pump();
        if ((await this.#store.tasks({ sessionId })).length > length) return;
        if (process.state !== "dead") continue;
        await turns(10); // what the process has asked of the store before its death may still arrive
        if ((await this.#store.tasks({ sessionId })).length > length) return;
        break;
      }
    }
  }

  /** Answers what is asked, from any process, until every task has ended. */
  async settle(): Promise<void> {
    for (let round = 0; round < maxRounds; round++) {
      await this.#pump();
      const open = (await this.#records()).filter(({ status }) => !isTerminal(status));
      if (open.length === 0) return;
      if (open.some(({ status }) => status === "suspended")) await this.#answer();
      if (round % 100 === 99) await this.#expire();
    }
    const open = (await this.#records()).filter(({ status }) => !isTerminal(status));
    const rows = (await this.#store.posts({ conversation: sessionId })).map(({ id }) => id);
    throw new Error(`The program does not end: ${JSON.stringify({ open, rows })}`);
  }

  #records(): Promise<readonly TaskRecord[]> {
    return this.#store.tasks({ conversation: sessionId });
  }

  async #answer(): Promise<void> {
    const { lead } = this.#pick();
    const answering = async () => {
      const approvals = await lead.approvals({ sessionId });
      const some = approvals.filter(() => this.random.chance(0.7)).map(answerTo);
      if (some.length > 0) await lead.call(some, { sessionId });
    };
    this.#watch(answering());
    await turns(5);
  }

  /** Lets the processes work for a moment; perhaps stops the one that owns the session, for good or for a while. */
  async #pump(): Promise<void> {
    await turns(this.random.int(1, 12));
    if (this.random.chance(0.1)) for (const { process } of this.#nodes) process.goOn();
    if (this.#stops === 0 || !this.random.chance(0.08)) return;
    const owner = this.#nodes.find(
      ({ process }) => process.state === "alive" && processOf(process.store).owned(sessionId),
    );
    if (owner === undefined) return;
    this.#stops -= 1;
    if (this.random.chance(0.7)) owner.process.kill();
    else owner.process.pause();
    await this.#expire();
  }

  /** Expires the leases; a process that follows the session takes it over. */
  async #expire(): Promise<void> {
    this.#watch(this.#pick().lead.attach({ sessionId }).result(), "not_found");
    await turns(10);
    await this.#clock.advance(leaseMs + 1);
    for (const { process } of this.#nodes)
      if (process.state === "alive") await process.clock.advance(1_100);
  }

  #watch(work: Promise<unknown>, ...codes: readonly string[]): void {
    work.catch((error: unknown) => {
      const code = error instanceof RivuletError ? error.code : "";
      if (expected.has(code) || codes.includes(code)) return;
      this.#problems.push(String((error as Error)?.stack ?? error));
    });
  }

  async finish(): Promise<Played> {
    if (this.#problems.length > 0) throw new Error(this.#problems.join("\n"));
    const documents: unknown[] = [];
    let recovered = 0;
    for (const { taskId } of await this.#store.tasks({ sessionId })) {
      await expectLawful(this.#store, taskId);
      const log = await readLog(this.#store, taskId);
      const tree = reduce(emptyTree(), [...log]);
      documents.push(normalised(materialize(tree, taskId, { include: ["content"] })));
      recovered += log.filter((event) => "reason" in event && event.reason === "recovered").length;
    }
    for (const { process } of this.#nodes) {
      process.kill();
      process.bury();
    }
    await turns(5);
    return { documents, recovered };
  }
}

function programAgent({ store, clock }: SimulatedProcess): HarnessAgent {
  const input = jsonSchema<{ n: number }>({
    type: "object",
    properties: { n: { type: "integer" } },
  });
  const tools = ["look", "ask"].map((name) =>
    tool({
      ...{ name, input, description: `Does ${name}.`, idempotent: true },
      needsApproval: name === "ask",
      async execute({ n }, { emit }) {
        emit(`${name} `);
        await turns(n % 4);
        return `${name} ${n}`;
      },
    }),
  );
  const common = {
    ...{ store, clock, leaseMs, tools, model: promptModel(clock) },
    ...({ filesystem: false, eviction: false } as const),
  };
  const worker = new HarnessAgent({ ...common, name: "worker", subagents: false });
  const workers = { name: "worker", description: "Works.", agent: worker };
  // One call after the other: `task_wait` must come after the calls that start what it waits for.
  const inOrder = { ...common, parallel: false };
  const manager = new HarnessAgent({ ...inOrder, name: "manager", subagents: [workers] });
  const managers = { name: "manager", description: "Delegates.", agent: manager };
  return new HarnessAgent({ ...inOrder, name: "lead", subagents: [workers, managers] });
}

/** The answer to an approval depends on its call alone. */
function answerTo(approval: Approval): Answer {
  const { n } = approval.call.input as { n: number };
  if (n % 3 === 0) return approval.deny(`not ${n}`);
  return n % 3 === 1 ? approval.approve() : approval.edit({ n: n + 1_000 });
}

/** A document with ids numbered in order of appearance, without times, and with results in the order of their calls. */
function normalised(document: unknown): unknown {
  const numbers = new Map<string, number>();
  const text = JSON.stringify(inCallOrder(document), (key, value: unknown) =>
    key.endsWith("_at") ? 0 : value,
  );
  const named = text.replace(
    /\b([a-z]+_)[0-9A-Z]{26}\b|\b[0-9a-f]{8}-[0-9a-f-]{27}\b/g,
    (id, kind: string | undefined) => {
      const number = numbers.get(id) ?? numbers.size;
      numbers.set(id, number);
      return `${kind ?? "uuid"}${number}`;
    },
  );
  return JSON.parse(named);
}

/** A call that ran again has its result after those of the calls that followed it. */
function inCallOrder(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (!Array.isArray(value)) {
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [key, inCallOrder(inner)]),
    );
  }
  const items = value.map(inCallOrder) as readonly { type?: string; call_id?: string }[];
  const calls = items.flatMap(({ type, call_id = "" }) => (type === "tool_call" ? [call_id] : []));
  const results = items.filter(({ type }) => type === "tool_result");
  const sorted = results.toSorted(
    (one, two) => calls.indexOf(one.call_id ?? "") - calls.indexOf(two.call_id ?? ""),
  );
  return items.map((item) => (item.type === "tool_result" ? sorted.shift() : item));
}
