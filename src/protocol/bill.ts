import { readInput } from "../base/argument.ts";
import { addAmounts, dayOf, usageOfShare } from "./cost.ts";
import { addUsage, noUsage, readTree, subtreeOf, taskOf } from "./select.ts";
import type { Cost, Item, ModelUsage, Task, Tree, Usage } from "./task.ts";

/** The names that rows of a bill can be told apart by. */
export const billKeys = ["agent", "path", "model", "tool", "user", "session", "day"] as const;
/** One of the names that rows of a bill can be told apart by. */
export type BillKey = (typeof billKeys)[number];

/** The usage of a task, and for whom it was. */
export interface BilledTask {
  readonly agent?: string;
  readonly path?: string;
  /** The tool whose call started the task. */
  readonly tool?: string;
  readonly user?: string;
  readonly session?: string;
  /** Its day is that of the calls whose day is not known. */
  readonly createdAt?: number;
  readonly usage?: Usage;
  readonly cost?: Cost;
  readonly byModel?: readonly ModelUsage[];
}

/** One row of a bill. A key is absent if it is unknown, or if the bill is not told apart by it. */
export interface BillRow extends Partial<Readonly<Record<BillKey, string>>> {
  /** All tokens of the row, those of retried calls included. */
  readonly usage: Usage;
  /** The tokens of calls whose reply was not kept. */
  readonly retried: Usage;
  /** The cost in each currency; empty if no price is known. */
  readonly costs: readonly Cost[];
  /** The tokens in `usage` whose price is unknown. */
  readonly unpriced_tokens: number;
  /** The number of calls whose tokens the provider did not report. */
  readonly unmetered_calls: number;
}

/** The usage of tasks: disjoint rows, those with the most tokens first, and their sum. */
export interface Bill {
  readonly rows: readonly BillRow[];
  readonly total: BillRow;
}

/** The content of a bill, and how its rows are told apart. */
export interface BillOptions {
  /** Defaults to agent and model. */
  readonly by?: readonly BillKey[];
  /** The first and the last day in UTC, such as `2026-11-19`. */
  readonly from?: string;
  readonly to?: string;
  /** The price of a model (`provider/id`) for calls whose cost the events do not tell. */
  readonly price?: (usage: Usage, model: string) => Cost | undefined;
}

const emptyRow: BillRow = {
  ...{ usage: noUsage, retried: noUsage, costs: [] },
  ...{ unpriced_tokens: 0, unmetered_calls: 0 },
};

/** The bill of tasks. Its sums are those of their last `task.usage` events. */
export function billOf(tasks: Iterable<BilledTask>, options: BillOptions = {}): Bill {
  const { by = defaultKeys, from = "", to = "~", price } = readBillOptions(options);
  const rows = new Map<string, BillRow>();
  for (const { usage, cost, byModel, createdAt = 0, ...whose } of tasks) {
    for (const share of sharesOf({ usage: usage ?? noUsage, cost, byModel: byModel ?? [] })) {
      const { day = dayOf(createdAt) } = share;
      if (day < from || day > to) continue;
      const model = share.model === "" ? undefined : `${share.provider}/${share.model}`;
      const facts: Partial<Record<BillKey, string | undefined>> = { ...whose, model, day };
      const keys = by.flatMap((name) => (facts[name] === undefined ? [] : [[name, facts[name]]]));
      addRow(rows, { ...Object.fromEntries(keys), ...amountsOf(share, model, price) });
    }
  }
  return billWith(rows);
}

const defaultKeys = ["agent", "model"] as const;

function readBillOptions(options: BillOptions): BillOptions {
  const keys = `an object whose \`by\` is an array of ${billKeys.join(", ")}`;
  return readInput("options", keys, options, () => {
    const { by = defaultKeys, price } = options;
    return by.every(isBillKey) && ["undefined", "function"].includes(typeof price) && options;
  });
}

/** The bill of a tree, which can be complete or still grow. */
export function billOfTree(tree: Tree, options?: BillOptions): Bill {
  return billOf(billedTasks(tree), options);
}

/** The bill of several bills with the same keys. */
export function addBills(bills: readonly Bill[]): Bill {
  const rows = new Map<string, BillRow>();
  for (const bill of bills) for (const row of bill.rows) addRow(rows, row);
  return billWith(rows);
}

/** The tasks of a tree, parents before their children. */
function billedTasks(tree: Tree): readonly BilledTask[] {
  return readTree(tree, () => {
    const { rootId = "" } = tree;
    const session = taskOf(tree, rootId)?.sessionId;
    return subtreeOf(tree, rootId).map((task) => billedTask(tree, task, session));
  });
}

function billedTask(tree: Tree, task: Task, session: string | undefined): BilledTask {
  const { agentId: agent, source, callId, parentTaskId, createdAt, usage, cost, byModel } = task;
  const path = parentTaskId === undefined ? session : source?.path;
  const tool = toolOf(taskOf(tree, parentTaskId)?.output, callId);
  return {
    ...(agent !== undefined && { agent }),
    ...(path !== undefined && { path }),
    ...(tool !== undefined && { tool }),
    ...(session !== undefined && { session }),
    ...(createdAt !== undefined && { createdAt }),
    ...(usage && { usage }),
    ...(cost && { cost }),
    ...(byModel && { byModel }),
  };
}

/** The name of the tool that a call in an output is for. */
export function toolOf(
  output: readonly Item[] = [],
  callId: string | undefined,
): string | undefined {
  const call = output.findLast((item) => item.type === "tool_call" && item.call_id === callId);
  return call?.type === "tool_call" ? call.name : undefined;
}

function isBillKey(name: unknown): name is BillKey {
  return billKeys.includes(name as BillKey);
}

/** A share, or the part of a usage that no share accounts for: its model is "". */
type Share = ModelUsage & { readonly usage: Usage };

const counters = [
  ...(["input_tokens", "output_tokens", "total_tokens"] as const),
  ...(["cached_input_tokens", "cache_write_tokens", "reasoning_tokens"] as const),
];

/** Disjoint shares that add up to a task's usage and cost. Shares that contradict the usage do not count. */
function sharesOf(task: {
  readonly usage: Usage;
  readonly cost: Cost | undefined;
  readonly byModel: readonly ModelUsage[];
}): readonly Share[] {
  const { usage, byModel } = task;
  const cost = readCost(task.cost);
  const shares = byModel.map(({ cost: sent, ...share }): Share => {
    const known = readCost(sent);
    return { ...share, usage: usageOfShare(share), ...(known && { cost: known }) };
  });
  const rest = minus(usage, shares);
  if (rest === undefined) return [unknownShare(usage, cost)];
  const priced = shares.filter((share) => share.cost && share.cost.currency === cost?.currency);
  const restCost = cost && costLeft(cost, priced);
  const all = isNothing(rest) ? shares : [...shares, unknownShare(rest)];
  if (restCost === undefined) return all;
  // The recorded cost is also that of the shares without one; only a single share can be told its part.
  const open = all.filter((share) => share.cost === undefined);
  const closed = all.filter((share) => share.cost !== undefined);
  const [only, second] = open;
  if (only && second === undefined) return [...closed, { ...only, cost: restCost }];
  const unmetered = open.reduce((sum, share) => sum + (share.unmetered ?? 0), 0);
  const left = open.map(({ usage }) => usage).reduce(addUsage, noUsage);
  return [...closed, { ...unknownShare(left, restCost), ...(unmetered > 0 && { unmetered }) }];
}

/** Anyone can write an event, so a cost that cannot be added is no cost. */
function readCost(cost: Cost | undefined): Cost | undefined {
  return cost && /^\d{1,40}(\.\d{1,40})?(e[+-]?\d{1,2})?$/.test(cost.amount) ? cost : undefined;
}

function unknownShare(usage: Usage, cost?: Cost): Share {
  return { ...{ provider: "", model: "", ...usage, usage }, ...(cost && { cost }) };
}

/** The part of a usage that shares leave; undefined if they are more than it. */
function minus(usage: Usage, shares: readonly Share[]): Usage | undefined {
  const sum = shares.map((share) => share.usage).reduce(addUsage, noUsage);
  const left = counters.map((name) => [name, (usage[name] ?? 0) - (sum[name] ?? 0)] as const);
  if (left.some(([, count]) => count < 0)) return undefined;
  return { ...noUsage, ...Object.fromEntries(left.filter(([, count]) => count > 0)) };
}

function isNothing(usage: Usage): boolean {
  return counters.every((name) => !usage[name]);
}

/** The part of a cost that shares leave; undefined if that is nothing or less. */
function costLeft({ amount, currency }: Cost, shares: readonly Share[]): Cost | undefined {
  const known = shares.map((share) => share.cost?.amount ?? "0").reduce(addAmounts, "0");
  const left = addAmounts(amount, `-${known}`);
  return left === "0" || left.startsWith("-") ? undefined : { amount: left, currency };
}

function amountsOf(
  { usage, cost, retried, unmetered = 0 }: Share,
  model: string | undefined,
  price: BillOptions["price"],
): BillRow {
  const known = cost ?? (model === undefined ? undefined : price?.(usage, model));
  return {
    usage,
    retried: retried ? usage : noUsage,
    costs: known ? [known] : [],
    unpriced_tokens: known ? 0 : usage.total_tokens,
    unmetered_calls: unmetered,
  };
}

function addRow(rows: Map<string, BillRow>, row: BillRow): void {
  const { usage: _, retried: __, costs: ___, unpriced_tokens, unmetered_calls, ...keys } = row;
  const key = JSON.stringify(billKeys.map((name) => keys[name]));
  rows.set(key, { ...keys, ...sumOfRows(rows.get(key) ?? emptyRow, row) });
}

function sumOfRows(left: BillRow, right: BillRow): BillRow {
  return {
    usage: addUsage(left.usage, right.usage),
    retried: addUsage(left.retried, right.retried),
    costs: right.costs.reduce(addCost, left.costs),
    unpriced_tokens: left.unpriced_tokens + right.unpriced_tokens,
    unmetered_calls: left.unmetered_calls + right.unmetered_calls,
  };
}

function addCost(costs: readonly Cost[], { amount, currency }: Cost): readonly Cost[] {
  const same = costs.find((cost) => cost.currency === currency);
  const sum = { amount: addAmounts(same?.amount ?? "0", amount), currency };
  return [...costs.filter((cost) => cost !== same), sum].sort((one, other) =>
    one.currency < other.currency ? -1 : 1,
  );
}

function billWith(rows: ReadonlyMap<string, BillRow>): Bill {
  const sorted = [...rows].sort(
    ([key, row], [otherKey, other]) =>
      other.usage.total_tokens - row.usage.total_tokens || (key < otherKey ? -1 : 1),
  );
  const list = sorted.map(([, row]) => row);
  return { rows: list, total: list.reduce(sumOfRows, emptyRow) };
}
