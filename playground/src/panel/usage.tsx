import { addUsage, type Task, type Usage } from "rivulet/protocol";
import { labelOf } from "../state/agents.ts";
import { number } from "../state/format.ts";
import type { RunLog } from "../state/run-log.ts";
import { selectTask, useUi } from "../state/ui.ts";
import { costText } from "../stream/dock.tsx";
import { useLogView } from "../thread/context.ts";

const none: Usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };

/** The tokens and the cost of each agent, and of all. */
export function UsageTable({ log }: { readonly log: RunLog }) {
  const tasks = useLogView(log, ({ tree }) => tree.tasks);
  const selected = useUi(({ selected }) => selected);
  const { tree } = log.getSnapshot();
  const all = Object.values(tasks);
  const total = all.reduce((sum, { usage = none }) => addUsage(sum, usage), none);
  const cost = all.reduce((sum, task) => sum + Number(task.cost?.amount ?? 0), 0);
  return (
    <div className="prompt">
      <table className="usage">
        <thead>
          <tr>
            {["Agent", "Input", "Cached", "Output", "Reasoning", "Cost"].map((name) => (
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
              <Numbers usage={task.usage ?? none} cost={costOf(task)} />
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">All</th>
            <Numbers usage={total} cost={cost} />
          </tr>
        </tfoot>
      </table>
    </div>
  );
}

function costOf({ cost }: Task): number {
  return Number(cost?.amount ?? 0);
}

function Numbers({ usage, cost }: { readonly usage: Usage; readonly cost: number }) {
  const { input_tokens, cached_input_tokens = 0, output_tokens, reasoning_tokens = 0 } = usage;
  return [input_tokens, cached_input_tokens, output_tokens, reasoning_tokens]
    .map(number)
    .concat(costText(String(cost)))
    .map((text, index) => (
      <td key={index.toString()} className="num">
        {text}
      </td>
    ));
}
