import { labelOf, pathOf } from "../state/agents.ts";
import { duration } from "../state/format.ts";
import type { RunLog } from "../state/run-log.ts";
import { inTreeOrder } from "../state/spans.ts";
import { showError } from "../state/ui.ts";
import { Outage, openTask, Track } from "../stream/dock.tsx";
import { extentOf } from "../stream/slider.tsx";
import { momentOf, useLogView, useNow } from "../thread/context.ts";

/** With more agents than this, the timeline of the panel shows the first; `t` opens all. */
const maxLanes = 24;

/** The timeline below the tree; in the past, the event instead. */
export function MiniTimeline({ log }: { readonly log: RunLog }) {
  const at = useLogView(log, ({ at }) => at);
  const isLive = useLogView(log, ({ connection }) => connection.status === "open");
  const first = useLogView(log, ({ first }) => first);
  const downMs = useLogView(log, ({ healing }) =>
    healing?.status === "healed" ? healing.downMs : undefined,
  );
  const isHeld = useLogView(log, ({ healing }) => healing?.status === "held");
  const now = useNow(isLive && at === undefined);
  useLogView(log, ({ last }) => (isLive ? 0 : last));
  if (at !== undefined) return <ShownEvent log={log} at={at} />;
  const lanes = inTreeOrder(log.lanes, log.liveTree);
  if (first > 0)
    return (
      <section className="tlbox" aria-label="Timeline">
        <h2>Timeline</h2>
        <p className="none">
          <button type="button" className="link" onClick={() => log.loadHistory().catch(showError)}>
            Load the events of this run
          </button>
        </p>
      </section>
    );
  if (lanes.length === 0) return null;
  const [from, lastEvent] = extentOf(log);
  const to = now > 0 ? Math.max(now, lastEvent) : lastEvent;
  const place = (time: number) => `${(((time - from) / (to - from)) * 100).toFixed(2)}%`;
  const moment = momentOf(log);
  const { tree } = log.getSnapshot();
  return (
    <section className="tlbox" aria-label="Timeline">
      <h2>Timeline</h2>
      <div className={isHeld ? "tl held" : "tl"}>
        {downMs !== undefined && <p className="band-l">hatched band: down {duration(downMs)}</p>}
        <div className="axis num">
          {[0, 1 / 3, 2 / 3, 1].map((part) => (
            <span key={part}>{part === 0 ? "0" : duration((to - from) * part)}</span>
          ))}
        </div>
        {lanes.slice(0, maxLanes).map((lane) => (
          <div className="r" key={lane.taskId}>
            <button
              type="button"
              tabIndex={-1}
              style={{ paddingLeft: `${Math.min(pathOf(tree, lane.taskId).length, 5) * 8}px` }}
              onClick={() => openTask(log, lane.taskId)}
            >
              {labelOf(tree, lane.taskId)}
            </button>
            <Track log={log} lane={lane} to={to} place={place} moment={moment} />
          </div>
        ))}
        {lanes.length > maxLanes && (
          <p className="none">and {lanes.length - maxLanes} more: press t</p>
        )}
        <div className="bandbox">
          <Outage log={log} to={to} place={place} />
        </div>
        <div className="legend" aria-hidden="true">
          <span>
            <span className="tk">
              <u className="model" />
            </span>
            model call
          </span>
          <span>
            <span className="tk">
              <u className="tool" />
            </span>
            tool
          </span>
          <span>
            <span className="tk">
              <i />
            </span>
            waiting
          </span>
          {lanes.some(({ spans }) => spans.some(({ kind }) => kind === "ask")) && (
            <span>
              <span className="tk">
                <u className="ask" />
              </span>
              waits for you
            </span>
          )}
        </div>
      </div>
    </section>
  );
}

function ShownEvent({ log, at }: { readonly log: RunLog; readonly at: number }) {
  return (
    <section className="evt" aria-label={`Event ${at}`}>
      <h2>Event {at}</h2>
      <pre>{JSON.stringify(log.eventAt(at), null, 2)}</pre>
    </section>
  );
}
