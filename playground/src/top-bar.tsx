import { isTerminal, taskOf, textOf } from "rivulet/protocol";
import { Icon, Status } from "./icons.tsx";
import { type Shape, shapeOf } from "./state/agents.ts";
import { useNodes } from "./state/nodes.ts";
import type { LogSnapshot, RunLog } from "./state/run-log.ts";
import { forkName, fork as forkSession, useLog, useSessions } from "./state/sessions.ts";
import { setUi, toggleAll, useUi } from "./state/ui.ts";
import { useLogView } from "./thread/context.ts";

/** The name of the run, and what to do with all of it. */
export function TopBar() {
  const log = useLog();
  const turns = useSessions(({ open }) => open.turns.length);
  const file = useSessions(({ open }) => open.file);
  const isOperator = useSessions((all) => all.isOperator);
  const fork = useSessions((all) => forkName(all, all.open.id));
  // The first question of a fork is that of the run before it.
  const title = useSessions(
    ({ open: { earlier, copied, turns } }) =>
      (earlier[0] ?? turns[0])?.input ?? (copied[0] ? textOf(copied[0].content) : "New run"),
  );
  const allFolded = useUi(({ allFolded }) => allFolded);
  return (
    <div className="top">
      <button
        type="button"
        className="icon only-s"
        aria-label="Runs"
        onClick={() => setUi({ drawer: "rail" })}
      >
        <Icon name="menu" />
      </button>
      <h1 className="crumb">
        <b>{title.slice(0, 80) || (file ?? "A run")}</b>
        {log && <span className="hide-s">{file ? "recorded" : `turn ${turns}`}</span>}
        {fork && <span className="hide-s">{fork}</span>}
        {isOperator && log?.run && <RunsOn log={log} />}
      </h1>
      <span className="grow" />
      {log && <RunningButton log={log} />}
      {log && (
        <button type="button" className="btn quiet hide-s" onClick={toggleAll}>
          <Icon name="collapse" /> {allFolded ? "Unfold all" : "Fold all"} <kbd>⇧f</kbd>
        </button>
      )}
      {log?.run && <ForkButton log={log} />}
    </div>
  );
}

function useIsOver(log: RunLog): boolean {
  return useLogView(log, ({ tree }) => {
    const root = tree.rootId === undefined ? undefined : tree.tasks[tree.rootId];
    return root !== undefined && isTerminal(root.status);
  });
}

/** Which process runs the session, where there are several. */
function RunsOn({ log }: { readonly log: RunLog }) {
  return useIsOver(log) ? null : <NodeName />;
}

function NodeName() {
  const id = useSessions(({ open }) => open.id);
  const live = useNodes()?.nodes.filter(({ is_live }) => is_live) ?? [];
  const node = live.find(({ sessions }) => id !== undefined && sessions.includes(id));
  if (node === undefined || live.length < 2) return null;
  return <span className="hide-s">on {node.name}</span>;
}

function ForkButton({ log }: { readonly log: RunLog }) {
  const isOver = useIsOver(log);
  return (
    <button
      type="button"
      className="btn quiet hide-s"
      disabled={!isOver}
      title={isOver ? "Continue from here in a new session" : "Fork when the turn has ended"}
      onClick={() => void forkSession(log.taskId)}
    >
      <Icon name="fork" /> Fork
    </button>
  );
}

/** A run in one shape and a few words. */
export interface RunSummary {
  readonly shape: Shape;
  readonly text: string;
}

/** Counts the agents of a run by what matters: those that wait for a person first, then how the run ended. */
function summaryOf({ tree, healing }: LogSnapshot): string {
  const shapes = Object.values(tree.tasks).map((task) => shapeOf(task));
  const all = shapes.length;
  const count = (wanted: Shape) => shapes.filter((shape) => shape === wanted).length;
  const root = taskOf(tree, tree.rootId);
  if (healing?.status === "held") return `hold:${all} held`;
  const asking = count("ask");
  if (asking > 0) return `ask:${asking} of ${all} ${asking === 1 ? "waits" : "wait"} for you`;
  const running = count("run");
  if (running > 0) return `run:${running} of ${all} running`;
  return `${root ? shapeOf(root) : "queued"}:${all} ${all === 1 ? "agent" : "agents"}`;
}

export function useSummary(log: RunLog): RunSummary {
  const [shape, text] = useLogView(log, summaryOf).split(":") as [Shape, string];
  return { shape, text };
}

function RunningButton({ log }: { readonly log: RunLog }) {
  const { shape, text } = useSummary(log);
  return (
    <button type="button" className="btn only-s" onClick={() => setUi({ drawer: "panel" })}>
      <Status shape={shape} /> {shape === "ask" ? text.replace(/ of \d+| for you/g, "") : text}
    </button>
  );
}
