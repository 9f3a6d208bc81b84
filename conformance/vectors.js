// Reads the vectors of the conformance kit.
import { readdirSync, readFileSync } from "node:fs";

/**
 * How a vector is folded and checked; docs/protocol/conformance.md explains the options.
 * @typedef {{ legacy?: true, filtered?: true, partial?: true, seed?: true }} Options
 *
 * The expected output of an implementation. `document` is null when the tree has no root.
 * @typedef {{ tree: unknown, document: unknown, problems: readonly { index: number, rule: string }[] }} Expected
 *
 * One test: frames, or chunks of a stream of server-sent events as base64, and the expected results.
 * @typedef {object} Vector
 * @property {string} name
 * @property {string} about
 * @property {Options} options
 * @property {readonly unknown[]} [frames]
 * @property {readonly string[]} [chunks]
 * @property {Expected} expect
 *
 * A vector in its file: frames may be ranges of a shared log, and a result may name the vector that has it.
 * @typedef {object} StoredVector
 * @property {string} name
 * @property {string} about
 * @property {Options} [options]
 * @property {readonly unknown[]} [frames]
 * @property {readonly string[]} [chunks]
 * @property {string} [log]
 * @property {readonly (readonly [from: number, to: number])[]} [order]
 * @property {Readonly<Record<keyof Expected, unknown>>} expect
 */

/**
 * Reads one file of the kit.
 * @param {string} name
 * @returns {any}
 */
function readJson(name) {
  return JSON.parse(readFileSync(new URL(name, import.meta.url), "utf8"));
}

/**
 * Replaces the short forms of a file with the frames and results that they stand for.
 * @param {readonly StoredVector[]} stored
 * @param {Readonly<Record<string, readonly unknown[]>>} logs
 * @returns {readonly Vector[]}
 */
function expand(stored, logs) {
  const byName = new Map(stored.map((vector) => [vector.name, vector]));
  return stored.map(({ log, order, options = {}, ...vector }) => {
    const entries = Object.entries(vector.expect).map(([level, value]) => {
      const source = /** @type {{ same_as?: string } | null} */ (value)?.same_as;
      if (source === undefined) return [level, value];
      return [level, byName.get(source)?.expect[/** @type {keyof Expected} */ (level)]];
    });
    const expect = /** @type {Expected} */ (Object.fromEntries(entries));
    if (log === undefined) return { ...vector, options, expect };
    const events = logs[log] ?? [];
    const frames = (order ?? [[0, events.length]]).flatMap(([from, to]) => events.slice(from, to));
    return { ...vector, options, frames, expect };
  });
}

/**
 * Reads all vectors, in the order of their files.
 * @returns {readonly Vector[]}
 */
export function readVectors() {
  const files = readdirSync(new URL("vectors/", import.meta.url)).sort();
  const stored = files.flatMap((file) => readJson(`vectors/${file}`));
  return expand(stored, readJson("logs.json"));
}
