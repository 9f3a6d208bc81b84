import { lazy, Suspense } from "react";
import { Icon } from "../icons.tsx";
import { useLog, useSessions } from "../state/sessions.ts";
import { type PanelView, setUi, useUi } from "../state/ui.ts";
import { LogContext } from "../thread/context.ts";
import { Agents } from "./agents.tsx";
import { MiniTimeline } from "./mini-timeline.tsx";
import { Summary } from "./summary.tsx";
import { TreeView } from "./tree-view.tsx";

const Inspector = lazy(() => import("./inspector.tsx").then((m) => ({ default: m.Inspector })));
const Files = lazy(() => import("./files.tsx").then((m) => ({ default: m.Files })));

const Nodes = lazy(() => import("./nodes.tsx").then((m) => ({ default: m.Nodes })));

const views: readonly (readonly [PanelView, string])[] = [
  ["tree", "Tree"],
  ["inspector", "Inspector"],
  ["files", "Files"],
  ["agents", "Agents"],
  ["nodes", "Nodes"],
];

/** The panel beside the conversation: tree, inspector, files, agents on offer and, for operators, the processes. */
export function Panel() {
  const log = useLog();
  const isOperator = useSessions((all) => all.isOperator);
  const chosen = useUi(({ view }) => view);
  const offered = views.filter(([name]) => isOperator || name !== "nodes");
  const view = log === undefined && chosen === "tree" ? "agents" : chosen;
  return (
    <>
      <div className="tabs">
        <div className="tablist" role="tablist" aria-label="Panel">
          {offered.map(([name, label]) => (
            <button
              key={name}
              type="button"
              role="tab"
              id={`tab-${name}`}
              aria-controls="panel-body"
              aria-selected={name === view}
              className={name === view ? "on" : ""}
              onClick={() => setUi({ view: name })}
            >
              {label}
            </button>
          ))}
        </div>
        <span className="grow" />
        <button
          type="button"
          className="icon only-s"
          aria-label="Close the panel"
          onClick={() => setUi({ drawer: undefined })}
        >
          <Icon name="close" />
        </button>
      </div>
      <div className="pn" role="tabpanel" id="panel-body" aria-labelledby={`tab-${view}`}>
        <Suspense fallback={<p className="none">Loading …</p>}>
          {view === "agents" && <Agents />}
          {view === "nodes" && isOperator && <Nodes />}
          {view === "files" && <Files />}
          {view === "inspector" &&
            (log ? <Inspector log={log} key={log.taskId} /> : <p className="none">No run yet.</p>)}
          {view === "tree" && log && (
            <LogContext value={log}>
              <Summary log={log} />
              <div className="scroll">
                <TreeView log={log} />
                <MiniTimeline log={log} />
              </div>
            </LogContext>
          )}
        </Suspense>
      </div>
    </>
  );
}
