import {
  type EvalCell,
  type EvalReport,
  type EvalSummary,
  isError,
  problemsOf,
} from "../testing/index.ts";
import { cutTo, printable, widthOf } from "./text.ts";

/** The matrix of a report: a row for each case, a column for each variant, and below them the means. */
export function matrixOf(
  { name, cells, variants, scorers, total }: EvalReport,
  columns: number,
): readonly string[] {
  const cases = [...new Set(cells.map((cell) => cell.case))];
  const numbers = Math.max(8, ...variants.map(({ variant }) => Math.min(20, widthOf(variant))));
  const room = columns - (numbers + 2) * variants.length;
  const names = [...cases, ...scorers, "tokens", name].map((text) => widthOf(printable(text)));
  const first = Math.max(8, Math.min(room, ...[Math.max(...names)]));
  const row = (title: string, values: readonly string[]) =>
    [
      fitted(title, first).padEnd(first),
      ...values.map((value) => `  ${fitted(value, numbers).padStart(numbers)}`),
    ].join("");
  const of = (value: (summary: EvalSummary) => string) => variants.map(value);
  const rule = "-".repeat(first + (numbers + 2) * variants.length);
  return [
    row(
      name,
      variants.map(({ variant }) => variant),
    ),
    rule,
    ...cases.map((one) =>
      row(
        one,
        variants.map(({ variant }) =>
          cellsText(cells.filter((cell) => cell.case === one && cell.variant === variant)),
        ),
      ),
    ),
    rule,
    ...(scorers.length > 1
      ? scorers.map((scorer) =>
          row(
            scorer,
            of(({ scores }) => shown(scores[scorer])),
          ),
        )
      : []),
    row(
      "score",
      of(({ score }) => shown(score)),
    ),
    row("cost", of(costText)),
    row(
      "tokens",
      of(({ usage }) => usage.total_tokens.toLocaleString("en")),
    ),
    row(
      "time",
      of(({ ms }) => `${(ms / 1_000).toFixed(1)} s`),
    ),
    ...(total.errors > 0
      ? [
          row(
            "errors",
            of(({ errors }) => String(errors)),
          ),
        ]
      : []),
    ...(total.notRun > 0
      ? [
          row(
            "not run",
            of(({ notRun }) => String(notRun)),
          ),
        ]
      : []),
  ];
}

function fitted(text: string, width: number): string {
  return cutTo(printable(text).replaceAll("\n", " "), width);
}

function cellsText(cells: readonly EvalCell[]): string {
  if (cells.some(isError)) return "error";
  if (cells.some(({ status }) => status === "not_run")) return "not run";
  const scores = cells.flatMap(({ score }) => score ?? []);
  return shown(scores.reduce((sum, score) => sum + score, 0) / scores.length);
}

function shown(score: number | undefined): string {
  return score === undefined ? "-" : score.toFixed(2);
}

function costText({ costs, unpriced_tokens }: EvalSummary): string {
  const sum = costs.map(({ amount, currency }) => `${amount} ${currency}`).join(" + ");
  if (sum === "") return "unknown";
  return unpriced_tokens > 0 ? `${sum} + ?` : sum;
}

/** The reasons why cells have no full score, with the run of each. */
export function problemLines({ cells }: EvalReport): readonly string[] {
  return cells
    .filter((cell) => isError(cell))
    .flatMap((cell) => [
      `${cell.variant} on ${cell.case}`,
      ...problemsOf(cell).map((line) => `  ${line}`),
    ])
    .map((line) => printable(line));
}

/** Reports in the format of JUnit: a suite for each variant of an eval, a test for each cell. */
export function junitOf(reports: readonly EvalReport[], failBelow: number): string {
  const suites = reports.flatMap((report) =>
    report.variants.map(({ variant }) => {
      const cells = report.cells.filter((cell) => cell.variant === variant);
      return { name: `${report.name} / ${variant}`, cells };
    }),
  );
  const isFailure = ({ score }: EvalCell) => score !== undefined && score < failBelow;
  const lines = suites.flatMap(({ name, cells }) => [
    `  <testsuite name="${escaped(name)}" tests="${cells.length}" failures="${cells.filter(isFailure).length}" errors="${cells.filter(isError).length}" skipped="${cells.filter(({ status }) => status === "not_run").length}" time="${seconds(cells)}">`,
    ...cells.map((cell) => testOf(name, cell, isFailure(cell))),
    "  </testsuite>",
  ]);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    "<testsuites>",
    ...lines,
    "</testsuites>",
    "",
  ].join("\n");
}

function testOf(suite: string, cell: EvalCell, isFailure: boolean): string {
  const name = cell.repeat > 1 ? `${cell.case} (${cell.repeat})` : cell.case;
  const problems = escaped(problemsOf(cell).join("\n"));
  const [message = ""] = problemsOf(cell);
  const body = isError(cell)
    ? `<error message="${escaped(message)}">${problems}</error>`
    : isFailure
      ? `<failure message="score ${shown(cell.score)}">${problems}</failure>`
      : cell.status === "not_run"
        ? `<skipped message="${escaped(cell.reason ?? "")}"/>`
        : "";
  return `    <testcase classname="${escaped(suite)}" name="${escaped(name)}" time="${seconds([cell])}">${body}</testcase>`;
}

function seconds(cells: readonly EvalCell[]): string {
  return (cells.reduce((sum, { ms }) => sum + ms, 0) / 1_000).toFixed(3);
}

const entities: Readonly<Record<string, string>> = {
  ...{ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;" },
};

/** Text in XML 1.0, which has no control characters and no lone surrogates. */
function escaped(text: string): string {
  return text
    .toWellFormed()
    .replace(/[^\P{Cc}\n\t]|[\ufffe\uffff]/gu, "\ufffd")
    .replace(/[&<>"\n]/g, (character) => entities[character] ?? character);
}
