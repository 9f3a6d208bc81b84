import { isObject } from "../../base/plain.ts";
import { words } from "../grammar/index.ts";
import type { ReadMode, Shape } from "../shape.ts";
import {
  fieldOf,
  isBlockId,
  isCursor,
  isFlag,
  isId,
  isIndex,
  isJson,
  isLevel,
  isList,
  isName,
  isNumber,
  isOffset,
  isText,
  isTime,
  isTrue,
  nests,
  readerOf,
  Variants,
} from "../shape.ts";
import { show } from "./problem.ts";

const shortText = "a string of 1 to 128 characters";
const whole = "a whole number from 0";
const expectations = new Map<Shape, string>([
  [isText, "a string"],
  [isName, "a string that is not empty"],
  [isLevel, "a whole number from 1"],
  [isCursor, "a whole number from -1"],
  [isNumber, "a number"],
  [isFlag, "a boolean"],
  [isTrue, "true"],
  [isJson, "an object"],
  [isId, shortText],
  [isBlockId, shortText],
  [isIndex, whole],
  [isTime, whole],
  [isOffset, whole],
]);

/** A problem of a value and its place: `.item.block_list[0].text`. */
export interface Misfit {
  readonly path: string;
  readonly problem: string;
}

/** Finds the innermost value that does not have its shape; `readerOf` decides, at each level. */
export function misfitOf(shape: Shape, value: unknown, mode: ReadMode): Misfit | undefined {
  if (value !== undefined && readerOf(shape)(value, mode) !== undefined) return undefined;
  for (const [step, inner, innerShape] of partsOf(shape, value)) {
    const misfit = misfitOf(innerShape, inner, mode);
    if (misfit !== undefined) return { path: step + misfit.path, problem: misfit.problem };
  }
  const problem = nests(value)
    ? `must be ${expectation(shape)}, got ${show(value)}`
    : "nests too deep";
  return { path: "", problem: value === undefined ? "is required" : problem };
}

/** Describes a misfit for a problem. */
export function describeMisfit(type: string, { path, problem }: Misfit): string {
  return `${show(type)}: ${path.slice(1)} ${problem}`;
}

type Part = readonly [step: string, value: unknown, shape: Shape];

function partsOf(shape: Shape, value: unknown): readonly Part[] {
  if (isList(shape)) {
    return Array.isArray(value) ? value.map((entry, at) => [`[${at}]`, entry, shape[0]]) : [];
  }
  if (typeof shape !== "object" || !isObject(value)) return [];
  const fields = shape instanceof Variants ? shape.fieldsOf(value.type) : shape;
  return Object.entries(fields).flatMap(([name, field]): readonly Part[] => {
    const { shape: inner, isRequired } = fieldOf(field);
    const isAbsent = !isRequired && (value[name] ?? undefined) === undefined;
    return isAbsent ? [] : [[`.${name}`, value[name], inner]];
  });
}

function expectation(shape: Shape): string {
  if (typeof shape === "function") return expectations.get(shape) as string;
  if (typeof shape === "object") return isList(shape) ? "an array" : "an object";
  const name = shape.slice(1);
  if (shape.startsWith("=")) return name.split("|").join(" or ");
  const list = (words as Readonly<Record<string, readonly string[]>>)[name];
  return list === undefined ? name : `one of ${list.join(", ")}`;
}
