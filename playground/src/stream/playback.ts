import type { RunLog } from "../state/run-log.ts";
import { getSessions } from "../state/sessions.ts";
import { cell, useCell } from "../state/store.ts";
import { announce, setUi, showError } from "../state/ui.ts";

/** The speeds of a replay; 0: as fast as the page can. */
export const speeds = [0.5, 1, 4, 16, 0] as const;
/** The fastest replay takes this long, however few frames the page shows. */
const fastestMs = 4_000;
/** A pause in the log is shortened to this when it plays. */
const maxPauseMs = 1_500;

interface Playback {
  readonly isPlaying: boolean;
  readonly speed: (typeof speeds)[number];
}

const state = cell<Playback>({ isPlaying: false, speed: 1 });

export function usePlayback<S>(select: (state: Playback) => S): S {
  return useCell(state, select);
}

const newest = (): RunLog | undefined => getSessions().open.turns.at(-1);
let frame = 0;

/** Moves in the log of the newest turn. */
export const playback = {
  /** Shows the tree at an event; the history is loaded first if it is not there yet. */
  async seek(at: number): Promise<void> {
    const log = newest();
    if (log === undefined) return;
    try {
      await log.loadHistory();
    } catch (error) {
      return showError(error);
    }
    log.seek(at);
    setUi({ isTimelineOpen: true });
  },
  step(by: number): void {
    const { at, last = 0 } = newest()?.getSnapshot() ?? {};
    playback.pause();
    void playback.seek((at ?? last) + by);
  },
  live(): void {
    playback.pause();
    newest()?.seek(undefined);
    announce("Back to live.");
  },
  pause(): void {
    cancelAnimationFrame(frame);
    state.set({ isPlaying: false });
  },
  setSpeed(speed: Playback["speed"]): void {
    state.set({ speed });
  },
  toggle(): void {
    const log = newest();
    const { isPlaying } = state.get();
    if (isPlaying) playback.pause();
    if (log === undefined || isPlaying) return;
    const { at, last } = log.getSnapshot();
    state.set({ isPlaying: true });
    void playback.seek(at === undefined || at >= last ? 0 : at).then(() => play(log));
  },
};

/** Plays the log from where it is, with the pauses that it had. */
function play(log: RunLog): void {
  let shownAt = performance.now();
  let budget = 0;
  const advance = (now: number) => {
    const { isPlaying, speed } = state.get();
    const { at, last } = log.getSnapshot();
    if (!isPlaying || at === undefined || log !== newest()) return playback.pause();
    let next = at;
    if (speed === 0)
      next = Math.min(last, at + Math.max(1, Math.ceil((last * (now - shownAt)) / fastestMs)));
    else {
      budget += (now - shownAt) * speed;
      while (next < last) {
        const pause = pauseAfter(log, next);
        if (pause > budget) break;
        budget -= pause;
        next += 1;
      }
    }
    shownAt = now;
    if (next !== at) log.seek(next);
    if (next >= last) return playback.pause();
    frame = requestAnimationFrame(advance);
  };
  frame = requestAnimationFrame(advance);
}

function pauseAfter(log: RunLog, at: number): number {
  const [event, next] = [log.eventAt(at), log.eventAt(at + 1)];
  if (event === undefined || next === undefined) return 0;
  return Math.min(maxPauseMs, Math.max(0, next.created_at - event.created_at));
}

/** Copies the event that is shown, or the newest one. */
export async function copyEvent(): Promise<void> {
  const log = newest();
  if (log === undefined) return;
  const { at, last } = log.getSnapshot();
  const event = log.eventAt(at ?? last);
  if (event) await copyText(JSON.stringify(event, null, 2), "The event is copied.");
}

export async function copyText(text: string, done: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    announce(done);
    setUi({ notice: { text: done, isError: false } });
  } catch (error) {
    showError(error);
  }
}
