import type { Store } from "../contract/index.ts";
import { billedRecord, billSessions } from "../harness/index.ts";
import {
  addBills,
  type Bill,
  type BillKey,
  type BillOptions,
  type BillRow,
  billKeys,
  billOf,
  type Cost,
  listPricesDay,
  priceBy,
} from "../protocol/index.ts";
import { type Arguments, usageError } from "./arguments.ts";
import type { Console } from "./console.ts";
import type { Flags } from "./flags.ts";
import { findStored, openPriced } from "./stored.ts";
import { column, printable } from "./text.ts";

/** `rivulet cost`: what a task, a session or the whole store has used. */
export async function showCost({ flags, operands }: Arguments, console: Console): Promise<number> {
  const [id] = operands;
  const by = keysOf(flags);
  const days = { ...dayOf("from", flags.from), ...dayOf("to", flags.to) };
  const { store, prices } = await openPriced(flags, console);
  const options = { by, ...days, price: priceBy(prices) };
  const bill =
    id === undefined ? await billAll(store, flags, options) : await billOne(store, id, options);
  const lines = flags.json ? [JSON.stringify(bill)] : linesOf(bill, by);
  for (const line of lines) console.print(line);
  await store.close();
  return 0;
}

function keysOf({ by = "agent,model" }: Flags): readonly BillKey[] {
  const names = by.split(",").filter((name) => name !== "");
  const unknown = names.find((name) => !billKeys.includes(name as BillKey));
  if (unknown === undefined) return names as BillKey[];
  throw usageError(
    `--by has the unknown key ${JSON.stringify(unknown.slice(0, 60))}.`,
    `Use some of ${billKeys.join(",")}.`,
  );
}

function dayOf(name: "from" | "to", day: string | undefined): Pick<BillOptions, "from" | "to"> {
  if (day === undefined) return {};
  if (/^\d{4}-\d\d-\d\d$/.test(day) && !Number.isNaN(Date.parse(day))) return { [name]: day };
  throw usageError(
    `--${name} takes a day, got ${JSON.stringify(day.slice(0, 60))}.`,
    "Write 2026-11-19.",
  );
}

async function billAll(store: Store, { user }: Flags, options: BillOptions): Promise<Bill> {
  const users = user === undefined ? {} : { userId: user };
  const bills: Bill[] = [];
  for (let page = {}; ; ) {
    const { bill, next } = await billSessions(store, { ...users, ...page }, options);
    bills.push(bill);
    if (next === undefined) return addBills(bills);
    page = { before: next };
  }
}

/** The bill of a task and its subagents, or of a session. */
async function billOne(store: Store, id: string, options: BillOptions): Promise<Bill> {
  const task = await store.task(id);
  if (task === undefined) {
    const { sessionId } = await findStored(store, id);
    const records = await store.tasks({ conversation: sessionId });
    return billOf(records.map(billedRecord), options);
  }
  const records = await store.tasks({ rootTaskId: task.rootTaskId });
  const below = new Set([task.taskId]);
  for (const parent of below)
    for (const { taskId, parentTaskId } of records) if (parentTaskId === parent) below.add(taskId);
  const own = records.filter(({ taskId }) => below.has(taskId));
  return billOf(own.map(billedRecord), options);
}

function linesOf({ rows, total }: Bill, by: readonly BillKey[]): readonly string[] {
  if (rows.length === 0) return ["No tokens have been used."];
  const names = ["input", "cached", "output", "reasoning", "retried", "cost"];
  const cells = [
    [...by, ...names],
    ...rows.map((row) => [...by.map((key) => shown(row[key])), ...numbersOf(row)]),
    [...by.map((_, index) => (index === 0 ? "all" : "")), ...numbersOf(total)],
  ];
  const widths = names
    .concat(by)
    .map((_, at) => Math.max(...cells.map((row) => (row[at] ?? "").length)));
  const table = cells.map((row) =>
    row
      .map((cell, at) =>
        at < by.length ? column(cell, widths[at] ?? 0) : cell.padStart(widths[at] ?? 0),
      )
      .join("  ")
      .trimEnd(),
  );
  return [...table, ...notesOf(total)];
}

function shown(key: string | undefined): string {
  return key === undefined ? "-" : printable(key).replaceAll("\n", " ");
}

function numbersOf(row: BillRow): readonly string[] {
  const { input_tokens, cached_input_tokens = 0, output_tokens, reasoning_tokens = 0 } = row.usage;
  const counts = [input_tokens, cached_input_tokens, output_tokens, reasoning_tokens];
  return [...counts, row.retried.total_tokens]
    .map((count) => count.toLocaleString("en"))
    .concat(costIn(row));
}

function costIn({ costs, unpriced_tokens, unmetered_calls }: BillRow): string {
  const sum = costs.map(({ amount, currency }: Cost) => `${amount} ${currency}`).join(" + ");
  if (sum === "") return "unknown";
  return unpriced_tokens + unmetered_calls > 0 ? `${sum} + unknown` : sum;
}

function notesOf({
  usage,
  unpriced_tokens: unpriced,
  unmetered_calls: calls,
}: BillRow): readonly string[] {
  const all = usage.total_tokens;
  return [
    ...(unpriced > 0
      ? [
          `The price of ${unpriced.toLocaleString("en")} of ${all.toLocaleString("en")} tokens is unknown. Set \`prices\` in the config.`,
        ]
      : []),
    ...(calls > 0
      ? [`The provider reported no tokens for ${calls} interrupted or failed calls.`]
      : []),
    ...(unpriced < all
      ? [`Costs that no event tells are list prices of ${listPricesDay} or of the config.`]
      : []),
  ];
}
