import { addBills, type BillRow, type Cost, type Usage } from "../../protocol/index.ts";

/** The score of a cell by one scorer. */
export type CellScore =
  | { readonly score: number; readonly why?: string; readonly error?: never }
  | { readonly score?: never; readonly error: string };

/** One case, answered once by one variant. */
export interface EvalCell {
  readonly case: string;
  readonly variant: string;
  /** From 1. */
  readonly repeat: number;
  /** `failed`: the run has no reply to score. `not_run`: the eval stopped before it. */
  readonly status: "scored" | "failed" | "not_run";
  /** Why the cell failed or did not run. */
  readonly reason?: string;
  /** The run, which is stored; absent if the cell did not run. */
  readonly taskId?: string;
  readonly sessionId?: string;
  /** The reply. */
  readonly text?: string;
  readonly scores: Readonly<Record<string, CellScore>>;
  /** The mean of `scores`; absent if one of them is an error, or the cell was not scored. */
  readonly score?: number;
  /** The tokens and money of the run and its descendants, attempts that failed included. */
  readonly bill: BillRow;
  /** The tokens and money of judges. */
  readonly judging: BillRow;
  /** How long the run worked. */
  readonly ms: number;
}

/** All cells of one variant, or of all. */
export interface EvalSummary {
  readonly cells: number;
  readonly scored: number;
  /** Cells that failed or with a scorer that did. */
  readonly errors: number;
  readonly notRun: number;
  /** The mean of the cells that have a score; absent if none has. */
  readonly score?: number;
  /** The means of the scorers. */
  readonly scores: Readonly<Record<string, number>>;
  /** Runs and judges. */
  readonly usage: Usage;
  /** In each currency; empty if no price is known. */
  readonly costs: readonly Cost[];
  readonly unpriced_tokens: number;
  readonly ms: number;
}

/** The result of an eval. */
export interface EvalReport {
  readonly name: string;
  readonly scorers: readonly string[];
  readonly variants: readonly (EvalSummary & { readonly variant: string })[];
  readonly total: EvalSummary;
  /** In the order of cases, then of repeats, then of variants. */
  readonly cells: readonly EvalCell[];
}

/** Whether a cell has no score because something went wrong. */
export function isError({ status, score }: EvalCell): boolean {
  return status === "failed" || (status === "scored" && score === undefined);
}

/** The mean; undefined for no values. */
export function meanOf(values: readonly number[]): number | undefined {
  if (values.length === 0) return undefined;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return Number(mean.toFixed(6)); // the sum of floats depends on their order
}

/** Adds up rows of bills. */
export function sumOf(rows: readonly BillRow[]): BillRow {
  return addBills(rows.map((total) => ({ rows: [total], total }))).total;
}

/** Adds up the cells of a report. */
export function reportOf(
  name: string,
  scorers: readonly string[],
  cells: readonly EvalCell[],
): EvalReport {
  const names = [...new Set(cells.map(({ variant }) => variant))];
  const variants = names.map((variant) => ({
    variant,
    ...summaryOf(
      scorers,
      cells.filter((cell) => cell.variant === variant),
    ),
  }));
  return { name, scorers, variants, total: summaryOf(scorers, cells), cells };
}

function summaryOf(scorers: readonly string[], cells: readonly EvalCell[]): EvalSummary {
  const score = meanOf(cells.flatMap((cell) => cell.score ?? []));
  const total = sumOf(cells.flatMap(({ bill, judging }) => [bill, judging]));
  const means = scorers.flatMap((scorer) => {
    const mean = meanOf(cells.flatMap(({ scores }) => scores[scorer]?.score ?? []));
    return mean === undefined ? [] : [[scorer, mean] as const];
  });
  return {
    cells: cells.length,
    scored: cells.filter((cell) => cell.score !== undefined).length,
    errors: cells.filter(isError).length,
    notRun: cells.filter(({ status }) => status === "not_run").length,
    ...(score !== undefined && { score }),
    scores: Object.fromEntries(means),
    usage: total.usage,
    costs: total.costs,
    unpriced_tokens: total.unpriced_tokens,
    ms: cells.reduce((sum, { ms }) => sum + ms, 0),
  };
}

/** The reasons why a cell has no full score, one line each. */
export function problemsOf({ status, reason, scores, text, taskId }: EvalCell): readonly string[] {
  const lines = Object.entries(scores).flatMap(([scorer, given]) => {
    if (given.score === 1) return [];
    return [
      `${scorer}: ${given.error ?? [given.score, given.why].filter((part) => part !== undefined).join(", ")}`,
    ];
  });
  return [
    ...(status === "scored" ? [] : [`${status}: ${reason}`]),
    ...lines,
    ...(text === undefined ? [] : [`reply: ${text.slice(0, 500)}`]),
    ...(taskId === undefined ? [] : [`run: ${taskId}`]),
  ];
}
