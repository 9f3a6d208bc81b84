import { type KeyboardEvent, memo, useMemo, useRef, useState } from "react";
import { isTerminal, type Tree, taskOf } from "rivulet/protocol";
import { useTask } from "rivulet/react";
import { Status } from "../icons.tsx";
import { labelOf, lastWords, type Shape, shapeNames, shapeOf } from "../state/agents.ts";
import { tokens, tokensUsed } from "../state/format.ts";
import type { RunLog } from "../state/run-log.ts";
import { setUi, useUi } from "../state/ui.ts";
import { openTask } from "../stream/dock.tsx";
import { useLogView } from "../thread/context.ts";
import { Elapsed } from "../thread/elapsed.tsx";
import { Windowed } from "../thread/windowed.tsx";

/** Neighbours beyond this many siblings are grouped. */
const maxSiblings = 12;
/** Deeper agents are indented no further. */
const maxIndent = 8;

/** A row of the tree: an agent, or neighbours that have nothing to say. */
type Node =
  | {
      readonly kind: "task";
      readonly id: string;
      readonly depth: number;
      readonly hasChildren: boolean;
      /** The levels whose current passes this row on its way to a later agent. */
      readonly guides: readonly number[];
    }
  | {
      readonly kind: "group";
      readonly id: string;
      readonly depth: number;
      readonly ids: readonly string[];
      readonly guides: readonly number[];
    };

/** The agents of a run, to any depth. */
export function TreeView({ log }: { readonly log: RunLog }) {
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const element = useRef<HTMLDivElement>(null);
  const selected = useUi(({ selected }) => selected);
  // The tree changes its form only when a task comes or leaves a group.
  const form = useLogView(log, ({ tree }) => formOf(tree));
  // biome-ignore lint/correctness/useExhaustiveDependencies: the form stands for the tree
  const nodes = useMemo(
    () => nodesOf(log.getSnapshot().tree, closed, opened),
    [log, form, closed, opened],
  );
  const current = nodes.some(({ id }) => id === selected) ? selected : nodes[0]?.id;

  function toggle(node: Node, isOpen: boolean): void {
    const [set, ids] = node.kind === "group" ? [setOpened, opened] : [setClosed, closed];
    const next = new Set(ids);
    if (node.kind === "group" ? isOpen : !isOpen) next.add(node.id);
    else next.delete(node.id);
    set(next);
  }

  function onKeyDown(event: KeyboardEvent): void {
    const index = nodes.findIndex(({ id }) => id === current);
    const node = nodes[index];
    if (node === undefined) return;
    const select = (next: Node | undefined) => {
      if (next === undefined) return;
      if (next.kind === "task") openTask(log, next.id);
      else setUi({ selected: next.id });
      requestAnimationFrame(() => {
        element.current
          ?.querySelector<HTMLElement>(`[data-node="${CSS.escape(next.id)}"]`)
          ?.focus();
      });
    };
    const parent = nodes.slice(0, index).findLast(({ depth }) => depth < node.depth);
    const isClosed = node.kind === "group" || closed.has(node.id);
    const keys: Record<string, () => void> = {
      ArrowDown: () => select(nodes[index + 1]),
      ArrowUp: () => select(nodes[index - 1]),
      ArrowRight: () => (isClosed ? toggle(node, true) : select(nodes[index + 1])),
      ArrowLeft: () =>
        !isClosed && "hasChildren" in node && node.hasChildren
          ? toggle(node, false)
          : select(parent),
      Home: () => select(nodes[0]),
      End: () => select(nodes.at(-1)),
      Enter: () => select(node),
    };
    const act = keys[event.key];
    if (act === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  return (
    <div ref={element} className="tree" role="tree" aria-label="Agents" onKeyDown={onKeyDown}>
      <Windowed rows={nodes} rowHeight={48} reveal={nodes.findIndex(({ id }) => id === current)}>
        {(node) =>
          node.kind === "task" ? (
            <TaskNode
              key={node.id}
              log={log}
              id={node.id}
              depth={node.depth}
              guides={node.guides.join(" ")}
              isOpen={node.hasChildren ? !closed.has(node.id) : undefined}
              isCurrent={node.id === current}
              isSelected={node.id === selected}
            />
          ) : (
            <GroupNode key={node.id} log={log} node={node} onOpen={() => toggle(node, true)} />
          )
        }
      </Windowed>
    </div>
  );
}

/** Text that changes when the rows of the tree do. */
function formOf(tree: Tree): string {
  const { tasks } = tree;
  let form = "";
  for (const id in tasks) {
    const task = tasks[id];
    if (task === undefined) continue;
    form += `${task.children.length}`;
    if (task.children.length > maxSiblings)
      for (const child of task.children) form += isLoud(tree, child) ? "!" : ".";
  }
  return form;
}

/** Whether an agent must not disappear in a group. */
function isLoud(tree: Tree, id: string): boolean {
  const task = taskOf(tree, id);
  if (task === undefined) return false;
  const shape = shapeOf(task);
  return shape === "ask" || shape === "fail" || task.children.length > 0;
}

function nodesOf(
  tree: Tree,
  closed: ReadonlySet<string>,
  opened: ReadonlySet<string>,
): readonly Node[] {
  const nodes: (Node & { guides: number[] })[] = [];
  const add = (id: string, depth: number) => {
    const children = taskOf(tree, id)?.children ?? [];
    nodes.push({ kind: "task", id, depth, hasChildren: children.length > 0, guides: [] });
    if (closed.has(id)) return;
    const isGrouped = children.length > maxSiblings;
    let group: string[] = [];
    const end = () => {
      const [first] = group;
      if (first === undefined) return;
      const groupId = `group ${first}`;
      if (group.length < 3 || opened.has(groupId)) for (const one of group) add(one, depth + 1);
      else nodes.push({ kind: "group", id: groupId, depth: depth + 1, ids: group, guides: [] });
      group = [];
    };
    for (const child of children) {
      if (isGrouped && !isLoud(tree, child)) group.push(child);
      else {
        end();
        add(child, depth + 1);
      }
    }
    end();
  };
  if (tree.rootId !== undefined) add(tree.rootId, 0);
  // From the last row up: a level goes on if a later row hangs on it.
  const open = new Set<number>();
  for (const node of nodes.toReversed()) {
    for (const level of open) if (level > node.depth) open.delete(level);
    node.guides = [...open];
    open.add(node.depth);
  }
  return nodes;
}

interface NodeProps {
  readonly log: RunLog;
  readonly id: string;
  readonly depth: number;
  readonly guides: string;
  readonly isOpen: boolean | undefined;
  readonly isCurrent: boolean;
  readonly isSelected: boolean;
}

const TaskNode = memo(function TaskNode(props: NodeProps) {
  const { log, id, depth, guides, isOpen, isCurrent, isSelected } = props;
  const task = useTask(log, id);
  const isHeld = useLogView(log, ({ healing }) => healing?.status === "held");
  if (task === undefined) return null;
  const { tree } = log.getSnapshot();
  const shape = shapeOf(task, isHeld);
  const words = lastWords(tree, task);
  const isLive = shapeOf(task) === "run";
  // The current of its parent goes on to the agents below it.
  const dashed = guides.split(" ").includes(String(depth)) ? "el dashed passed" : "el dashed";
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree handles the keys
    <div
      role="treeitem"
      data-node={id}
      tabIndex={isCurrent ? 0 : -1}
      aria-level={depth + 1}
      aria-selected={isSelected}
      aria-expanded={isOpen}
      className={isSelected ? "node sel" : "node"}
      style={{ "--d": Math.min(depth, maxIndent) } as React.CSSProperties}
      onClick={() => openTask(log, id)}
    >
      <Guides levels={guides} />
      {depth > 0 && <i className={task.mode === "background" ? dashed : "el"} />}
      <Status shape={shape} />
      <span className="who">
        <b>{labelOf(tree, id)}</b>
        {task.mode === "background" && <span className="tag dash">background</span>}
        {depth > maxIndent && <span className="tag">depth {depth}</span>}
      </span>
      <span className="t">
        <Elapsed
          from={task.createdAt}
          to={task.completedAt ?? (isTerminal(task.status) ? task.createdAt : undefined)}
        />
      </span>
      <span className={isLive && words.length > 40 ? "last over" : "last"}>
        <span>{words || shapeNames[shape]}</span>
      </span>
      <span className="tok num">{tokensUsed(task)}</span>
    </div>
  );
});

/** The currents of the agents above that go on below this row. */
function Guides({ levels }: { readonly levels: string }) {
  return levels
    .split(" ")
    .filter((level) => level !== "" && level !== "0" && Number(level) <= maxIndent)
    .map((level) => (
      <i key={level} className="ln" style={{ "--l": Number(level) } as React.CSSProperties} />
    ));
}

interface GroupProps {
  readonly log: RunLog;
  readonly node: Node & { kind: "group" };
  readonly onOpen: () => void;
}

function GroupNode({ log, node, onOpen }: GroupProps) {
  const { ids, depth, id } = node;
  const counted = useLogView(log, ({ tree }) => {
    const counts = new Map<Shape, number>();
    for (const one of ids) {
      const task = taskOf(tree, one);
      const shape = task ? shapeOf(task) : "queued";
      counts.set(shape, (counts.get(shape) ?? 0) + 1);
    }
    return Array.from(counts, ([shape, count]) => `${count} ${shapeNames[shape]}`).join(", ");
  });
  const total = useLogView(log, ({ tree }) =>
    ids.reduce((sum, one) => sum + (taskOf(tree, one)?.usage?.total_tokens ?? 0), 0),
  );
  const { tree } = log.getSnapshot();
  const first = labelOf(tree, ids[0] ?? "");
  const lastNumber = /\d+$/.exec(labelOf(tree, ids.at(-1) ?? ""))?.[0];
  const isRunning = counted.includes("running");
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree handles the keys
    <div
      role="treeitem"
      data-node={id}
      tabIndex={-1}
      aria-level={depth + 1}
      aria-expanded={false}
      aria-selected={false}
      className="node"
      style={{ "--d": Math.min(depth, maxIndent) } as React.CSSProperties}
      onClick={onOpen}
    >
      <Guides levels={node.guides.join(" ")} />
      <i className="el" />
      <Status shape={isRunning ? "run" : "done"} />
      <span className="who">
        <b>
          {first}
          {lastNumber && ` to ${lastNumber}`}
        </b>
      </span>
      <span className="t">{ids.length} agents</span>
      <span className="last">
        <span>{counted}</span>
      </span>
      <span className="tok num">{total > 0 && tokens(total)}</span>
    </div>
  );
}
