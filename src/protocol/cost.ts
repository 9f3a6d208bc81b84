import { addUsage, noUsage } from "./select.ts";
import type { Cost, Usage } from "./task.ts";

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
  const digits = units.toString().padStart(scale + 1, "0");
  const point = digits.length - scale;
  const fraction = digits.slice(point).replace(/0+$/, "");
  return fraction === "" ? digits.slice(0, point) : `${digits.slice(0, point)}.${fraction}`;
}
