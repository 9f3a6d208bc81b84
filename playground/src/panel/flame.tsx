import { type KeyboardEvent, useRef, useState } from "react";
import { billOfTree, taskOf } from "rivulet/protocol";
import { labelOf } from "../state/agents.ts";
import { type Flame, flameOf, type Measure, ownUse } from "../state/flame.ts";
import { duration, money, tokens } from "../state/format.ts";
import type { RunLog } from "../state/run-log.ts";
import { selectTask, useUi } from "../state/ui.ts";
import { extentOf } from "../stream/slider.tsx";
import { momentOf, useLogView, useNow } from "../thread/context.ts";

/** Where tokens, time and money went: each agent above the agents that it has started. */
export function FlameGraph({ log }: { readonly log: RunLog }) {
  const [chosen, setChosen] = useState("tokens");
  const element = useRef<HTMLDivElement>(null);
  const selected = useUi(({ selected }) => selected);
  const tree = useLogView(log, ({ tree }) => tree);
  const isLive = useLogView(log, ({ connection }) => connection.status === "open");
  const ticking = useNow(isLive && chosen === "time");
  const currencies = billOfTree(tree, { by: [] }).total.costs.map(({ currency }) => currency);
  const names = ["tokens", "time", ...currencies];
  const name = names.includes(chosen) ? chosen : "tokens";
  const measure: Measure = name === "tokens" || name === "time" ? name : { currency: name };
  const now = momentOf(log) ?? (ticking > 0 ? ticking : extentOf(log)[1]);
  const flames = flameOf(tree, ownUse(tree, measure, log.lanes, now));
  const current = flames.some(({ taskId }) => taskId === selected) ? selected : tree.rootId;
  const text = (total: number) =>
    measure === "tokens"
      ? `${tokens(total)} tokens`
      : measure === "time"
        ? duration(total)
        : money(total, measure.currency);

  function onKeyDown(event: KeyboardEvent): void {
    const next = neighbourOf(flames, current, event.key, (id) => taskOf(tree, id)?.parentTaskId);
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    selectTask(next);
    requestAnimationFrame(() =>
      element.current?.querySelector<HTMLElement>(`[data-flame="${CSS.escape(next)}"]`)?.focus(),
    );
  }

  return (
    <section aria-label="Flame graph">
      <div className="seg ink wide" role="group" aria-label="Measure of the flame graph">
        {names.map((one) => (
          <button
            key={one}
            type="button"
            className={one === name ? "on" : ""}
            aria-pressed={one === name}
            onClick={() => setChosen(one)}
          >
            {one === "tokens" ? "Tokens" : one === "time" ? "Time" : one}
          </button>
        ))}
      </div>
      {flames.length === 0 && <p className="none">Nothing has been used yet.</p>}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the buttons inside get the keys */}
      <div
        ref={element}
        className="flame"
        style={{ height: `${(Math.max(-1, ...flames.map(({ depth }) => depth)) + 1) * 24}px` }}
        onKeyDown={onKeyDown}
      >
        {flames.map(({ taskId, depth, from, size, total }) => (
          <button
            key={taskId}
            type="button"
            data-flame={taskId}
            tabIndex={taskId === current ? 0 : -1}
            className={taskId === selected ? "sel" : ""}
            aria-pressed={taskId === selected}
            aria-label={`${labelOf(tree, taskId)}: ${text(total)}, ${(size * 100).toFixed(0)} % of the run`}
            title={`${labelOf(tree, taskId)}: ${text(total)}`}
            style={{ left: `${from * 100}%`, width: `${size * 100}%`, top: `${depth * 24}px` }}
            onClick={() => selectTask(taskId)}
          >
            <b>{labelOf(tree, taskId)}</b> {text(total)}
          </button>
        ))}
      </div>
    </section>
  );
}

/** The task that an arrow key leads to: the parent, the first child, or the neighbour on the same level. */
function neighbourOf(
  flames: readonly Flame[],
  current: string | undefined,
  key: string,
  parentOf: (taskId: string) => string | undefined,
): string | undefined {
  const flame = flames.find(({ taskId }) => taskId === current);
  if (current === undefined || flame === undefined) return undefined;
  const level = flames.filter(({ depth }) => depth === flame.depth);
  const index = level.indexOf(flame);
  const keys: Readonly<Record<string, () => string | undefined>> = {
    ArrowUp: () => parentOf(current),
    ArrowDown: () => flames.find(({ taskId }) => parentOf(taskId) === current)?.taskId,
    ArrowLeft: () => level[index - 1]?.taskId,
    ArrowRight: () => level[index + 1]?.taskId,
  };
  return keys[key]?.();
}
