import { lazy, Suspense } from "react";
import { taskOf } from "rivulet/protocol";
import { Icon, Status } from "../icons.tsx";
import { type Shape, shapeOf } from "../state/agents.ts";
import { duration, number } from "../state/format.ts";
import type { LogSnapshot, RunLog } from "../state/run-log.ts";
import { useLog, useSessions } from "../state/sessions.ts";
import { setUi, showError, useUi } from "../state/ui.ts";
import { killServer } from "../thread/actions.ts";
import { useLogView, useNow } from "../thread/context.ts";
import { Slider } from "./slider.tsx";

const Dock = lazy(() => import("./dock.tsx").then(({ Dock }) => ({ default: Dock })));

/** Where am I in the log? */
export function StreamBar() {
  const log = useLog();
  const status = useSessions(({ status }) => status);
  if (log === undefined)
    return (
      <section className="stream" aria-label="Log">
        <div className="bar">
          <span className="conn">
            <Status shape={status === "ready" ? "done" : "hold"} />
            {status === "ready"
              ? "Connected"
              : status === "loading"
                ? "Connecting"
                : "Not connected"}
            <span>no run yet</span>
          </span>
          <span className="track">
            <i className="base" />
          </span>
          <span className="hide-s">
            Press <kbd>?</kbd> for all keys
          </span>
        </div>
      </section>
    );
  return <LogBar log={log} />;
}

type Mode = "live" | "past" | "killed" | "healed" | "ended" | "recorded";

function modeOf({ at, healing, connection }: LogSnapshot): Mode {
  if (at !== undefined) return "past";
  if (healing?.status === "held") return "killed";
  if (healing?.status === "healed") return "healed";
  return connection.status === "closed" ? "ended" : "live";
}

/** The server is a demonstration, whose process the page can end. */
const isDemo = document.documentElement.dataset.demo !== undefined;

const words: Readonly<Record<Mode, readonly [Shape, string]>> = {
  live: ["run", "Live"],
  past: ["part", "Past"],
  killed: ["hold", isDemo ? "Server stopped" : "No connection"],
  healed: ["done", "Healed"],
  ended: ["done", "Ended"],
  recorded: ["done", "Recorded"],
};

function LogBar({ log }: { readonly log: RunLog }) {
  const mode = useLogView(log, modeOf);
  const last = useLogView(log, ({ last }) => last);
  const ending = useLogView(log, ({ connection, tree }): Shape => {
    const root = taskOf(tree, tree.rootId);
    return connection.error || root === undefined ? "fail" : shapeOf(root);
  });
  const isTimelineOpen = useUi(({ isTimelineOpen }) => isTimelineOpen);
  const isRecorded = log.run === undefined;
  const shown = mode === "ended" && isRecorded ? "recorded" : mode;
  const [shape, word] = words[shown];
  const isDocked = isTimelineOpen || mode === "past";
  return (
    <section className={`stream ${mode}`} aria-label="Log">
      {isDocked && (
        <Suspense fallback={null}>
          <Dock log={log} />
        </Suspense>
      )}
      {mode !== "past" && (
        <div className="bar">
          <span className="conn">
            <Status shape={shown === "ended" ? ending : shape} />
            {mode === "killed" && !navigator.onLine ? "Offline" : word}
            {mode !== "killed" && <span className="num">event {number(last)}</span>}
          </span>
          {!isDocked && <Slider log={log} />}
          {isDocked && <span className="grow" />}
          {mode === "killed" && <Retry log={log} />}
          {mode === "healed" && <Healed log={log} />}
          {mode !== "killed" && (
            <>
              <button
                type="button"
                className="btn quiet hide-s"
                aria-pressed={isTimelineOpen}
                onClick={() => setUi({ isTimelineOpen: !isTimelineOpen })}
              >
                <Icon name="time" /> Timeline <kbd>t</kbd>
              </button>
              <button
                type="button"
                className="btn quiet hide-s"
                onClick={() =>
                  import("../state/recording.ts").then(({ share }) => share(log)).catch(showError)
                }
              >
                <Icon name="share" /> Share
              </button>
              {!isRecorded && <KillButton isAgain={mode === "healed"} />}
            </>
          )}
        </div>
      )}
    </section>
  );
}

/** Names the cursor and the next attempt. */
function Retry({ log }: { readonly log: RunLog }) {
  const { status, attempt = 1, retryAt } = useLogView(log, ({ connection }) => connection);
  const cursor = useLogView(log, ({ healing }) => healing?.cursor ?? 0);
  const now = useNow(true);
  if (status === "open")
    return (
      <span className="msg">
        The server is back.{" "}
        <span className="hide-s">Its agents continue in a moment from event {number(cursor)}.</span>
      </span>
    );
  const left = retryAt === undefined ? 0 : Math.max(0, retryAt - now);
  return (
    <>
      <span className="msg num">
        <span className="hide-s">Reconnecting from event {number(cursor)}. </span>
        Try {attempt}
        {left > 100 ? `, next in ${duration(left)}` : " now"}
      </span>
      <button
        type="button"
        className="btn"
        onClick={() => dispatchEvent(new Event("online"))} // the reader listens for it
      >
        Try now
      </button>
    </>
  );
}

function Healed({ log }: { readonly log: RunLog }) {
  const healing = useLogView(log, ({ healing }) => healing);
  if (healing === undefined) return null;
  const { downMs, cursor, lost, repeated } = healing;
  return (
    <span className="msg">
      Down {duration(downMs)}.{" "}
      <span className="hide-s">Continued at event {number(cursor + 1)}. </span>
      <b>
        {lost} lost, {repeated} repeated
      </b>
    </span>
  );
}

function KillButton({ isAgain }: { readonly isAgain: boolean }) {
  if (!isDemo) return null;
  return (
    <button type="button" className="btn hide-s" onClick={() => void killServer()}>
      <Icon name="kill" /> {isAgain ? "Kill again" : "Kill server"} <kbd>k</kbd>
    </button>
  );
}
