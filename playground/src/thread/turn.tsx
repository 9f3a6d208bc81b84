import { memo, useEffect, useState } from "react";
import { rootTask, taskOf } from "rivulet/protocol";
import { Status } from "../icons.tsx";
import { labelOf, pathOf, shapeOf } from "../state/agents.ts";
import { api } from "../state/api.ts";
import { clock } from "../state/format.ts";
import type { RunLog } from "../state/run-log.ts";
import { useSessions } from "../state/sessions.ts";
import { selectTask, setUi, useUi } from "../state/ui.ts";
import { AgentThread } from "./agent-thread.tsx";
import { LogContext, useLogView } from "./context.ts";

/** A question and the work on it. */
export const Turn = memo(function Turn({ log }: { readonly log: RunLog }) {
  const rootId = useLogView(log, ({ tree }) => tree.rootId);
  const error = useLogView(log, ({ connection }) => connection.error);
  const status = useLogView(log, ({ connection }) => connection.status);
  const isOneOfMany = useSessions(({ agents }) => agents.length > 1);
  const focus = useUi(({ focus }) => focus);
  const isFocused = useLogView(log, ({ tree }) => taskOf(tree, focus) !== undefined);
  const top = isFocused ? focus : rootId;
  const isRunning = useLogView(
    log,
    ({ tree, at }) => at === undefined && rootTask(tree)?.status === "in_progress",
  );
  return (
    <LogContext value={log}>
      <article className="turn" aria-label={log.input.slice(0, 80) || "A run"}>
        {log.input !== "" && <h2 className="ask-q">{log.input}</h2>}
        <p className="by">
          {log.input === "" ? "A run" : "You"}
          {isOneOfMany && log.agentName !== "" && ` to ${log.agentName}`}, {clock(log.startedAt)}
          {log.model !== undefined && `, model ${log.model}`}
          {log.files.length > 0 && `, with ${log.files.join(", ")}`}
        </p>
        {isFocused && focus !== undefined && <PathBar log={log} taskId={focus} />}
        {top === undefined ? (
          status === "closed" && error ? (
            <p className="notice bad">
              <span>
                <b>{error.message}</b>
                {error.hint}
              </span>
            </p>
          ) : (
            <>
              <Wait log={log} />
              <Skeleton />
            </>
          )
        ) : (
          <>
            <AgentThread taskId={top} isTop />
            {isRunning && <Wait log={log} />}
          </>
        )}
      </article>
    </LogContext>
  );
});

/** The reason why a run waits. The page asks for it after a second without an event. */
function Wait({ log }: { readonly log: RunLog }) {
  const [text, setText] = useState("");
  useEffect(() => {
    if (log.run === undefined) return;
    let seen: number | undefined;
    const ask = async () => {
      const { last, connection } = log.getSnapshot();
      const isStill = last === seen || last < 0;
      seen = last;
      // The bar below says that there is no connection.
      if (!isStill || connection.status !== "open") return "";
      const { waits } = await api.task(log.taskId).catch(() => ({ waits: undefined }));
      return waits && log.getSnapshot().last === last ? waitTexts[waits.reason] : "";
    };
    const timer = setInterval(() => void ask().then(setText), 1_000);
    return () => clearInterval(timer);
  }, [log]);
  return text === "" ? null : <p className="note">{text}</p>;
}

const waitTexts = {
  busy: "Waits for the run before it in this session.",
  owner_silent:
    "Waits for the process that owns this session. Another one takes over if it is gone.",
  unknown_agent: "Waits for a server that has the agent of this session.",
  unknown_version: "Waits for a server with the version of the agent that this run stays on.",
  unknown_place: "Waits for a server that has the files of this session.",
  user_limit: "Waits for your other runs.",
} as const;

/** The shape of a thread before its first event. */
export function Skeleton() {
  return (
    <div className="skel" role="status" aria-label="The run is loading">
      {[38, 82, 64, 74].map((width) => (
        <i key={width} style={{ width: `${width}%` }} />
      ))}
    </div>
  );
}

/** The agents around the one that fills the thread. */
function PathBar({ log, taskId }: { readonly log: RunLog; readonly taskId: string }) {
  const key = useLogView(log, ({ tree }) => [...pathOf(tree, taskId), taskId].join(" "));
  const { tree } = log.getSnapshot();
  const path = key.split(" ");
  return (
    <nav className="pathbar" aria-label="Path of the focused agent">
      {path.map((id, index) => {
        const task = taskOf(tree, id);
        return (
          <span className="lvl" key={id}>
            {task && <Status shape={shapeOf(task)} />}
            {index === path.length - 1 ? (
              <b>{labelOf(tree, id)}</b>
            ) : (
              <button
                type="button"
                className="link"
                onClick={() => {
                  setUi({ focus: index === 0 ? undefined : id });
                  selectTask(id);
                }}
              >
                {labelOf(tree, id)}
              </button>
            )}
            {index < path.length - 1 && <span aria-hidden="true">›</span>}
          </span>
        );
      })}
      <span className="grow" />
      <button type="button" className="btn sm" onClick={() => setUi({ focus: undefined })}>
        Leave focus <kbd>esc</kbd>
      </button>
    </nav>
  );
}
