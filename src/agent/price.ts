import { RivuletError } from "../protocol/error.ts";
import type { Cost, Usage } from "../protocol/task.ts";
import { isRecord } from "./plain.ts";
import type { Money } from "./settings.ts";

/** What a model call costs. A price that says nothing to count would let a budget never be reached: it is an error. */
export function priceOf(
  price: (usage: Usage, model: string) => unknown,
  usage: Usage,
  model: string,
): Money {
  let said: unknown;
  try {
    said = price(usage, model);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw failed(`The price of a call of ${model} failed: ${reason}`, error);
  }
  if (isMoney(said)) return { amount: rounded(said.amount), currency: said.currency };
  throw failed(`The price of a call of ${model} is no amount of money.`);
}

/** A cost with more money; of decimals nothing is lost, however small. */
export function addCost(cost: Cost | undefined, { amount, currency }: Money): Cost {
  if (cost !== undefined && cost.currency !== currency) {
    throw failed(`Prices in ${cost.currency} and in ${currency} have no sum.`);
  }
  return { amount: sum(cost?.amount ?? "0", String(amount)), currency };
}

/** An amount as people write it: what binary fractions add to a decimal, such as 0.1 + 0.2, is beyond 12 digits. */
export function rounded(amount: number): number {
  return Number(amount.toPrecision(12));
}

function isMoney(value: unknown): value is Money {
  if (!isRecord(value)) return false;
  const { amount, currency } = value;
  const isAmount = typeof amount === "number" && Number.isFinite(amount) && amount >= 0;
  return isAmount && typeof currency === "string" && currency !== "";
}

function failed(message: string, cause?: unknown): RivuletError<"price_failed"> {
  return new RivuletError("price_failed", message, {
    ...(cause !== undefined && { cause }),
    hint: 'It is given at once, in one currency and for every model: { amount: 0.002, currency: "USD" }.',
  });
}

/** A number of units, each of them 10 to the power of -scale. */
interface Decimal {
  readonly units: bigint;
  readonly scale: number;
}

function sum(one: string, other: string): string {
  const a = read(one);
  const b = read(other);
  const scale = Math.max(a.scale, b.scale);
  return write({ units: unitsAt(a, scale) + unitsAt(b, scale), scale });
}

function read(text: string): Decimal {
  const [mantissa = "", exponent = "0"] = text.split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  const units = BigInt(whole + fraction);
  const scale = fraction.length - Number(exponent);
  return scale < 0 ? { units: units * 10n ** BigInt(-scale), scale: 0 } : { units, scale };
}

function unitsAt({ units, scale }: Decimal, wanted: number): bigint {
  return units * 10n ** BigInt(wanted - scale);
}

function write({ units, scale }: Decimal): string {
  const digits = units.toString().padStart(scale + 1, "0");
  const point = digits.length - scale;
  const fraction = digits.slice(point).replace(/0+$/, "");
  return fraction === "" ? digits.slice(0, point) : `${digits.slice(0, point)}.${fraction}`;
}
