import type { Block } from "rivulet";
import { readStored, store } from "./storage.ts";
import { cell, useCell } from "./store.ts";

/** The views of the panel. */
export type PanelView = "tree" | "inspector" | "files" | "agents" | "nodes";

/** A place in a thread to scroll to. */
export interface Place {
  readonly taskId: string;
  readonly itemId?: string;
  readonly blockIndex?: number;
  /** The words to mark within the block. */
  readonly quote?: string;
}

/** A file that goes with the next question. */
export interface Attached {
  readonly name: string;
  readonly block: Block;
}

/** What the person has chosen; everything else is in the logs. */
export interface Ui {
  /** The task that is selected everywhere. */
  readonly selected: string | undefined;
  /** The task whose subtree fills the thread. */
  readonly focus: string | undefined;
  /** Threads that the person has folded or unfolded. */
  readonly folds: Readonly<Record<string, boolean>>;
  /** Whether all threads without a choice of their own are folded; undefined: each folds by itself. */
  readonly allFolded: boolean | undefined;
  readonly view: PanelView;
  readonly isTimelineOpen: boolean;
  readonly isHelpOpen: boolean;
  readonly hasKeys: boolean;
  /** What is open over the thread on small screens. */
  readonly drawer: "rail" | "panel" | undefined;
  readonly place: Place | undefined;
  /** The file that the panel shows, and the line to mark. */
  readonly file: { readonly path: string; readonly line?: number } | undefined;
  /** The task that the composer steers; undefined: the root. */
  readonly steered: string | undefined;
  /** Messages to running agents, with the number of messages that each agent had before it. */
  readonly sent: readonly {
    readonly taskId: string;
    readonly text: string;
    readonly after: number;
  }[];
  /** The files that go with the next question. */
  readonly attached: readonly Attached[];
  /** The last sentence for screen readers. */
  readonly announcement: string;
  /** One sentence about the last action, such as a failed request. */
  readonly notice: { readonly text: string; readonly isError: boolean } | undefined;
}

const initial: Ui = {
  selected: undefined,
  focus: undefined,
  folds: {},
  allFolded: undefined,
  view: "tree",
  isTimelineOpen: false,
  isHelpOpen: false,
  hasKeys: readStored("keys") !== "off",
  drawer: undefined,
  place: undefined,
  file: undefined,
  steered: undefined,
  sent: [],
  attached: [],
  announcement: "",
  notice: undefined,
};

const ui = cell(initial);

export const getUi = ui.get;
export const setUi = ui.set;

/** A part of the choices of the person. */
export function useUi<S>(select: (ui: Ui) => S): S {
  return useCell(ui, select);
}

/** Forgets what belongs to the session before. */
export function resetUi(): void {
  const { view, isTimelineOpen, hasKeys } = ui.get();
  ui.set({ ...initial, view, isTimelineOpen, hasKeys });
}

/** Selects a task everywhere and scrolls to it. */
export function selectTask(taskId: string): void {
  ui.set({ selected: taskId, place: { taskId } });
}

/** Opens a file of the workspace at a line: `library/deltas.md:12`. */
export function openAtLine(place: string): void {
  const [, path = place, line] = /^(.*?)(?::(\d+))?$/.exec(place) ?? [];
  const file = { path, ...(line !== undefined && { line: Number(line) }) };
  ui.set({ file, view: "files", drawer: "panel" });
}

/** Opens a thread and all threads around it, then scrolls to a place in it. */
export function openPlace(place: Place, path: readonly string[]): void {
  const folds = Object.fromEntries([...path, place.taskId].map((id) => [id, false]));
  ui.set((now) => ({
    folds: { ...now.folds, ...folds },
    ...(now.focus !== undefined && !path.includes(now.focus) && { focus: undefined }),
    selected: place.taskId,
    place,
    drawer: undefined,
  }));
}

export function toggleFold(taskId: string, isFolded: boolean): void {
  ui.set(({ folds }) => ({ folds: { ...folds, [taskId]: !isFolded } }));
}

/** Folds all threads, or unfolds them. */
export function toggleAll(): void {
  ui.set(({ allFolded }) => ({ allFolded: !allFolded, folds: {} }));
}

export function announce(announcement: string): void {
  ui.set({ announcement });
}

/** Shows why an action failed, until the next one. */
export function showError(error: unknown): void {
  const { message, hint } = error as { message?: string; hint?: string };
  ui.set({ notice: { text: [message ?? String(error), hint].join(" "), isError: true } });
}

export function setTheme(theme: "light" | "dark"): void {
  store("theme", theme);
  document.documentElement.dataset.theme = theme;
}
