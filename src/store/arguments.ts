import * as is from "../base/options.ts";
import { checkArguments, type Field, type Shape } from "../base/options.ts";
import type { Commit, Files, Store } from "../contract/index.ts";
import type { LogEvent } from "../protocol/index.ts";

/** The rules for the arguments of every method, by name and in order. */
type Rules<Target> = { readonly [Method in keyof Target]: Shape };

/** A number of which Infinity is no limit. */
export const amount: Field = {
  fits: (value) => typeof value === "number" && value >= 0,
  expected: "a number of at least 0",
};
/** The rule for `flushMs`. */
export const flushMsField = is.or(
  is.integer(0, 10_000),
  '"adaptive"',
  (value) => value === "adaptive",
);
const text = is.required(is.text);
const limit = is.required(amount);
// NaN is a version of another kind of filesystem, which no file has.
const version: Field = { fits: (value) => typeof value === "number", expected: "a number" };
const cursor = is.required(is.number("an integer", Number.isInteger));
const lease = objectWith("a lease", ["sessionId", "owner"], ["fence"]);
const task = objectWith(
  "a task record",
  [
    "taskId",
    "rootTaskId",
    "sessionId",
    "agentId",
    "agentName",
    "agentKey",
    "path",
    "mode",
    "status",
  ],
  ["depth", "createdAt", "committedOutput"],
);
const post = objectWith("an inbox row", ["id", "kind", "sessionId"]);
const event: Field = {
  fits: (value) => {
    const { type, task_id } = value as Partial<LogEvent>;
    return typeof type === "string" && typeof task_id === "string";
  },
  expected: "an event",
};
const append: Field = {
  fits: (value) => Array.isArray((value as Shape).messages),
  expected: "an object with sessionId, at and messages",
};
const bytes: Field = { fits: (value) => value instanceof Uint8Array, expected: "a Uint8Array" };
const watchKeys = ["log", "session", "task", "inbox"];
const key: Field = {
  fits: (value) => watchKeys.some((name) => typeof (value as Shape)[name] === "string"),
  expected: `an object with one of ${watchKeys.join(", ")}`,
};
/** An array that is checked without a copy, because a commit may have thousands of events. */
const arrayOf = ({ fits, expected }: Field): Field => ({
  fits: (value) => Array.isArray(value) && value.every(fits),
  expected: `an array, and each entry ${expected}`,
});
const commit: Readonly<Record<keyof Commit, Field>> = {
  lease: is.required(lease),
  log: text,
  events: arrayOf(event),
  appends: arrayOf(append),
  tasks: arrayOf(task),
  posts: arrayOf(post),
  taken: arrayOf(text),
  begins: is.text,
};
const rows = { conversation: is.text, sessionId: is.text, rootTaskId: is.text };
const list = { status: is.listOf(text), dueBy: amount, limit: amount, newestFirst: is.flag };
const tasks = { ...rows, parentSessionId: is.text, ...list };
const userId = is.or(is.text, "null", (value) => value === null);
const page = { limit: amount, before: is.name, userId, sessionId: is.text };
const search = { text, userId, limit: amount };
const claim = {
  agents: is.required(is.listOf(is.options({ agentId: is.text, version: is.text }))),
  places: is.listOf(text),
  maxLosses: amount,
  maxPerUser: amount,
};
const node = {
  ...{ nodeId: text, name: text, startedAt: is.required(is.number("a time")) },
  ...{ agents: claim.agents, places: is.required(is.listOf(text)) },
  ...{ conversations: is.required(is.listOf(text)), maxPerUser: amount },
};
const needed = (fields: Shape) => is.required(is.options(fields));

const storeRules: Rules<Omit<Store, "files" | "memory" | "isShared">> = {
  acquire: { sessionId: text, owner: text, ttlMs: limit, maxLosses: amount },
  renew: { leases: is.required(is.listOf(lease)), ttlMs: limit },
  release: { lease: is.required(lease) },
  releaseNow: { lease: is.required(lease), isLost: is.required(is.flag) },
  owner: { sessionId: text },
  expired: { limit },
  claim: { owner: text, ttlMs: limit, limit, claim: needed(claim) },
  heartbeat: { node: needed(node), ttlMs: limit },
  nodes: {},
  commit: { commit: needed(commit), following: is.listOf(is.options(commit)) },
  enqueue: { record: is.required(task), options: is.options({ ifIdle: is.flag }) },
  post: { rows: is.required(is.listOf(post)) },
  posts: { query: needed(rows) },
  read: { log: text, after: cursor, limit, maxBytes: amount },
  last: { log: text },
  trim: { log: text, snapshot: needed({ through: cursor, tasks: is.list }) },
  snapshot: { log: text },
  session: { id: text, from: amount, limit: amount },
  sessions: { query: needed(page) },
  search: { query: needed(search) },
  deleteSession: { id: text },
  task: { id: text },
  tasks: { query: needed(tasks) },
  watch: { key: is.required(key), wake: is.required(is.callback) },
  close: {},
};
const fileRules: Rules<Files> = {
  get: { path: text },
  put: { path: text, data: is.required(bytes), options: is.options({ ifVersion: version }) },
  delete: { path: text },
  list: { prefix: text, options: is.options({ limit: amount, after: is.text }) },
};

const files = is.withFunctions(...Object.keys(fileRules));
const optional = ["releaseNow", "claim", "heartbeat", "nodes"];
const isRequired = (method: string) => !optional.includes(method);
const methods = is.withFunctions(...Object.keys(storeRules).filter(isRequired));
/** The rule for a store of which only the files are used. */
export const withFilesField: Field = {
  fits: (value) => files.fits((value as Partial<Store>).files),
  expected: "a store",
  example: "memoryStore()",
};
/** The rule for an open store. */
export const openStoreField: Field = {
  ...withFilesField,
  fits: (value) => methods.fits(value) && withFilesField.fits(value),
};
/** The rule for a store or the name of one. */
export const storeField = is.or(
  openStoreField,
  '"memory", "sqlite:path" or "postgres://…"',
  is.text.fits,
);

// No method has more parameters, and a list of them would be copied for each call.
type Method = (one?: unknown, two?: unknown, three?: unknown, four?: unknown) => unknown;
type Methods = Record<string, Method>;

/** The stores behind those that check their arguments. */
const unchecked = new WeakMap<Store, Store>();

/**
 * The same store, which rejects bad arguments with `invalid_argument` before it reads or writes anything. `assertOpen`
 * throws when the store is closed.
 */
export function withCheckedArguments(store: Store, assertOpen: () => void): Store {
  const open = withChecks(store, () => assertOpen);
  const checked = withChecks(open, (fields) => {
    const places = Object.keys(fields);
    const rules = Object.values(fields);
    return (...values) => checkArguments(places, values, rules);
  });
  unchecked.set(checked, { ...open, ...unlessReplaced(open, checked) });
  return checked;
}

/** The store without its checks, for arguments that are known to fit: they would be a tenth of the work of a step. */
export function withoutChecks(store: Store): Store {
  return unchecked.get(store) ?? store;
}

/** The methods of an open store; one that was replaced in the checked store, such as by a test, is called instead. */
function unlessReplaced(open: Store, checked: Store): Store {
  const own = { ...checked } as unknown as Methods;
  const current = checked as unknown as Methods;
  return mapMethods(
    open,
    storeRules,
    (run, name): Method =>
      (one, two, three, four) => {
        const method = current[name] as Method;
        if (method === own[name]) return run(one, two, three, four);
        return method.call(checked, one, two, three, four);
      },
  );
}

type CheckOf = (fields: Shape) => (...args: readonly unknown[]) => void;

function withChecks(store: Store, checkOf: CheckOf): Store {
  const withCheck = (run: Method, name: string, fields: Shape): Method => {
    const check = checkOf(fields);
    return (one, two, three, four) => {
      try {
        if (name !== "close") check(one, two, three, four);
      } catch (error) {
        if (name === "watch" || name === "releaseNow") throw error; // they return no promise
        return Promise.reject(error);
      }
      return run(one, two, three, four);
    };
  };
  const files = mapMethods(store.files, fileRules, withCheck);
  return { ...store, ...mapMethods(store, storeRules, withCheck), files };
}

function mapMethods<Target extends object>(
  target: Target,
  rules: Record<string, Shape>,
  map: (run: Method, name: string, fields: Shape) => Method,
): Target {
  const methods = Object.entries(rules).flatMap(([name, fields]) => {
    const run = (target as unknown as Partial<Methods>)[name];
    return run ? [[name, map(run, name, fields)]] : [];
  });
  return Object.fromEntries(methods) as Target;
}

function objectWith(expected: string, texts: readonly string[], numbers: readonly string[] = []) {
  const fits = (value: unknown) => {
    if (!is.record.fits(value)) return false;
    for (const name of texts) if (typeof (value as Shape)[name] !== "string") return false;
    for (const name of numbers) if (typeof (value as Shape)[name] !== "number") return false;
    return true;
  };
  return { fits, expected };
}
