import { type KeyboardEvent, type PointerEvent, useMemo, useRef } from "react";
import { duration, number } from "../state/format.ts";
import type { RunLog } from "../state/run-log.ts";
import { useLogView } from "../thread/context.ts";
import { playback } from "./playback.ts";

const bars = 160;

/** The first and the last moment of a log. */
export function extentOf(log: RunLog): readonly [from: number, to: number] {
  const from = log.events[0]?.created_at ?? log.startedAt;
  return [from, Math.max(from + 1_000, log.events.at(-1)?.created_at ?? from)];
}

/** A slider over the log: its x axis is time, its value the number of an event. */
export function Slider({ log }: { readonly log: RunLog }) {
  const track = useRef<HTMLDivElement>(null);
  const last = useLogView(log, ({ last }) => last);
  const at = useLogView(log, ({ at }) => at);
  const first = useLogView(log, ({ first }) => first);
  const [from, to] = extentOf(log);
  const moment = at === undefined ? to : (log.eventAt(at)?.created_at ?? to);
  const ratio = first > 0 && at === undefined ? 1 : (moment - from) / (to - from);

  function seekTo(clientX: number): void {
    const box = track.current?.getBoundingClientRect();
    if (box === undefined) return;
    const part = Math.min(1, Math.max(0, (clientX - box.left) / box.width));
    void log.loadHistory().then(() => {
      const [start, end] = extentOf(log);
      void playback.seek(eventAtTime(log, start + part * (end - start)));
    });
  }

  function onKeyDown(event: KeyboardEvent): void {
    const steps: Record<string, number> = {
      ArrowLeft: -1,
      ArrowDown: -1,
      ArrowRight: 1,
      ArrowUp: 1,
      PageDown: -100,
      PageUp: 100,
      Home: Number.NEGATIVE_INFINITY,
      End: Number.POSITIVE_INFINITY,
    };
    const by = steps[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (Number.isFinite(by)) playback.step(by);
    else void playback.seek(by < 0 ? 0 : last);
  }

  function onPointer(event: PointerEvent): void {
    if (event.buttons !== 1) return;
    if (event.type === "pointerdown") {
      event.currentTarget.setPointerCapture(event.pointerId);
      playback.pause();
    }
    seekTo(event.clientX);
  }

  const value = at ?? last;
  return (
    <div
      ref={track}
      className="track"
      role="slider"
      tabIndex={0}
      aria-label="Position in the log"
      aria-valuemin={0}
      aria-valuemax={Math.max(0, last)}
      aria-valuenow={Math.max(0, value)}
      aria-valuetext={`Event ${number(value)} of ${number(last)}, ${duration(moment - from)} after the start`}
      onKeyDown={onKeyDown}
      onPointerDown={onPointer}
      onPointerMove={onPointer}
    >
      <Histogram log={log} ratio={ratio} />
      <i className="base" />
      <i className="fill" style={{ width: `${ratio * 100}%` }} />
      <i className="knob" style={{ left: `${ratio * 100}%` }} />
    </div>
  );
}

/** The number of the last event up to a moment. */
function eventAtTime(log: RunLog, moment: number): number {
  const { events } = log;
  let low = 0;
  let high = events.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if ((events[middle]?.created_at ?? 0) <= moment) low = middle;
    else high = middle - 1;
  }
  return events[low]?.sequence_number ?? 0;
}

/** How many events there were in each stretch of time. */
function Histogram({ log, ratio }: { readonly log: RunLog; readonly ratio: number }) {
  // The bars of a long log need not move with each event.
  const size = useLogView(log, () => {
    const { length } = log.events;
    return Math.ceil(length / Math.max(16, length / 50));
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: the size stands for the events
  const path = useMemo(() => {
    const [from, to] = extentOf(log);
    const counts = new Array<number>(bars).fill(0);
    for (const { created_at } of log.events) {
      const index = Math.min(bars - 1, Math.floor(((created_at - from) / (to - from)) * bars));
      counts[Math.max(0, index)] = (counts[Math.max(0, index)] ?? 0) + 1;
    }
    const most = Math.max(1, ...counts);
    return counts
      .map((count, index) => {
        if (count === 0) return "";
        const height = 1 + 20 * Math.sqrt(count / most);
        return `M${index * 4} 22h3v${-height.toFixed(1)}h-3z`;
      })
      .join("");
  }, [log, size]);
  return (
    <svg
      className="hist"
      viewBox={`0 0 ${bars * 4} 22`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <path d={path} fill="currentColor" opacity=".3" />
      <path
        d={path}
        fill="currentColor"
        opacity=".5"
        style={{ clipPath: `inset(0 ${(1 - ratio) * 100}% 0 0)` }}
      />
    </svg>
  );
}
