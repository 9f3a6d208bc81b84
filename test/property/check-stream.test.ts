import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkStream } from "../../src/protocol/check/check.ts";
import type { LogEvent, StreamFrame } from "../../src/protocol/event.ts";
import type { FoldOptions } from "../../src/protocol/fold/fold.ts";
import { emptyTree, reduce } from "../../src/protocol/reduce.ts";
import { snapshotOf } from "../../src/protocol/snapshot.ts";
import { isTerminal } from "../../src/protocol/task.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { legalInterleaving, reconnects, withDuplicates } from "../support/deliveries.ts";
import { generateTree, treeArbitrary } from "../support/generate-tree.ts";
import { lens } from "../support/lens.ts";
import { annotationMutations } from "../support/mutations/annotation-mutations.ts";
import { envelopeMutations } from "../support/mutations/envelope-mutations.ts";
import { itemMutations } from "../support/mutations/item-mutations.ts";
import type { Mutation } from "../support/mutations/mutate.ts";
import { taskMutations } from "../support/mutations/task-mutations.ts";
import { seededRandom } from "../support/random.ts";

const maxEvents = isDeep ? 500 : 100;
const numRuns = isDeep ? 20_000 : 300;

describe("a legal log", () => {
  it("is legal at every cut with `partial`", () => {
    const property = fc.property(treeArbitrary({ maxEvents }), fc.double(), ({ events }, at) => {
      const prefix = events.slice(0, Math.abs(at) * events.length);
      expect(checkStream(prefix, { partial: true })).toEqual([]);
    });
    fc.assert(property, { numRuns });
  });

  it("is illegal without its last event", () => {
    const property = fc.property(treeArbitrary({ maxEvents }), ({ events }) => {
      expect(checkStream(events.slice(0, -1)).map(({ rule }) => rule)).toContain("L3");
    });
    fc.assert(property, { numRuns });
  });

  it("is legal with every filter", () => {
    const property = fc.property(treeArbitrary({ maxEvents }), fc.nat(3), ({ events }, depth) => {
      const path = events.at(-1)?.source?.path;
      const lenses = [
        { depth },
        { exclude: ["reasoning"] as const },
        { include: ["message"] as const },
        { depth, exclude: ["tool_call", "tool_result"] as const },
        ...(path === undefined ? [] : [{ path }]),
      ];
      for (const through of lenses) {
        expect(checkStream(lens(events, through), { filtered: true })).toEqual([]);
      }
    });
    fc.assert(property, { numRuns });
  });

  it("is legal with every filter, at every cut and from snapshots", () => {
    const property = fc.property(treeArbitrary({ maxEvents }), fc.nat(), ({ events }, at) => {
      const options = { filtered: true, partial: true };
      for (const through of [{ depth: 1 }, { exclude: ["tool_call"] as const }]) {
        const filtered = lens(events, through);
        const cut = at % filtered.length;
        const snapshots = snapshotsOf(filtered.slice(0, cut + 1), options);
        expect(checkStream(filtered.slice(0, cut), options)).toEqual([]);
        expect(checkStream([...snapshots, ...filtered.slice(cut + 1)], options)).toEqual([]);
      }
    });
    fc.assert(property, { numRuns });
  });

  it("is legal as snapshots and the events after them, at every cut", () => {
    const property = fc.property(
      treeArbitrary({ maxEvents }),
      fc.nat(),
      fc.nat(),
      ({ events }, at, length) => {
        const cut = at % events.length;
        const snapshots = snapshotsOf(events.slice(0, cut + 1));
        const live = snapshots.filter(({ task }) => !isTerminal(task.status));
        const tail = events.slice(cut + 1);
        const part = tail.slice(0, length % (tail.length + 1));
        expect(checkStream([...snapshots, ...tail])).toEqual([]);
        expect(checkStream([...live, ...tail])).toEqual([]);
        expect(checkStream([...snapshots, ...part], { partial: true })).toEqual([]);
        const received = events.slice(0, length % (cut + 2));
        expect(checkStream([...received, ...snapshots, ...tail])).toEqual([]);
      },
    );
    fc.assert(property, { numRuns });
  });

  it("is legal over reconnects, with and without snapshots of the same or an older moment", () => {
    const property = fc.property(treeArbitrary({ maxEvents }), fc.nat(), ({ events }, seed) => {
      const random = seededRandom(seed);
      let received = -1;
      const frames = reconnects(random, events).flatMap((connection): StreamFrame[] => {
        const from = (connection[0] as LogEvent).sequence_number;
        const before = events.slice(0, from);
        const isExpired = from > 0 && random.chance(0.6);
        const opened: StreamFrame = {
          type: "stream.opened",
          protocol: "rivulet.task-stream/1",
          root_task_id: events[0]?.task_id as string,
          oldest_sequence_number: isExpired ? from : 0,
          last_sequence_number: received,
          heartbeat_ms: 15_000,
        };
        received = Math.max(received, (connection.at(-1) as LogEvent).sequence_number);
        const isAnnounced = random.chance(0.8) || !isExpired;
        const snapshots = isExpired ? snapshotsOf(before) : [];
        return [...(isAnnounced ? [opened] : []), ...snapshots, ...connection];
      });
      expect(checkStream(frames)).toEqual([]);
      expect(checkStream(frames.slice(0, seed % frames.length), { partial: true })).toEqual([]);
    });
    fc.assert(property, { numRuns });
  });

  it("reports events in another order than their numbers", () => {
    const property = fc.property(treeArbitrary({ maxEvents }), fc.nat(), ({ events }, seed) => {
      const mixed = legalInterleaving(seededRandom(seed), events);
      const isOrdered = mixed.every((event, at) => event === events[at]);
      const rules = checkStream(mixed).map(({ rule }) => rule);
      if (isOrdered) expect(rules).toEqual([]);
      else expect(rules).toContain("sequence");
      // The order within each task is right.
      expect(rules).not.toContain("task_seq");
    });
    fc.assert(property, { numRuns });
  });

  it("reports repeated events as duplicates only", () => {
    const property = fc.property(treeArbitrary({ maxEvents }), fc.nat(), ({ events }, seed) => {
      const random = seededRandom(seed);
      for (const delivered of [withDuplicates(random, events), reconnects(random, events).flat()]) {
        expect(checkStream(delivered)).toEqual(repetitions(delivered));
      }
    });
    fc.assert(property, { numRuns });
  });
});

/** The snapshots of all tasks after these events. */
function snapshotsOf(events: readonly LogEvent[], { filtered = false }: FoldOptions = {}) {
  const tree = reduce(emptyTree(), events, { filtered });
  const through = { sequenceNumber: events.at(-1)?.sequence_number as number, createdAt: 0 };
  const snapshots = Object.keys(tree.tasks).flatMap((id) => snapshotOf(tree, id, through) ?? []);
  // A filtered stream may know the end of a child without any of its events.
  return snapshots.filter(({ through_task_seq }) => through_task_seq >= 0);
}

function repetitions(events: readonly LogEvent[]) {
  const seen = new Set<LogEvent>();
  return events.flatMap((event, index) => {
    if (!seen.has(event)) {
      seen.add(event);
      return [];
    }
    return [{ index, rule: "duplicate", message: expect.any(String) }];
  });
}

describe("a log with one mistake", () => {
  const mutations: readonly Mutation[] = [
    ...envelopeMutations,
    ...itemMutations,
    ...annotationMutations,
    ...taskMutations,
  ];
  const times = isDeep ? 500 : 15;

  it.each(mutations)("$name breaks $rule", ({ apply, rule }) => {
    let applied = 0;
    for (let seed = 0; applied < times && seed < 20_000; seed++) {
      const { events } = generateTree(seededRandom(seed), { maxEvents });
      const spoilt = apply(seededRandom(seed), events);
      if (spoilt === undefined) continue;
      applied++;
      const found = new Set(checkStream(spoilt).map((problem) => problem.rule));
      expect(found, `generateTree(seededRandom(${seed}), { maxEvents: ${maxEvents} })`).toContain(
        rule,
      );
    }
    expect(applied).toBe(times);
  });
});

describe("arbitrary input", () => {
  it("never throws", () => {
    const property = fc.property(fc.array(fc.anything()), (events) => {
      for (const options of [{}, { legacy: true }, { filtered: true }, { partial: true }]) {
        expect(checkStream(events, options).length).toBeGreaterThanOrEqual(events.length);
      }
    });
    fc.assert(property, { numRuns: isDeep ? 50_000 : 500 });
  });

  it("never throws for a log with arbitrary values in its fields", () => {
    const property = fc.property(
      treeArbitrary({ maxEvents: 60 }),
      fc.array(fc.tuple(fc.nat(), fc.nat(), fc.anything()), { minLength: 1, maxLength: 5 }),
      fc.constantFrom({}, { legacy: true }, { filtered: true }),
      ({ events }, damages, options) => {
        const damaged: unknown[] = structuredClone([...events]);
        for (const [at, where, value] of damages)
          damage(damaged[at % damaged.length], where, value);
        checkStream(damaged, options);
      },
    );
    fc.assert(property, { numRuns: isDeep ? 50_000 : 1000 });
  });
});

/** Replaces one value somewhere inside an event. */
function damage(event: unknown, where: number, value: unknown): void {
  const places: [Record<string, unknown>, string][] = [];
  const collect = (inside: unknown): void => {
    if (typeof inside !== "object" || inside === null) return;
    for (const key of Object.keys(inside)) {
      places.push([inside as Record<string, unknown>, key]);
      collect((inside as Record<string, unknown>)[key]);
    }
  };
  collect(event);
  const place = places[where % places.length];
  if (place !== undefined) place[0][place[1]] = value;
}
