import { isTerminal, subtreeUsage, taskOf } from "rivulet/protocol";
import { tokens } from "../state/format.ts";
import type { RunLog } from "../state/run-log.ts";
import { costText } from "../stream/dock.tsx";
import { useLogView } from "../thread/context.ts";
import { Elapsed } from "../thread/elapsed.tsx";
import { summaryOf } from "../top-bar.tsx";

/** The run in four numbers. */
export function Summary({ log }: { readonly log: RunLog }) {
  const [, text = ""] = useLogView(log, summaryOf).split(":");
  const held = useLogView(log, ({ healing }) => healing?.status === "held");
  const total = useLogView(log, ({ tree }) =>
    tree.rootId === undefined ? 0 : subtreeUsage(tree, tree.rootId).total_tokens,
  );
  const cost = useLogView(log, ({ tree }) =>
    String(
      Object.values(tree.tasks).reduce((sum, task) => sum + Number(task.cost?.amount ?? 0), 0),
    ),
  );
  const end = useLogView(log, ({ tree }) => {
    const tasks = Object.values(tree.tasks);
    const isOver = tasks.length > 0 && tasks.every(({ status }) => isTerminal(status));
    return isOver ? Math.max(...tasks.map(({ completedAt = 0 }) => completedAt)) : undefined;
  });
  const start = useLogView(log, ({ tree }) => taskOf(tree, tree.rootId)?.createdAt);
  const match = /^(\d+(?: of \d+)?) (.*)$/.exec(text);
  return (
    <div className="sum">
      <div>
        <b>{held ? "held" : match?.[1]}</b>
        <span>{held ? "agents" : match?.[2]}</span>
      </div>
      <div>
        <b>
          <Elapsed from={start} to={end} />
        </b>
        <span>elapsed</span>
      </div>
      <div>
        <b>{tokens(total)}</b>
        <span>tokens</span>
      </div>
      <div>
        <b>{costText(cost)}</b>
        <span>cost</span>
      </div>
    </div>
  );
}
