import { type BillRow, billOfTree } from "rivulet/protocol";
import { money, number } from "../state/format.ts";
import type { RunLog } from "../state/run-log.ts";
import { useLogView } from "../thread/context.ts";
import { FlameGraph } from "./flame.tsx";

const names = ["Agent", "Input", "Cached", "Output", "Reasoning", "Retried", "Cost"];

/** The usage of a run: its flame graph, and its bill by agent and model. */
export function UsageView({ log }: { readonly log: RunLog }) {
  const tree = useLogView(log, ({ tree }) => tree);
  const { rows, total } = billOfTree(tree);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a table that is wider than its place scrolls by keys
    <section className="prompt" tabIndex={0} aria-label="Usage">
      <FlameGraph log={log} />
      <table className="usage">
        <thead>
          <tr>
            {names.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.agent} ${row.model}`}>
              <th scope="row">
                {row.agent ?? "agent"} <small>{row.model ?? "unknown model"}</small>
              </th>
              <Numbers row={row} />
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">All</th>
            <Numbers row={total} />
          </tr>
        </tfoot>
      </table>
      {total.unmetered_calls > 0 && (
        <p className="none">The provider reported no tokens for {total.unmetered_calls} calls.</p>
      )}
    </section>
  );
}

function Numbers({ row }: { readonly row: BillRow }) {
  const { input_tokens, cached_input_tokens = 0, output_tokens, reasoning_tokens = 0 } = row.usage;
  const counts = [input_tokens, cached_input_tokens, output_tokens, reasoning_tokens];
  return [...counts, row.retried.total_tokens]
    .map(number)
    .concat(costIn(row))
    .map((text, index) => (
      <td key={index.toString()} className="num">
        {text}
      </td>
    ));
}

/** The cost of a row: an unknown price is not 0. */
function costIn({ costs, unpriced_tokens, unmetered_calls }: BillRow): string {
  const sums = costs.map(({ amount, currency }) => money(Number(amount), currency));
  const isKnown = unpriced_tokens + unmetered_calls === 0 && sums.length > 0;
  return [...sums, ...(isKnown ? [] : ["unknown"])].join(" + ");
}
