import { createContext, useContext, useSyncExternalStore } from "react";
import type { LogSnapshot, RunLog } from "../state/run-log.ts";

/** The log that the components below show. */
export const LogContext = createContext<RunLog | undefined>(undefined);

export function useRunLog(): RunLog {
  const log = useContext(LogContext);
  if (log === undefined) throw new Error("There is no log around this component.");
  return log;
}

/** A part of a log; the component renders when this part changes. */
export function useLogView<S>(log: RunLog, select: (snapshot: LogSnapshot) => S): S {
  return useSyncExternalStore(log.subscribe, () => select(log.getSnapshot()));
}

/** The moment that a log is shown at: now, or that of an event of the past. */
export function momentOf(log: RunLog): number | undefined {
  const { at } = log.getSnapshot();
  return at === undefined ? undefined : log.eventAt(at)?.created_at;
}

const ticks = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

/** The time, five times a second; only the component that shows it renders. */
export function useNow(isRunning: boolean): number {
  return useSyncExternalStore(isRunning ? subscribeTicks : never, () => (isRunning ? now : 0));
}

function never(): () => void {
  return () => {};
}

function subscribeTicks(onTick: () => void): () => void {
  ticks.add(onTick);
  now = Date.now();
  timer ??= setInterval(() => {
    now = Date.now();
    for (const tick of [...ticks]) tick();
  }, 200);
  return () => {
    ticks.delete(onTick);
    if (ticks.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}
