import { useEffect, useId, useRef, useState } from "react";
import { labelOf, pathOf } from "../state/agents.ts";
import type { Source } from "../state/citations.ts";
import type { RunLog } from "../state/run-log.ts";
import { hasWorkspace, useSessions } from "../state/sessions.ts";
import { openAtLine, openPlace } from "../state/ui.ts";

/** Scrolls to the block that a source stands in. */
function openSource(log: RunLog, { place }: Source): void {
  if (place) openPlace(place, pathOf(log.getSnapshot().tree, place.taskId));
}

/** The agent that read a source; a nested one with its caller, since each caller may have one of this name. */
function readerOf(log: RunLog, { taskId }: Source): string {
  const { tree } = log.getSnapshot();
  if (taskId === undefined) return "";
  const [, caller, ...more] = [...pathOf(tree, taskId), taskId].slice(-3);
  const label = labelOf(tree, taskId);
  return more.length > 0 && caller !== undefined ? `${label} of ${labelOf(tree, caller)}` : label;
}

interface CitationProps {
  readonly log: RunLog;
  readonly source: Source | undefined;
}

/** A number in a text that opens a card with the quote, the line and the agent that read it. */
export function Citation({ log, source }: CitationProps) {
  const [isOpen, setOpen] = useState(false);
  const element = useRef<HTMLSpanElement>(null);
  const card = useId();
  useEffect(() => {
    if (!isOpen) return;
    const onPointer = ({ target }: Event) => {
      if (!element.current?.contains(target as Node)) setOpen(false);
    };
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      setOpen(false);
      element.current?.querySelector("button")?.focus();
    };
    document.addEventListener("pointerdown", onPointer);
    document.addEventListener("keydown", onKey, true);
    return () => {
      document.removeEventListener("pointerdown", onPointer);
      document.removeEventListener("keydown", onKey, true);
    };
  }, [isOpen]);
  if (source === undefined) return <span className="cite is-pending">·</span>;
  const reader = readerOf(log, source);
  return (
    <span className="pop" ref={element}>
      {/* The number stays on the line of the words before it. */}
      {"\u2060"}
      <button
        type="button"
        className={isOpen ? "cite on" : "cite"}
        aria-expanded={isOpen}
        aria-controls={isOpen ? card : undefined}
        aria-label={`Source ${source.number}${source.file ? `, ${source.file}` : ""}`}
        onClick={() => setOpen(!isOpen)}
      >
        {source.number}
      </button>
      {isOpen && (
        <span className="card" id={card} role="group" aria-label={`Source ${source.number}`}>
          <q>{source.quote}</q>
          <span className="ft">
            <span className="grow">
              {source.file && <FilePlace place={source.file} />} {reader && `read by ${reader}`}
            </span>
            {source.place && (
              <button
                type="button"
                className="btn sm"
                onClick={() => {
                  setOpen(false);
                  openSource(log, source);
                }}
              >
                Open in thread
              </button>
            )}
          </span>
        </span>
      )}
    </span>
  );
}

/** `path:line`, which opens the file there if the agent on the page has files. */
function FilePlace({ place }: { readonly place: string }) {
  const hasFiles = useSessions(hasWorkspace);
  if (!hasFiles) return <code>{place}</code>;
  return (
    <button
      type="button"
      className="fileplace"
      title={`Open ${place}`}
      onClick={() => openAtLine(place)}
    >
      <code>{place}</code>
    </button>
  );
}

/** The sources of an answer, as a list below it. */
export function Sources({
  log,
  sources,
}: {
  readonly log: RunLog;
  readonly sources: readonly Source[];
}) {
  return (
    <ol className="sources" aria-label="Sources">
      {sources.map((source) => (
        <li key={source.number}>
          <button type="button" className="cite" onClick={() => openSource(log, source)}>
            {source.number}
          </button>
          {source.file ? (
            <FilePlace place={source.file} />
          ) : (
            <code>{source.quote.slice(0, 60)}</code>
          )}
          <span>{readerOf(log, source)}</span>
        </li>
      ))}
    </ol>
  );
}
