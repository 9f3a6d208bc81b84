import { readFileSync } from "node:fs";
import {
  emptyTree,
  type LogEvent,
  reduce,
  type StreamFrame,
  snapshotOf,
} from "../../src/protocol.ts";
import { damageSome } from "../support/damage.ts";
import { legalInterleaving, reconnects, withDuplicates } from "../support/deliveries.ts";
import { generateTree } from "../support/generate-tree.ts";
import { type Lens, lens } from "../support/lens.ts";
import { seededRandom } from "../support/random.ts";
import {
  added,
  begin,
  delta,
  done,
  end,
  message,
  numbered,
  textAdded,
  textBlock,
  textDone,
  withChild,
} from "./events.ts";
import { type Frame, type Kit, options, order } from "./kit.ts";

const corpus = (name: string) =>
  readFileSync(new URL(`../corpus/${name}`, import.meta.url), "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Frame);

/** A root that says one sentence in three deltas. */
const hello = numbered(
  ...begin,
  added(0, message()),
  textAdded(),
  delta("Good "),
  delta("morn"),
  delta("ing."),
  textDone("Good morning."),
  done(0, { ...message(), block_list: [textBlock("Good morning.")] }),
  end,
);

/** The seeds of small teams that together use children, approvals, images, discards and citations. */
const seeds = [157, 1205, 1644];

const positions = (events: readonly Frame[], delivered: readonly Frame[]) =>
  order(...delivered.map((event) => events.indexOf(event)));
const asLog = (events: readonly Frame[]) => events as unknown as readonly LogEvent[];
const asFrames = (events: readonly LogEvent[]) => events as unknown as readonly Frame[];

/** The snapshots of every task of a log after its first events, the last one final. */
function snapshots(events: readonly Frame[], count: number): Frame[] {
  const tree = reduce(emptyTree(), asLog(events).slice(0, count) as readonly StreamFrame[]);
  const through = { sequenceNumber: count - 1, createdAt: 1_763_236_900_000 };
  const list = Object.keys(tree.tasks).flatMap((id) => snapshotOf(tree, id, through) ?? []);
  return list.map((frame, at) => ({ ...frame, ...(at === list.length - 1 && { final: true }) }));
}

/** Adds the ways in which a stream can reach a reader. */
export function addDeliveries(kit: Kit): void {
  const logs = [
    kit.log("hello", hello),
    kit.log("child", numbered(...withChild)),
    ...seeds.map((seed) =>
      kit.log(`team-${seed}`, generateTree(seededRandom(seed), { maxEvents: 40 }).events),
    ),
    kit.log("weekend", corpus("canonical.jsonl")),
  ];
  for (const { log } of logs) {
    kit.add("in-order", log, { about: "Every event once, in the order of the log.", log });
  }
  for (const [at, { log, events }] of logs.slice(0, -1).entries()) addOrders(kit, log, events, at);
  for (const [at, { log, events }] of logs.slice(0, -1).entries()) {
    addCuts(kit, log, events);
    addGaps(kit, log, events, at);
    addLenses(kit, log, events, at);
    addSnapshots(kit, log, events);
  }
  const frames = {
    about: "A connection whose cursor is too old: snapshots, then the rest of the log.",
  };
  kit.add("snapshots", "weekend-frames", { ...frames, frames: corpus("canonical.frames.jsonl") });
  addDamage(kit);
}

function addOrders(kit: Kit, log: string, events: readonly Frame[], seed: number): void {
  const random = seededRandom(seed);
  const deliver = (title: string, about: string, delivered: readonly Frame[]) =>
    kit.deliver("order", `${log}-${title}`, { about, log, order: positions(events, delivered) });
  deliver(
    "twice",
    "Every event twice in a row.",
    events.flatMap((event) => [event, event]),
  );
  deliver("again", "The whole log, and then the whole log again.", [...events, ...events]);
  deliver("reversed", "The whole log from its end to its start.", events.toReversed());
  deliver(
    "duplicates",
    "Some events again, at once or later.",
    asFrames(withDuplicates(random, asLog(events))),
  );
  deliver(
    "interleaved",
    "Each task in its order, but children may come before their parents.",
    asFrames(legalInterleaving(random, asLog(events))),
  );
  deliver(
    "reconnects",
    "Several connections, each of which repeats some events.",
    asFrames(reconnects(random, asLog(events)).flat()),
  );
}

function addCuts(kit: Kit, log: string, events: readonly Frame[]): void {
  for (const share of [0.25, 0.5, 0.8]) {
    const count = Math.ceil(events.length * share);
    const about = `The connection breaks after ${count} events: the task has not ended.`;
    kit.add("cuts", `${log}-${count}`, {
      about,
      log,
      order: [[0, count]],
      options: options("partial"),
    });
  }
}

function addGaps(kit: Kit, log: string, events: readonly Frame[], seed: number): void {
  const random = seededRandom(seed + 100);
  for (const title of ["a", "b"]) {
    const lost = random.int(1, events.length - 2);
    const found = random.int(lost + 1, events.length);
    const about = `Event ${lost} is lost: the events of its task after it wait.`;
    const gap = [
      [0, lost],
      [lost + 1, events.length],
    ] as const;
    kit.add("gaps", `${log}-${title}-lost`, { about, log, order: gap });
    const late = [
      [0, lost],
      [lost + 1, found],
      [lost, lost + 1],
      [found, events.length],
    ] as const;
    const filled = `Event ${lost} comes after event ${found - 1}.`;
    kit.deliver("gaps", `${log}-${title}-late`, { about: filled, log, order: late });
  }
}

const lenses: readonly (readonly [title: string, Lens])[] = [
  ["depth-0", { depth: 0 }],
  ["no-reasoning", { exclude: ["reasoning"] }],
  ["messages", { include: ["message"] }],
  ["results", { include: ["tool_result"], depth: 1 }],
];

function addLenses(kit: Kit, log: string, events: readonly Frame[], seed: number): void {
  const random = seededRandom(seed + 200);
  for (const [title, view] of lenses.slice(seed % 2, (seed % 2) + 3)) {
    const frames = asFrames(lens(asLog(events), view));
    if (frames.length === events.length) continue;
    const about = `A filtered stream: ${JSON.stringify(view)}.`;
    kit.add("filters", `${log}-${title}`, { about, frames, options: options("filtered") });
    if (title !== "messages" || log !== "team-157") continue;
    const doubled = asFrames(withDuplicates(random, asLog(frames)));
    const twice = "The same, with some events twice and one lost.";
    const lost = doubled.filter((event) => event !== frames[frames.length >> 1]);
    kit.add("filters", `${log}-${title}-lost`, {
      about: twice,
      frames: lost,
      options: options("filtered"),
    });
  }
}

function addSnapshots(kit: Kit, log: string, events: readonly Frame[]): void {
  const count = Math.ceil(events.length * 0.6);
  const start = snapshots(events, count);
  const tail = events.slice(count);
  const add = (title: string, about: string, frames: readonly Frame[], ...names: "partial"[]) =>
    kit.add("snapshots", `${log}-${title}`, { about, frames, options: options(...names) });
  add("start", "A reader that starts with snapshots.", [...start, ...tail]);
  if (log.startsWith("team-")) return;
  add("alone", "Only the snapshots: the last one is final.", start, "partial");
  const open = start.map(({ final, ...frame }) => frame);
  add(
    "not-final",
    "Snapshots without a final one: the cursor moves with the next event.",
    open,
    "partial",
  );
  add("late", "Snapshots that come when the reader has all events already.", [...events, ...start]);
  const known = events.slice(0, Math.floor(count / 2));
  add("after-gap", "Snapshots fill the gap of a reader that has the start.", [
    ...known,
    ...tail,
    ...start,
  ]);
}

/** Streams in which some fields are wrong: a reader ignores what does not fit and goes on. */
function addDamage(kit: Kit): void {
  for (let seed = 0, left = 20; left > 0; seed++) {
    const random = seededRandom(seed);
    const { events } = generateTree(random, { maxEvents: 16 });
    const frames = structuredClone(events) as unknown as Frame[];
    damageSome(random, frames, random.int(1, 6));
    const text = textOf(frames);
    if (text === undefined) continue;
    left--;
    const about = "Some fields of a small team's log are wrong.";
    kit.add("damaged", `${seed}`, { about, frames: JSON.parse(text) });
  }
}

/** The frames as JSON, or undefined if they nest too deeply for it. */
function textOf(frames: readonly Frame[]): string | undefined {
  try {
    const text = JSON.stringify(frames);
    return /[[{]{300}|(?:\{"inside":){300}/.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}
