import { isRecord } from "../plain.ts";

/** Which calls a rule is about: a glob on the tool's name, and where given, globs on fields of its input. */
export type Rule =
  | string
  | { readonly tool: string; readonly input?: Readonly<Record<string, string>> };

/** What an agent may call: without asking, after asking, or never. A glob has `*` (any text) and `?` (one character). */
export interface Permissions {
  readonly allow?: readonly Rule[];
  readonly ask?: readonly Rule[];
  readonly deny?: readonly Rule[];
}

const lists = ["allow", "ask", "deny"] as const satisfies readonly (keyof Permissions)[];

/** What is wrong with rules that come from outside: one that is never about anything would let calls through. */
export function permissionsProblem(permissions: unknown): string | undefined {
  if (permissions === undefined) return undefined;
  if (!isRecord(permissions)) return "permissions are not an object";
  const other = Object.keys(permissions).find((key) => !lists.some((list) => list === key));
  if (other !== undefined) return `permissions.${other} is not known`;
  for (const list of lists) {
    const rules = permissions[list];
    if (rules === undefined) continue;
    if (!Array.isArray(rules)) return `permissions.${list} is not a list`;
    const wrong = rules.findIndex((rule) => !isRule(rule));
    if (wrong >= 0) return `permissions.${list}[${wrong}] is not a rule`;
  }
  return undefined;
}

/** What rules look like, for whoever has to correct them. */
export const permissionsHint =
  'For example: permissions: { deny: ["rm_*", { tool: "write", input: { path: "/etc/*" } }] }.';

function isRule(rule: unknown): rule is Rule {
  if (!isRecord(rule)) return typeof rule === "string" && rule !== "";
  const { tool, input = {} } = rule;
  const isFields = isRecord(input) && Object.values(input).every((it) => typeof it === "string");
  return typeof tool === "string" && tool !== "" && isFields;
}

/**
 * What the rules of all layers say about a call: a deny anywhere beats an ask anywhere, which beats an allow; undefined
 * when none is about it. A list in the input is denied or asked for when one entry fits, and allowed when all do.
 */
export function decide(
  layers: readonly Permissions[],
  toolName: string,
  input: unknown,
): "allow" | "ask" | "deny" | undefined {
  const said = (decision: keyof Permissions, matches: ListMatch) =>
    layers.some((layer) => layer[decision]?.some((rule) => fits(rule, toolName, input, matches)));
  if (said("deny", "some")) return "deny";
  if (said("ask", "some")) return "ask";
  return said("allow", "every") ? "allow" : undefined;
}

/** The rules of several, as those of one. */
export function joinPermissions(layers: readonly Permissions[]): Permissions {
  return {
    allow: layers.flatMap(({ allow = [] }) => allow),
    ask: layers.flatMap(({ ask = [] }) => ask),
    deny: layers.flatMap(({ deny = [] }) => deny),
  };
}

/** What descendants inherit. */
export function denyRules(layers: readonly Permissions[]): Permissions {
  return { deny: layers.flatMap(({ deny = [] }) => deny) };
}

type ListMatch = "some" | "every";

function fits(rule: Rule, toolName: string, input: unknown, matches: ListMatch): boolean {
  if (typeof rule === "string") return matchesGlob(rule, toolName);
  if (!matchesGlob(rule.tool, toolName)) return false;
  return Object.entries(rule.input ?? {}).every(([field, glob]) => {
    const value = fieldOf(input, field);
    if (!Array.isArray(value)) return fitsValue(glob, value);
    return value.length > 0 && value[matches]((entry) => fitsValue(glob, entry));
  });
}

function fieldOf(input: unknown, field: string): unknown {
  const isObject = typeof input === "object" && input !== null;
  return isObject && Object.hasOwn(input, field) ? (input as never)[field] : undefined;
}

function fitsValue(glob: string, value: unknown): boolean {
  if (value === undefined) return false;
  return matchesGlob(glob, typeof value === "string" ? value : JSON.stringify(value));
}

/**
 * Whether a text fits a glob. It goes back to the last `*` only, never to one before it, so no text can make it take
 * longer than pattern times text.
 */
export function matchesGlob(glob: string, text: string): boolean {
  let at = 0;
  let star = -1;
  let resume = 0;
  let i = 0;
  while (i < text.length) {
    if (glob[at] === "*") {
      star = at++;
      resume = i;
    } else if (at < glob.length && (glob[at] === "?" || glob[at] === text[i])) {
      at++;
      i++;
    } else if (star >= 0) {
      at = star + 1;
      i = ++resume;
    } else return false;
  }
  while (glob[at] === "*") at++;
  return at === glob.length;
}
