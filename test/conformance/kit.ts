import { isDeepStrictEqual } from "node:util";
import type { Options, StoredVector } from "../../conformance/vectors.js";
import * as rivulet from "../../src/protocol.ts";
import { answer } from "./answer.ts";

/** A vector without its results. */
export type Draft = Omit<StoredVector, "expect" | "name">;
/** A frame as JSON. */
export type Frame = Readonly<Record<string, unknown>>;

/** The kit while it is made: vectors by file, and the logs that they share. */
export class Kit {
  readonly #logs = new Map<string, readonly Frame[]>();
  readonly #files = new Map<string, StoredVector[]>();
  readonly #names = new Map<string, string>();

  /** Adds a log, and returns its name and its events. */
  log(
    name: string,
    events: readonly unknown[],
  ): { readonly log: string; events: readonly Frame[] } {
    const frames = JSON.parse(JSON.stringify(events)) as Frame[];
    this.#logs.set(name, frames);
    return { log: name, events: frames };
  }

  /** Adds a vector with the results of this package; equal results are stored once. */
  add(group: string, title: string, draft: Draft): void {
    const name = `${group}/${title}`;
    const frames = draft.log === undefined ? draft.frames : this.#framesOf(draft);
    const plain = frames === undefined ? draft : { ...draft, frames };
    const result = answer(rivulet, JSON.parse(JSON.stringify({ name, ...plain })));
    const expect = Object.fromEntries(
      Object.entries(result).map(([level, value]) => [level, this.#once(name, level, value)]),
    ) as StoredVector["expect"];
    const file = this.#files.get(group) ?? [];
    if (file.some((vector) => vector.name === name)) throw new Error(`Two vectors ${name}`);
    file.push({ name, ...draft, expect });
    this.#files.set(group, file);
  }

  /** Adds a delivery of a log; fails unless it comes to the result of the log in order. */
  deliver(group: string, title: string, draft: Draft & { readonly log: string }): void {
    const events = this.#logs.get(draft.log) as unknown as readonly rivulet.StreamFrame[];
    const frames = this.#framesOf(draft) as unknown as readonly rivulet.StreamFrame[];
    const fold = (list: readonly rivulet.StreamFrame[]) => new rivulet.TaskTree().apply(list).tree;
    if (!isDeepStrictEqual(plain(fold(frames)), plain(fold(events)))) {
      throw new Error(`${group}/${title} does not come to the tree of ${draft.log}`);
    }
    this.add(group, title, draft);
  }

  /** The files of the kit, by path in `conformance/`. */
  files(): Readonly<Record<string, string>> {
    const vectors = [...this.#files].map(([group, list]) => [
      `vectors/${group}.json`,
      linesOf(list),
    ]);
    const logs = [...this.#logs].map(
      ([name, events]) => `${JSON.stringify(name)}: ${linesOf(events).trimEnd()}`,
    );
    return { "logs.json": `{\n${logs.join(",\n")}\n}\n`, ...Object.fromEntries(vectors) };
  }

  #framesOf({ log = "", order }: Draft): readonly Frame[] {
    const events = this.#logs.get(log) ?? [];
    return (order ?? [[0, events.length]]).flatMap(([from, to]) => events.slice(from, to));
  }

  /** The value, or the earlier vector that has the same; a short value stands for itself. */
  #once(name: string, level: string, value: unknown): unknown {
    const text = JSON.stringify(value);
    const key = `${level} ${text}`;
    const earlier = this.#names.get(key);
    if (earlier === undefined) this.#names.set(key, name);
    return earlier === undefined || text.length < 100 ? value : { same_as: earlier };
  }
}

/** Ranges of one event each. */
export function order(...indexes: readonly number[]): readonly (readonly [number, number])[] {
  const ranges: [number, number][] = [];
  for (const index of indexes) {
    const last = ranges.at(-1);
    if (last?.[1] === index) last[1] = index + 1;
    else ranges.push([index, index + 1]);
  }
  return ranges;
}

/** The options of a vector, true where they are named. */
export function options(...names: readonly (keyof Options)[]): Options {
  return Object.fromEntries(names.map((name) => [name, true]));
}

function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

/** A JSON list with one entry per line. */
function linesOf(list: readonly unknown[]): string {
  return `[\n${list.map((entry) => JSON.stringify(entry)).join(",\n")}\n]\n`;
}
