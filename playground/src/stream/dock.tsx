import { useEffect } from "react";
import { type Task, taskOf } from "rivulet/protocol";
import { Icon, Status } from "../icons.tsx";
import { labelOf, pathOf, shapeOf } from "../state/agents.ts";
import { costOf, duration, number, tokensUsed } from "../state/format.ts";
import type { RunLog } from "../state/run-log.ts";
import { fork } from "../state/sessions.ts";
import { inTreeOrder, type Lane } from "../state/spans.ts";
import { openPlace, setUi, showError, useUi } from "../state/ui.ts";
import { momentOf, useLogView, useNow } from "../thread/context.ts";
import { copyEvent, playback, speeds, usePlayback } from "./playback.ts";
import { extentOf, Slider } from "./slider.tsx";

/** The timeline over the whole width, with the controls of a replay. */
export function Dock({ log }: { readonly log: RunLog }) {
  const first = useLogView(log, ({ first }) => first);
  useEffect(() => {
    log.loadHistory().catch(showError);
  }, [log]);
  return (
    <div className="dock">
      <Controls log={log} />
      {first > 0 ? <p className="note">Loading the events of this run …</p> : <Gantt log={log} />}
    </div>
  );
}

function Controls({ log }: { readonly log: RunLog }) {
  const at = useLogView(log, ({ at }) => at);
  const last = useLogView(log, ({ last }) => last);
  const isPlaying = usePlayback(({ isPlaying }) => isPlaying);
  const speed = usePlayback(({ speed }) => speed);
  const event = at === undefined ? undefined : log.eventAt(at);
  const label = useLogView(log, ({ tree }) => (event ? labelOf(tree, event.task_id) : ""));
  return (
    <div className="ctl">
      <span className="pl">
        <button type="button" aria-label="To the first event" onClick={() => void playback.seek(0)}>
          <Icon name="first" />
        </button>
        <button type="button" aria-label="One event back" onClick={() => playback.step(-1)}>
          <Icon name="back" />
        </button>
        <button
          type="button"
          className="big"
          aria-label={isPlaying ? "Pause" : "Play"}
          onClick={() => playback.toggle()}
        >
          <Icon name={isPlaying ? "pause" : "play"} />
        </button>
        <button type="button" aria-label="One event on" onClick={() => playback.step(1)}>
          <Icon name="step" />
        </button>
      </span>
      <span className="seg" role="group" aria-label="Speed">
        {speeds.map((value) => (
          <button
            key={value}
            type="button"
            className={value === speed ? "on" : ""}
            aria-pressed={value === speed}
            onClick={() => playback.setSpeed(value)}
          >
            {value === 0 ? "max" : `${value}×`}
          </button>
        ))}
      </span>
      {at === undefined ? (
        <b className="num">{number(last + 1)} events</b>
      ) : (
        <>
          <b className="num">
            Event {number(at)} of {number(last)}
          </b>
          <code className="who">{event?.type}</code>
          <span className="who by">{label}</span>
        </>
      )}
      <span className="grow" />
      {at === undefined ? (
        <button
          type="button"
          className="icon"
          aria-label="Close the timeline"
          onClick={() => setUi({ isTimelineOpen: false })}
        >
          <Icon name="close" />
        </button>
      ) : (
        <>
          <button type="button" className="btn hide-s" onClick={() => void copyEvent()}>
            <Icon name="copy" /> Copy event <kbd>c</kbd>
          </button>
          {log.run && (
            <button type="button" className="btn hide-s" onClick={() => void fork(log.taskId)}>
              <Icon name="fork" /> Fork from this turn
            </button>
          )}
          <button type="button" className="btn past" onClick={() => playback.live()}>
            <span className="hide-s">Return to {log.run ? "live" : "the end"}</span>
            <span className="only-xs">{log.run ? "Live" : "End"}</span> <kbd>l</kbd>
          </button>
        </>
      )}
    </div>
  );
}

function Gantt({ log }: { readonly log: RunLog }) {
  const at = useLogView(log, ({ at }) => at);
  const isLive = useLogView(log, ({ connection }) => connection.status === "open");
  const now = useNow(isLive && at === undefined);
  const [from, lastEvent] = extentOf(log);
  const to = now > 0 ? Math.max(now, lastEvent) : lastEvent;
  const moment = momentOf(log);
  const place = (time: number) => `${(((time - from) / (to - from)) * 100).toFixed(3)}%`;
  return (
    <div className="gantt">
      <span className="n by">events</span>
      <div className="slid">
        <Slider log={log} />
      </div>
      <span className="v" />
      <div className="lanes">
        {inTreeOrder(log.lanes, log.liveTree).map((lane) => (
          <GanttRow key={lane.taskId} log={log} lane={lane} to={to} place={place} moment={moment} />
        ))}
      </div>
      <span />
      <div className="tick num">
        {[0, 0.2, 0.4, 0.6, 0.8, 1].map((part) => (
          <span key={part}>{duration((to - from) * part)}</span>
        ))}
      </div>
      <span />
      <div className="headbox">
        <Outage log={log} to={to} place={place} />
        {moment !== undefined && <i className="head" style={{ left: place(moment) }} />}
      </div>
    </div>
  );
}

interface AxisProps {
  readonly log: RunLog;
  readonly to: number;
  readonly place: (time: number) => string;
}

/** The time without a server, hatched. */
export function Outage({ log, to, place }: AxisProps) {
  const healing = useLogView(log, ({ healing }) => healing);
  if (healing?.status !== "healed") return null;
  const { brokeAt, downMs } = healing;
  const end = Math.min(brokeAt + downMs, to);
  return (
    <i className="band" style={{ left: place(brokeAt), right: `calc(100% - ${place(end)})` }} />
  );
}

interface GanttRowProps extends AxisProps {
  readonly lane: Lane;
  readonly moment: number | undefined;
}

function GanttRow({ log, lane, to, place, moment }: GanttRowProps) {
  const task = useLogView(log, ({ tree }) => taskOf(tree, lane.taskId));
  const label = useLogView(log, () => labelOf(log.liveTree, lane.taskId));
  const isSelected = useUi(({ selected }) => selected === lane.taskId);
  const isHeld = useLogView(log, ({ healing }) => healing?.status === "held");
  const depth = task?.source?.depth ?? 0;
  return (
    <div className={isSelected ? "row sel" : "row"}>
      <button
        type="button"
        className="n"
        disabled={task === undefined}
        onClick={() => openTask(log, lane.taskId)}
      >
        {task ? <Status shape={shapeOf(task, isHeld)} /> : <i className="nost" />}
        <span style={{ paddingLeft: `${Math.min(depth, 5) * 8}px` }}>{label}</span>
      </button>
      <Track log={log} lane={lane} to={to} place={place} moment={moment} />
      <span className="v num">{task ? totalsOf(task) : "not yet"}</span>
    </div>
  );
}

function totalsOf(task: Task): string {
  const cost = costOf([task]);
  const price = cost === "" ? "" : ` ${cost}`;
  return `${tokensUsed(task)}${price}`;
}

export function openTask(log: RunLog, taskId: string, itemId?: string): void {
  const { tree } = log.getSnapshot();
  openPlace({ taskId, ...(itemId !== undefined && { itemId }) }, pathOf(tree, taskId));
}

/** A stretch of time, or its two parts before and after the moment that is shown. */
function piecesOf(from: number, until: number, moment = Number.POSITIVE_INFINITY) {
  if (from >= moment) return [{ from, until, isFuture: true }];
  if (until <= moment) return [{ from, until, isFuture: false }];
  return [
    { from, until: moment, isFuture: false },
    { from: moment, until, isFuture: true },
  ];
}

const names = { model: "model call", tool: "tool", wait: "waiting", ask: "waits for a person" };

/** The bars of one agent; a click goes to the place in the thread. */
export function Track({ log, lane, to, place, moment }: GanttRowProps) {
  const end = lane.endedAt ?? to;
  return (
    <div className="tk">
      {piecesOf(lane.startedAt, end, moment).map(({ from, until, isFuture }) => (
        <i
          key={from}
          className={isFuture ? "fut" : ""}
          style={{ left: place(from), right: `calc(100% - ${place(until)})` }}
        />
      ))}
      {lane.spans
        .filter(({ kind }) => kind !== "wait")
        .flatMap((span) =>
          piecesOf(span.from, span.to ?? end, moment).map((piece) => ({ ...piece, span })),
        )
        .map(({ span, from, until, isFuture }) => {
          const title = `${names[span.kind]}, ${duration((span.to ?? end) - span.from)}`;
          return (
            <button
              key={`${span.at} ${isFuture}`}
              type="button"
              tabIndex={-1}
              aria-label={title}
              title={title}
              className={`${span.kind}${isFuture ? " fut" : ""}${lane.endedAt ? " d" : ""}`}
              style={{ left: place(from), right: `calc(100% - ${place(until)})` }}
              onClick={() => openTask(log, lane.taskId, span.itemId)}
            />
          );
        })}
    </div>
  );
}
