import { subtreeUsage, taskOf } from "rivulet/protocol";
import { endOfRun } from "../state/agents.ts";
import { costOf, tokens } from "../state/format.ts";
import type { RunLog } from "../state/run-log.ts";
import { useLogView } from "../thread/context.ts";
import { Elapsed } from "../thread/elapsed.tsx";
import { useSummary } from "../top-bar.tsx";

/** The run in three numbers, or four if it cost something. */
export function Summary({ log }: { readonly log: RunLog }) {
  const { shape, text } = useSummary(log);
  const isHeld = shape === "hold";
  const total = useLogView(log, ({ tree }) =>
    tree.rootId === undefined ? 0 : subtreeUsage(tree, tree.rootId).total_tokens,
  );
  const cost = useLogView(log, ({ tree }) => costOf(Object.values(tree.tasks)));
  const end = useLogView(log, ({ tree }) => endOfRun(tree));
  const start = useLogView(log, ({ tree }) => taskOf(tree, tree.rootId)?.createdAt);
  const match = /^(\d+(?: of \d+)?) (.*)$/.exec(text);
  return (
    <div className="sum">
      <div>
        <b>{isHeld ? "held" : match?.[1]}</b>
        <span>{isHeld ? "agents" : match?.[2]}</span>
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
      {cost !== "" && (
        <div>
          <b>{cost}</b>
          <span>cost</span>
        </div>
      )}
    </div>
  );
}
