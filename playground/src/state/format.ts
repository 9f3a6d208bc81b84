import type { Task } from "rivulet/protocol";

/** A duration: `0.6 s`, `38 s`, `1:24`, `2 h 05`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  const pad = (value: number) => String(Math.floor(value)).padStart(2, "0");
  if (minutes < 60) return `${minutes}:${pad(seconds % 60)}`;
  return `${Math.floor(minutes / 60)} h ${pad(minutes % 60)}`;
}

/** A count of tokens: `940`, `2.1k`, `1.2M`. */
export function tokens(count: number): string {
  if (count < 1000) return String(count);
  if (count < 1_000_000) return `${(count / 1000).toFixed(1)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

/** The tokens of a task; "" while none are known. */
export function tokensUsed({ usage }: Task): string {
  return usage && usage.total_tokens > 0 ? tokens(usage.total_tokens) : "";
}

/** The cost of tasks together, one sum for each currency; "" if no price is known. */
export function costOf(tasks: readonly Task[]): string {
  const sums = new Map<string, number>();
  for (const { cost } of tasks)
    if (cost) sums.set(cost.currency, (sums.get(cost.currency) ?? 0) + Number(cost.amount));
  return Array.from(sums, ([currency, amount]) => money(amount, currency)).join(" + ");
}

/** An amount of money: `0.0021 USD`, `1.20 EUR`. */
export function money(amount: number, currency: string): string {
  return `${amount < 0.01 ? amount.toFixed(4) : amount.toFixed(2)} ${currency}`;
}

const numberFormat = new Intl.NumberFormat("en");
export const number = (value: number): string => numberFormat.format(value);

/** A size of text: `27 lines`; a short line as it is. */
export function sizeOf(text: string): string {
  const lines = text.trimEnd().split("\n").length;
  return lines === 1 && text.length <= 60 ? text.trim() : plural(lines, "line");
}

export function bytes(size: number): string {
  if (size < 1024) return `${size} B`;
  if (size < 1024 * 1024) return `${(size / 1024).toFixed(1)} kB`;
  return `${(size / 1024 / 1024).toFixed(1)} MB`;
}

export function clock(ms: number): string {
  return new Date(ms).toLocaleTimeString("en", {
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  });
}

/** The heading of a day in the list of sessions. */
export function dayOf(ms: number, now = Date.now()): string {
  const day = (time: number) => new Date(time).setHours(0, 0, 0, 0);
  const days = Math.round((day(now) - day(ms)) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  return new Date(ms).toLocaleDateString("en", { day: "numeric", month: "long", year: "numeric" });
}

export function plural(count: number, noun: string): string {
  return `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
}
