import { useEffect } from "react";
import { isTerminal, taskOf } from "rivulet/protocol";
import { goToApproval } from "./composer.tsx";
import { getSessions, showNew } from "./state/sessions.ts";
import { getUi, type PanelView, setUi, toggleAll } from "./state/ui.ts";
import { copyEvent, playback } from "./stream/playback.ts";
import { cancelTask, killServer } from "./thread/actions.ts";

const newest = () => getSessions().open.turns.at(-1);
let approvalIndex = -1;
let lastKey = "";

function toggleView(view: PanelView): void {
  setUi((now) => ({ view: now.view === view ? "tree" : view }));
}

/** The keys outside text fields. `step` moves in the log. */
const keys: Readonly<Record<string, () => void>> = {
  "/": () => focusOn("#search"),
  "?": () => setUi(({ isHelpOpen }) => ({ isHelpOpen: !isHelpOpen })),
  n: showNew,
  f: () => setUi(({ focus, selected }) => ({ focus: focus === selected ? undefined : selected })),
  F: toggleAll,
  s: () => {
    setUi(({ selected }) => ({ steered: selected }));
    focusOn("#composer");
  },
  x: () => {
    const { selected } = getUi();
    if (selected !== undefined) void cancelTask(selected);
  },
  a: () => {
    const log = newest();
    if (log && lastKey === "g") goToApproval(log, ++approvalIndex);
  },
  t: () => setUi(({ isTimelineOpen }) => ({ isTimelineOpen: !isTimelineOpen })),
  i: () => toggleView("inspector"),
  l: () => playback.live(),
  " ": () => playback.toggle(),
  ",": () => playback.step(-1),
  ".": () => playback.step(1),
  "<": () => playback.step(-100),
  ">": () => playback.step(100),
  c: () => void copyEvent(),
  k: () => {
    if (document.documentElement.dataset.demo !== undefined) void killServer();
  },
};

function focusOn(selector: string): void {
  document.querySelector<HTMLElement>(selector)?.focus();
}

/** Closes the innermost layer; without one, stops the run. */
function closeLayer(): void {
  const { isHelpOpen, drawer, focus, isTimelineOpen, steered } = getUi();
  const log = newest();
  const { tree, at } = log?.getSnapshot() ?? {};
  const root = tree && taskOf(tree, tree.rootId);
  const { activeElement } = document;
  if (isHelpOpen) setUi({ isHelpOpen: false });
  else if (drawer) setUi({ drawer: undefined });
  else if (activeElement?.matches("input, textarea")) (activeElement as HTMLElement).blur();
  else if (steered) setUi({ steered: undefined });
  else if (at !== undefined) playback.live();
  else if (focus !== undefined) setUi({ focus: undefined });
  else if (isTimelineOpen) setUi({ isTimelineOpen: false });
  else if (log?.run && root && !isTerminal(root.status)) void cancelTask(root.id);
}

/** Listens for the keys of the page. */
export function useKeys(): void {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const { ctrlKey, metaKey, altKey, key, target, defaultPrevented } = event;
      if (defaultPrevented || ctrlKey || metaKey || altKey) return;
      if (key === "Escape") return closeLayer();
      const isTyping =
        target instanceof HTMLElement &&
        target.matches("input, textarea, select, [contenteditable]");
      if (isTyping || !getUi().hasKeys) return;
      const isButton = target instanceof HTMLElement && target.matches("button, a, [role=slider]");
      const act = key === " " && isButton ? undefined : keys[key];
      if (act) {
        event.preventDefault();
        act();
      }
      lastKey = key;
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
}
