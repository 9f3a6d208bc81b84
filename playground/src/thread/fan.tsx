import { memo, useState } from "react";
import { isTerminal, type Tree, taskOf } from "rivulet/protocol";
import { Status } from "../icons.tsx";
import { type Shape, shapeNames, shapeOf } from "../state/agents.ts";
import { AgentThread } from "./agent-thread.tsx";
import { useLogView, useRunLog } from "./context.ts";
import { Windowed } from "./windowed.tsx";

/** More children than this are rows, not columns. */
const maxColumns = 2;
/** With more rows than this, they can be filtered by state. */
const fewRows = 6;

interface FanProps {
  readonly taskIds: readonly string[];
  readonly isBackground: boolean;
  /** True: the parent has continued. */
  readonly hasMore: boolean;
}

/** The agents that a parent has started at once: a branch of its current for each. */
export const Fan = memo(function Fan({ taskIds, isBackground, hasMore }: FanProps) {
  const log = useRunLog();
  const state = useLogView(log, ({ tree, healing }) =>
    fanState(tree, taskIds, healing?.status === "held"),
  );
  const isJoined = state === "done" && hasMore && !isBackground;
  const isMany = taskIds.length > maxColumns;
  const names = [
    ...["fan", state],
    taskIds.length === 2 && "two",
    isMany && "list",
    isBackground && "bgfan",
    isJoined && "joined",
  ].filter(Boolean);
  if (isMany)
    return (
      <div className={names.join(" ")}>
        <Many taskIds={taskIds} isJoined={isJoined} />
      </div>
    );
  return (
    <div className="fanbox">
      <div className={names.join(" ")}>
        {taskIds.map((id) => (
          <AgentThread key={id} taskId={id} isRow={isBackground} isJoined={isJoined}>
            {isJoined && <i className="jn" />}
          </AgentThread>
        ))}
      </div>
    </div>
  );
});

function fanState(tree: Tree, taskIds: readonly string[], isHeld: boolean): string {
  const tasks = taskIds.flatMap((id) => taskOf(tree, id) ?? []);
  if (tasks.every(({ status }) => isTerminal(status))) return "done";
  if (isHeld) return "held";
  const shapes = new Set(tasks.map((task) => shapeOf(task)));
  if (shapes.has("run") || shapes.has("queued")) return "live";
  return shapes.has("ask") ? "waiting" : "still";
}

/** Many children: a row each, in the order of their start, never sorted again. */
function Many({
  taskIds,
  isJoined,
}: {
  readonly taskIds: readonly string[];
  readonly isJoined: boolean;
}) {
  const log = useRunLog();
  const [filter, setFilter] = useState<Shape>();
  const counted = useLogView(log, ({ tree }) => countShapes(tree, taskIds));
  const counts = counted.split(" ").map((pair) => pair.split(":") as [Shape, string]);
  const shown =
    filter === undefined
      ? taskIds
      : taskIds.filter((id) => {
          const task = taskOf(log.getSnapshot().tree, id);
          return task && shapeOf(task) === filter;
        });
  return (
    <>
      {taskIds.length > fewRows && (
        <div className="chips" role="group" aria-label="Filter agents by state">
          <button
            type="button"
            className={filter === undefined ? "chip on" : "chip"}
            aria-pressed={filter === undefined}
            onClick={() => setFilter(undefined)}
          >
            All {taskIds.length}
          </button>
          {counts.map(([shape, count]) => (
            <button
              key={shape}
              type="button"
              className={filter === shape ? "chip on" : "chip"}
              aria-pressed={filter === shape}
              onClick={() => setFilter(filter === shape ? undefined : shape)}
            >
              <Status shape={shape} />
              {count} {shapeNames[shape]}
            </button>
          ))}
          <span className="by">In start order</span>
        </div>
      )}
      <div className={taskIds.length > fewRows ? "rows grid20" : "rows"}>
        <Windowed rows={shown} rowHeight={32}>
          {(id) => <AgentThread key={id} taskId={id} isRow isJoined={isJoined} />}
        </Windowed>
      </div>
    </>
  );
}

/** The filters keep their places, whatever state an agent reaches first. */
const chipOrder: readonly Shape[] = [
  ...(["run", "ask", "fail", "done", "idle", "queued", "part", "off", "hold"] as const),
];

function countShapes(tree: Tree, taskIds: readonly string[]): string {
  const counts = new Map<Shape, number>();
  for (const id of taskIds) {
    const task = taskOf(tree, id);
    if (task) counts.set(shapeOf(task), (counts.get(shapeOf(task)) ?? 0) + 1);
  }
  return chipOrder
    .filter((shape) => counts.has(shape))
    .map((shape) => `${shape}:${counts.get(shape)}`)
    .join(" ");
}
