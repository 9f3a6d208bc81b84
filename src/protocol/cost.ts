import { addUsage, noUsage } from "./select.ts";
import type { Cost, ModelUsage, Usage } from "./task.ts";

/** The sum of what several tasks have used; without a cost if their prices are in several currencies. */
export function sumOf(parts: readonly { readonly usage?: Usage; readonly cost?: Cost }[]): {
  readonly usage: Usage;
  readonly cost?: Cost;
} {
  const costs = parts.flatMap(({ cost }) => cost ?? []);
  const [first] = costs;
  const isOneCurrency = first && costs.every(({ currency }) => currency === first.currency);
  return {
    usage: parts.reduce((total, { usage = noUsage }) => addUsage(total, usage), noUsage),
    ...(isOneCurrency && {
      cost: { ...first, amount: costs.map(({ amount }) => amount).reduce(addAmounts) },
    }),
  };
}

/** The amount of a cost as a number; 0 without one. */
export function amountOf(cost: Cost | undefined): number {
  return Number(cost?.amount ?? 0) || 0;
}

/** Adds a share to others: to the one that it differs from in numbers only, or as a new one. */
export function addShare(shares: readonly ModelUsage[], share: ModelUsage): readonly ModelUsage[] {
  const key = keyOf(share);
  const same = shares.find((other) => keyOf(other) === key);
  if (same === undefined) return [...shares, share];
  const { cost, unmetered = 0 } = same;
  const sum: ModelUsage = {
    ...same,
    ...addUsage(usageOfShare(same), usageOfShare(share)),
    ...((unmetered || share.unmetered) && { unmetered: unmetered + (share.unmetered ?? 0) }),
    ...(cost &&
      share.cost && { cost: { ...cost, amount: addAmounts(cost.amount, share.cost.amount) } }),
  };
  return shares.map((other) => (other === same ? sum : other));
}

function keyOf({ provider, model, day, retried, cost }: ModelUsage): string {
  return JSON.stringify([provider, model, day, retried, cost?.currency]);
}

/** The tokens of a share. */
export function usageOfShare(share: ModelUsage): Usage {
  const { input_tokens, output_tokens, cached_input_tokens: cached } = share;
  const { total_tokens = input_tokens + output_tokens } = share;
  const { cache_write_tokens: written, reasoning_tokens: reasoning } = share;
  return {
    ...{ input_tokens, output_tokens, total_tokens },
    ...(cached !== undefined && { cached_input_tokens: cached }),
    ...(written !== undefined && { cache_write_tokens: written }),
    ...(reasoning !== undefined && { reasoning_tokens: reasoning }),
  };
}

/** The day of a time in milliseconds, in UTC; that of 0 for a time that no calendar has. */
export function dayOf(time: number): string {
  return new Date(Math.abs(time) <= 8.64e15 ? time : 0).toISOString().slice(0, -14);
}

interface Decimal {
  readonly units: bigint;
  readonly scale: number;
}

/** Adds two amounts, as exact decimals. */
export function addAmounts(a: string, b: string): string {
  const left = parseDecimal(a);
  const right = parseDecimal(b);
  const scale = Math.max(left.scale, right.scale);
  return formatDecimal({ units: unitsAt(left, scale) + unitsAt(right, scale), scale });
}

function parseDecimal(text: string): Decimal {
  const [mantissa = "", exponent = "0"] = text.split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  const units = BigInt(whole + fraction);
  const scale = fraction.length - Number(exponent);
  return scale < 0 ? { units: units * 10n ** BigInt(-scale), scale: 0 } : { units, scale };
}

function unitsAt({ units, scale }: Decimal, wanted: number): bigint {
  return units * 10n ** BigInt(wanted - scale);
}

function formatDecimal({ units, scale }: Decimal): string {
  if (units < 0n) return `-${formatDecimal({ units: -units, scale })}`;
  const digits = units.toString().padStart(scale + 1, "0");
  const point = digits.length - scale;
  const fraction = digits.slice(point).replace(/0+$/, "");
  return fraction === "" ? digits.slice(0, point) : `${digits.slice(0, point)}.${fraction}`;
}
