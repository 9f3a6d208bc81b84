import fc from "fast-check";
import { type Random, seededRandom } from "../../../support/random.ts";
import type { CallPlan, ChildCall, Kind, Plan, TaskPlan, TurnPlan, Wait } from "./plan.ts";
import { outlineOf } from "./plan.ts";

/** The limits of a tree. */
export interface TreeSize {
  readonly turns: number;
  /** Calls per turn, except crowds. */
  readonly calls: number;
  readonly depth: number;
  /** Tasks below the roots. */
  readonly tasks: number;
}

/** Optional features of a tree; shrinking removes those that a failure does not need. */
export const features = [
  ...["background", "promoted", "fail", "short", "mirror", "ask", "stuck", "cancel", "root cancel"],
  ...["send", "output", "wait", "list", "crowd", "again", "tool error"],
] as const;
/** A feature of a tree. */
export type Feature = (typeof features)[number];

/** The maximum number of children of a session, below every limit. */
const fanOut = 8;
const maxDepth = 3;

/** An arbitrary tree. Shrinking reduces its size and features and keeps its seed. */
export function treeArbitrary(largest: TreeSize, without: readonly Feature[] = []) {
  const allowed = features.filter((feature) => !without.includes(feature));
  const whole = fc.record({
    seed: fc.noShrink(fc.integer({ min: 0, max: 0x7fffffff })),
    turns: fc.integer({ min: 1, max: largest.turns }),
    calls: fc.integer({ min: 1, max: largest.calls }),
    depth: fc.integer({ min: 1, max: largest.depth }),
    tasks: fc.integer({ min: 1, max: largest.tasks }),
    some: fc.oneof(
      { withCrossShrink: true },
      { arbitrary: fc.subarray(allowed), weight: 1 },
      { arbitrary: fc.constant(allowed), weight: 3 },
    ),
  });
  // Without bias to small values: shrinking finds small trees, and rare features need room.
  return fc.noBias(whole).map(({ seed, some, ...size }) => {
    const plan = generateTree(seed, size, some);
    return { ...plan, [fc.toStringMethod]: () => outlineOf(plan) };
  });
}

/** Creates the tree of a seed. */
export function generateTree(seed: number, size: TreeSize, some: readonly Feature[]): Plan {
  const random = seededRandom(seed);
  const world: World = {
    random,
    size,
    has: (feature, chance) => random.chance(chance) && some.includes(feature),
    tasksLeft: size.tasks,
    parallel: random.chance(0.8),
  };
  const root: Place = { depth: 0, session: { children: 0 }, known: [] };
  const roots = [taskPlan(world, "r", "lead", root)];
  if (world.has("again", 0.4)) roots.push(taskPlan(world, "s", "lead", root));
  return {
    seed,
    roots,
    parallel: world.parallel,
    answers: random.pick(["at once", "at rest"]),
    together: random.chance(0.5),
    settles: random.chance(0.5),
    ...(world.has("root cancel", 0.25) && { cancelAt: random.int(1, 200) }),
  };
}

interface World {
  readonly random: Random;
  readonly size: TreeSize;
  /** True with this probability, if the tree may have the feature. */
  has(feature: Feature, chance: number): boolean;
  tasksLeft: number;
  readonly parallel: boolean;
}

/** The context in which a task is planned. */
interface Place {
  readonly depth: number;
  /** The children that all tasks of the session have started. */
  readonly session: { children: number };
  readonly known: Known[];
}

/** A child that a task can message. */
interface Known {
  readonly call: ChildCall;
  readonly place: Place;
  /** Works until it is cancelled. */
  readonly isStuck: boolean;
  isCancelled: boolean;
}

function taskPlan(world: World, key: string, kind: TaskPlan["kind"], place: Place): TaskPlan {
  const { random, size } = world;
  const isRoot = kind === "lead";
  const count =
    kind === "short" ? random.int(0, 1) : random.int(isRoot ? 1 : 0, isRoot ? size.turns : 2);
  const turns: TurnPlan[] = [];
  const pause = () => (random.chance(0.6) ? 0 : random.pick([1, 3, 10, 40]));
  for (let turn = 0; turn < count; turn++) {
    const calls: CallPlan[] = [];
    // Only children of earlier turns can be messaged, because calls of one turn run in parallel.
    const known = [...place.known];
    const crowd = world.has("crowd", 0.2) ? random.int(3, fanOut) : 0;
    const crowdKind = kindOf(world, kind);
    const add = (plan: (key: string) => CallPlan) =>
      calls.push(plan(`${key}.${turn}.${calls.length}`));
    for (let i = 0; i < crowd && canSpawn(world, place, kind); i++) {
      add((own) => spawnPlan(world, own, place, kind, crowdKind));
    }
    for (let i = random.int(1, size.calls); i > 0; i--) {
      // With sequential calls a message would wait for the one before it, which waits for this call.
      const free = world.parallel ? known : known.filter((child) => !isSentTo(child, calls));
      add((own) => callPlan(world, own, place, kind, free));
    }
    turns.push({ pause: pause(), calls: calls.map((call) => withoutStuck(call, calls)) });
  }
  // Children that work until they are cancelled must be cancelled.
  const left = place.known.filter((child) => child.isStuck && !child.isCancelled);
  if (left.length > 0) {
    const turn = turns.length;
    const calls = left.map((child, index) => cancelPlan(`${key}.${turn}.${index}`, child));
    turns.push({ pause: pause(), calls });
  }
  return { key, kind, turns, end: world.has("fail", isRoot ? 0.05 : 0.15) ? "fail" : "say" };
}

function callPlan(
  world: World,
  key: string,
  place: Place,
  kind: TaskPlan["kind"],
  known: readonly Known[],
): CallPlan {
  const { random } = world;
  if (canSpawn(world, place, kind) && random.chance(place.depth === 0 ? 0.6 : 0.4)) {
    return spawnPlan(world, key, place, kind, kindOf(world, kind));
  }
  // A stuck child gets no message before it is cancelled.
  const free = known.filter((child) => !child.isStuck || child.isCancelled);
  const others = known.filter(({ call }) => call.wait !== "sync");
  if (free.length > 0 && place.session.children < fanOut && world.has("send", 0.2)) {
    return sendPlan(world, key, place, random.pick(free));
  }
  const awaited = free.filter(({ call }) => call.wait !== "sync");
  if (awaited.length > 0 && world.has("output", 0.25)) {
    return { type: "output", key, of: random.pick(awaited).call.key, block: random.chance(0.7) };
  }
  if (awaited.length > 0 && world.has("wait", 0.25)) {
    const isAll = place.known.every(({ isStuck, isCancelled }) => !isStuck || isCancelled);
    const some = awaited.filter(() => random.chance(0.6)).map(({ call }) => call.key);
    return { type: "wait", key, of: isAll && random.chance(0.5) ? "all" : some };
  }
  if (others.length > 0 && world.has("cancel", 0.25)) return cancelPlan(key, random.pick(others));
  // Repeated equal calls would be stopped as a loop.
  if (key.endsWith(".0") && world.has("list", 0.2)) return { type: "list", key };
  if (world.has("ask", 0.25)) return { type: "ask", key, n: random.int(0, 5) };
  const n = world.has("tool error", 0.2) ? 4 : random.pick([0, 0, 1, 3, 25]);
  return { type: "work", key, n };
}

/** Waiting for all tasks would include a stuck one that the same turn spawns. */
function withoutStuck(call: CallPlan, beside: readonly CallPlan[]): CallPlan {
  const isStuck = (other: CallPlan) =>
    other.type === "spawn" && other.task.turns[0]?.calls[0]?.type === "stuck";
  return call.type === "wait" && beside.some(isStuck) ? { ...call, of: [] } : call;
}

function cancelPlan(key: string, child: Known): CallPlan {
  child.isCancelled = true;
  return { type: "cancel", key, of: child.call.key };
}

function canSpawn(world: World, { depth, session }: Place, kind: TaskPlan["kind"]): boolean {
  if (kind === "general-purpose" || depth >= Math.min(world.size.depth, maxDepth)) return false;
  return world.tasksLeft > 0 && session.children < fanOut;
}

function kindOf(world: World, parentKind: TaskPlan["kind"]): Kind {
  // A mirror of its parent would have the same maxIters.
  if (parentKind !== "short" && world.has("mirror", 0.1)) return "general-purpose";
  if (world.has("short", 0.15)) return "short";
  return world.random.pick(["alpha", "beta"]);
}

function spawnPlan(
  world: World,
  key: string,
  parent: Place,
  parentKind: TaskPlan["kind"],
  kind: Kind,
): CallPlan {
  world.tasksLeft -= 1;
  parent.session.children += 1;
  const place: Place = { depth: parent.depth + 1, session: { children: 0 }, known: [] };
  // After maxIters it could not cancel its stuck children.
  if (parentKind !== "short" && kind !== "short" && world.has("stuck", 0.1)) {
    const turns = [{ pause: 0, calls: [{ type: "stuck", key: `${key}.0.0` }] }] as const;
    const task: TaskPlan = { key, kind, turns, end: "say" };
    const call = { type: "spawn", key, wait: "background", task } as const;
    parent.known.push({ call, place, isStuck: true, isCancelled: false });
    return call;
  }
  const wait = waitOf(world);
  const call = {
    type: "spawn",
    key,
    wait,
    task: held(taskPlan(world, key, kind, place), wait),
  } as const;
  parent.known.push({ call, place, isStuck: false, isCancelled: false });
  return call;
}

function sendPlan(world: World, key: string, parent: Place, to: Known): CallPlan {
  const wait = waitOf(world);
  world.tasksLeft -= 1;
  parent.session.children += 1;
  const { kind } = to.call.task;
  const place: Place = { ...to.place, known: [] };
  const task = held(taskPlan(world, key, kind, place), wait);
  const call = { type: "send", key, wait, task, to: spawnOf(to.call) } as const;
  parent.known.push({ call, place, isStuck: false, isCancelled: false });
  return call;
}

function isSentTo({ call }: Known, calls: readonly CallPlan[]): boolean {
  return calls.some((other) => other.type === "send" && other.to === spawnOf(call));
}

function spawnOf(call: ChildCall): string {
  return call.type === "spawn" ? call.key : call.to;
}

function waitOf(world: World): Wait {
  if (world.has("background", 0.35)) return "background";
  return world.has("promoted", 0.25) ? "promoted" : "sync";
}

/** A task whose call should time out holds until then. */
function held(task: TaskPlan, wait: Wait): TaskPlan {
  if (wait !== "promoted") return task;
  const [first, ...rest] = task.turns;
  const index = first?.calls.length ?? 0;
  const hold = { type: "hold", key: `${task.key}.0.${index}` } as const;
  const turn = { pause: first?.pause ?? 0, calls: [...(first?.calls ?? []), hold] };
  return { ...task, turns: [turn, ...rest] };
}
