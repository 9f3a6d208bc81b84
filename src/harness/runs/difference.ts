import { RivuletError } from "../../base/error.ts";
import { isObject } from "../../base/plain.ts";

const idShape =
  /\b(?:task|rs|fc|fco|msg|call|apr|sess|blk|post)_[0-9A-HJKMNP-TV-Z]{26}\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g;

/** A copy in which ids are numbered in the order in which they appear, so that two runs can be compared. */
export function withoutIds<T>(value: T): T {
  const numbers = new Map<string, number>();
  const text = JSON.stringify(value).replace(idShape, (id) => {
    if (!numbers.has(id)) numbers.set(id, numbers.size + 1);
    return `id${numbers.get(id)}`;
  });
  return JSON.parse(text) as T;
}

/** The place and the values of the first difference of two plain values, apart from ids; undefined if they are equal. */
export function firstDifference(recorded: unknown, replayed: unknown): string | undefined {
  return difference(withoutIds(recorded ?? null), withoutIds(replayed ?? null), "");
}

function difference(left: unknown, right: unknown, place: string): string | undefined {
  if (Object.is(left, right)) return undefined;
  const areBoth = (is: (value: unknown) => boolean) => is(left) && is(right);
  if (areBoth(Array.isArray) || areBoth((value) => isObject(value) && !Array.isArray(value))) {
    const [old, now] = [left, right] as Readonly<Record<string, unknown>>[];
    for (const key of new Set([...Object.keys(old ?? {}), ...Object.keys(now ?? {})])) {
      const inside = Array.isArray(left) ? `${place}[${key}]` : `${place}${place && "."}${key}`;
      const found = difference(old?.[key], now?.[key], inside);
      if (found) return found;
    }
    return undefined;
  }
  if (typeof left === "string" && typeof right === "string")
    return `${place}:\n${lines(left, right)}`;
  return `${place}:\n- ${shown(left)}\n+ ${shown(right)}`;
}

const before = 40;
const most = 160;

/** The first lines that differ, from shortly before the difference. */
function lines(left: string, right: string): string {
  let at = 0;
  while (at < left.length && left[at] === right[at]) at += 1;
  const start = Math.max(left.lastIndexOf("\n", at - 1) + 1, at - before);
  const excerpt = (text: string) => {
    const end = text.indexOf("\n", at);
    return shown(text.slice(start, Math.min(end < 0 ? text.length : end, start + most)));
  };
  return `- ${excerpt(left)}\n+ ${excerpt(right)}`;
}

function shown(value: unknown): string {
  const text = value === undefined ? "nothing" : JSON.stringify(value);
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** The error of a replay; `step` is the number of the model call. */
export function differs(
  path: string,
  step: number | undefined,
  what: string,
): RivuletError<"replay_differs"> {
  const place = step === undefined ? path : `${path}, step ${step},`;
  return new RivuletError("replay_differs", `${place} ${what}`, {
    hint: "Correct the change, or record the run again with RIVULET_RECORD=1.",
  });
}
