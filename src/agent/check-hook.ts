import {
  callback,
  checkFields,
  type Fields,
  invalid,
  list,
  number,
  text,
  unknownField,
} from "./check-fields.ts";
import type { Hook } from "./hook.ts";
import { isPlainObject, isRecord } from "./plain.ts";

const fields: Fields<Hook> = {
  name: text,
  priority: number("a number"),
  tools: list,
  preCall: callback,
  preReasoning: callback,
  reasoningChunk: callback,
  postReasoning: callback,
  preActing: callback,
  actingChunk: callback,
  postActing: callback,
  preSummary: callback,
  postSummary: callback,
  postCall: callback,
  onError: callback,
};
const names = Object.keys(fields);

/**
 * Refuses what is no hook, and a function of a plain one that is called at no point. Data of its own is a hook's own
 * matter, and so are the methods of a class.
 */
export function checkHook(hook: unknown): void {
  const { name } = isRecord(hook) ? hook : {};
  if (!isRecord(hook) || typeof name !== "string" || name.trim() === "") {
    throw invalid("A hook has no name.", 'For example: { name: "audit", preActing() { … } }.');
  }
  const what = `The hook ${name}`;
  if (isPlainObject(hook)) {
    const stray = Object.keys(hook).find(
      (key) => !names.includes(key) && typeof hook[key] === "function",
    );
    if (stray !== undefined) throw unknownField(what, stray, names);
  }
  const known = names.map((field) => [field, hook[field]]);
  checkFields(what, Object.fromEntries(known), fields, `${what}: `);
}
