import fc from "fast-check";
import type { LogEvent } from "../../src/protocol/event.ts";
import type { Item, TaskMode, TerminalStatus, Usage } from "../../src/protocol/task.ts";
import { newRoot } from "./generate/actor.ts";
import { play } from "./generate/schedule.ts";
import { work } from "./generate/task-script.ts";
import type { Actor, World } from "./generate/world.ts";
import { charge, startStrand } from "./generate/world.ts";
import type { Random } from "./random.ts";
import { seededRandom } from "./random.ts";

/** What a tree may grow to. */
export interface TreeOptions {
  /** The most events of its log; at least 8. */
  readonly maxEvents?: number;
  /** The depth of the deepest task; the root's is 0. */
  readonly maxDepth?: number;
  /** The most calls of one batch. */
  readonly maxFanOut?: number;
}

/** A legal log of a whole tree, and what its sender knows to be true of it. */
export interface GeneratedTree {
  readonly events: readonly LogEvent[];
  readonly truth: Truth;
}
/** What a fold of the log must come to, written down by the sender as it went. */
export interface Truth {
  readonly rootId: string;
  readonly tasks: Readonly<Record<string, TaskTruth>>;
}
/** One task as its sender knows it. */
export interface TaskTruth {
  readonly agentId: string;
  readonly parentTaskId?: string;
  /** How it ended up: a promoted child is in the background. */
  readonly mode?: TaskMode;
  readonly status: TerminalStatus;
  /** The children in the order of their items. */
  readonly children: readonly string[];
  /** Every index of its output; a discarded item leaves its tombstone. */
  readonly output: readonly Item[];
  /** Every text block of every message that was kept. */
  readonly texts: readonly string[];
  /** What was decided about each approval. */
  readonly decisions: Readonly<Record<string, string>>;
  readonly usage?: Usage;
}

/** Plays a random team of agents and gives its log: any length up to `maxEvents`, everything in it legal. */
export function generateTree(random: Random, options: TreeOptions = {}): GeneratedTree {
  const { maxEvents = 100, maxDepth = 4, maxFanOut = 8 } = options;
  const world: World = {
    random,
    maxDepth,
    maxFanOut,
    temper: { delegates: random.pick([0.3, 0.5, 0.9]), talks: random.pick([0.2, 1, 1]) },
    budget: maxEvents,
    events: [],
    actors: [],
    strands: [],
    now: 1_763_236_800_000,
    minted: 0,
  };
  const root = newRoot(world);
  charge(world, 3);
  startStrand(world, root, work(world, root));
  play(world, { cancels: random.chance(0.3) });
  return { events: world.events, truth: truthOf(root, world.actors) };
}

function truthOf(root: Actor, actors: readonly Actor[]): Truth {
  return {
    rootId: root.id,
    tasks: Object.fromEntries(actors.map((actor) => [actor.id, taskTruth(actor)])),
  };
}

function taskTruth(actor: Actor): TaskTruth {
  return {
    agentId: actor.agentId,
    ...(actor.parent !== undefined && { parentTaskId: actor.parent.id }),
    ...(actor.mode !== undefined && { mode: actor.mode }),
    status: actor.status as TerminalStatus,
    children: actor.children
      .toSorted((one, other) => (one.place?.outputIndex ?? 0) - (other.place?.outputIndex ?? 0))
      .map(({ id }) => id),
    output: actor.output,
    texts: actor.output.flatMap((item) => (item.type === "message" ? textsOf(item) : [])),
    decisions: Object.fromEntries(
      [...actor.approvals].map(([id, { decision }]) => [id, String(decision)]),
    ),
    ...(actor.usage !== undefined && { usage: actor.usage }),
  };
}

function textsOf(message: Extract<Item, { type: "message" }>): string[] {
  return message.block_list.flatMap((block) => (block.type === "text" ? [block.text] : []));
}

/** A generated tree that says how it was made. */
export type SeededTree = GeneratedTree & { readonly seed: number; readonly maxEvents: number };

/** Random trees for properties: a failure prints the seed and the size, and shrinks to the smallest size that fails. */
export function treeArbitrary(options: TreeOptions = {}): fc.Arbitrary<SeededTree> {
  const { maxEvents: most = 100 } = options;
  return fc
    .record({
      seed: fc.noShrink(fc.nat(0x7fff_ffff)),
      maxEvents: fc.integer({ min: 8, max: most }),
    })
    .map(({ seed, maxEvents }) => ({
      ...generateTree(seededRandom(seed), { ...options, maxEvents }),
      seed,
      maxEvents,
      [fc.toStringMethod]: () => `generateTree(seededRandom(${seed}), { maxEvents: ${maxEvents} })`,
    }));
}
