import { isTerminal } from "rivulet/protocol";
import { Icon, Status } from "./icons.tsx";
import { shapeOf } from "./state/agents.ts";
import type { LogSnapshot, RunLog } from "./state/run-log.ts";
import { fork, useLog, useSessions } from "./state/sessions.ts";
import { setUi, toggleAll, useUi } from "./state/ui.ts";
import { useLogView } from "./thread/context.ts";

/** The name of the run, and what to do with all of it. */
export function TopBar() {
  const log = useLog();
  const turns = useSessions(({ open }) => open.turns.length);
  const file = useSessions(({ open }) => open.file);
  const forkedFrom = useSessions(({ open }) => open.forkedFrom);
  const title = useSessions(({ open }) => open.turns[0]?.input ?? "");
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
        <b>{log === undefined ? "New run" : title.slice(0, 80) || (file ?? "A run")}</b>
        {log && <span className="hide-s">{file ? "recorded" : `turn ${turns}`}</span>}
        {forkedFrom && <span className="hide-s">fork</span>}
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

function ForkButton({ log }: { readonly log: RunLog }) {
  const isOver = useLogView(log, ({ tree }) => {
    const root = tree.rootId === undefined ? undefined : tree.tasks[tree.rootId];
    return root !== undefined && isTerminal(root.status);
  });
  return (
    <button
      type="button"
      className="btn quiet hide-s"
      disabled={!isOver}
      title={isOver ? "Continue from here in a new session" : "Fork when the turn has ended"}
      onClick={() => void fork(log.taskId)}
    >
      <Icon name="fork" /> Fork
    </button>
  );
}

/** Counts the agents of a run by what matters: those that wait for a person first. */
export function summaryOf({ tree }: LogSnapshot): string {
  const shapes = Object.values(tree.tasks).map((task) => shapeOf(task));
  const asking = shapes.filter((shape) => shape === "ask").length;
  if (asking > 0)
    return `ask:${asking} of ${shapes.length} ${asking === 1 ? "waits" : "wait"} for you`;
  const running = shapes.filter((shape) => shape === "run").length;
  return running > 0
    ? `run:${running} of ${shapes.length} running`
    : `done:${shapes.length} ${shapes.length === 1 ? "agent" : "agents"}`;
}

function RunningButton({ log }: { readonly log: RunLog }) {
  const summary = useLogView(log, summaryOf);
  const [shape = "done", text] = summary.split(":") as ["ask" | "run" | "done", string];
  return (
    <button type="button" className="btn only-s" onClick={() => setUi({ drawer: "panel" })}>
      <Status shape={shape} /> {shape === "ask" ? text?.replace(/ of \d+| for you/g, "") : text}
    </button>
  );
}
