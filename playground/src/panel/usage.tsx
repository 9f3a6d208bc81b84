import { addUsage, type Usage } from "rivulet/protocol";
import { labelOf } from "../state/agents.ts";
import { costOf, costText, number } from "../state/format.ts";
import type { RunLog } from "../state/run-log.ts";
import { selectTask, useUi } from "../state/ui.ts";
import { useLogView } from "../thread/context.ts";

const none: Usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };

/** The tokens of each agent and of all, and the cost where it is known. */
export function UsageTable({ log }: { readonly log: RunLog }) {
  const tasks = useLogView(log, ({ tree }) => tree.tasks);
  const selected = useUi(({ selected }) => selected);
  const { tree } = log.getSnapshot();
  const all = Object.values(tasks);
  const total = all.reduce((sum, { usage = none }) => addUsage(sum, usage), none);
  const hasCost = costOf(all) > 0;
  const names = ["Agent", "Input", "Cached", "Output", "Reasoning", ...(hasCost ? ["Cost"] : [])];
  return (
    <div className="prompt">
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
          {all.map((task) => (
            <tr key={task.id} className={task.id === selected ? "sel" : ""}>
              <th scope="row">
                <button type="button" className="link" onClick={() => selectTask(task.id)}>
                  {labelOf(tree, task.id)}
                </button>
              </th>
              <Numbers usage={task.usage ?? none} cost={hasCost ? costOf([task]) : undefined} />
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">All</th>
            <Numbers usage={total} cost={hasCost ? costOf(all) : undefined} />
          </tr>
        </tfoot>
      </table>
    </div>
  );
}

interface NumbersProps {
  readonly usage: Usage;
  readonly cost: number | undefined;
}

function Numbers({ usage, cost }: NumbersProps) {
  const { input_tokens, cached_input_tokens = 0, output_tokens, reasoning_tokens = 0 } = usage;
  return [input_tokens, cached_input_tokens, output_tokens, reasoning_tokens]
    .map(number)
    .concat(cost === undefined ? [] : costText(cost))
    .map((text, index) => (
      <td key={index.toString()} className="num">
        {text}
      </td>
    ));
}
