import { useEffect, useMemo, useRef, useState } from "react";
import { type LogEvent, materialize, type Tree, taskOf } from "rivulet/protocol";
import { labelOf } from "../state/agents.ts";
import { number } from "../state/format.ts";
import type { RunLog } from "../state/run-log.ts";
import { showError } from "../state/ui.ts";
import { copyText, playback } from "../stream/playback.ts";
import { useLogView } from "../thread/context.ts";

const rowHeight = 24;
const filters = ["All agents", "this and below", "no deltas", "approvals"] as const;
type Filter = (typeof filters)[number];

/** The raw events of a log with filters. Only the rows on the screen exist, however long the log is. */
export function EventList({ log, taskId }: { readonly log: RunLog; readonly taskId: string }) {
  const [filter, setFilter] = useState<Filter>("All agents");
  const [query, setQuery] = useState("");
  const [top, setTop] = useState(0);
  const [chosen, setChosen] = useState<number>();
  const element = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const label = useLogView(log, ({ tree }) => labelOf(tree, taskId));
  const at = useLogView(log, ({ at }) => at);
  // Four times a second is enough for a list that nobody can read faster.
  const size = useThrottled(useLogView(log, ({ last, first }) => `${first} ${last}`));
  useEffect(() => {
    log.loadHistory().catch(showError);
  }, [log]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the size stands for the events
  const events = useMemo(
    () => filterEvents(log, filter, taskId, query.trim().toLowerCase()),
    [log, size, filter, taskId, query],
  );
  // biome-ignore lint/correctness/useExhaustiveDependencies: new events move the end
  useEffect(() => {
    const { current } = element;
    if (current && isAtEnd.current && chosen === undefined)
      current.scrollTop = current.scrollHeight;
  }, [events.length]);
  useEffect(() => {
    const { current } = element;
    if (at === undefined || current === null) return;
    const index = events.findIndex(({ sequence_number }) => sequence_number >= at);
    current.scrollTop = Math.max(0, index * rowHeight - current.clientHeight / 2);
    setChosen(at);
  }, [at, events]);
  // The event opens below the list, which leaves less room for the list.
  // biome-ignore lint/correctness/useExhaustiveDependencies: only a choice moves the list
  useEffect(() => {
    const { current } = element;
    const index = events.findIndex(({ sequence_number }) => sequence_number === chosen);
    if (current === null || index < 0) return;
    const bottom = (index + 1) * rowHeight - current.clientHeight;
    if (current.scrollTop < bottom) current.scrollTop = bottom;
  }, [chosen]);
  const from = Math.max(0, Math.floor(top / rowHeight) - 10);
  const shown = events.slice(from, from + 80);
  const { tree } = log.getSnapshot();
  const selected = events.find(({ sequence_number }) => sequence_number === chosen);
  return (
    <div className="ev">
      <div className="filters" role="group" aria-label="Filter events">
        {filters.map((name) => (
          <button
            key={name}
            type="button"
            className={name === filter ? "chip on" : "chip"}
            aria-pressed={name === filter}
            onClick={() => setFilter(name)}
          >
            {name === "this and below" ? `${label} and below` : name}
          </button>
        ))}
        <input
          type="search"
          aria-label="Filter by type"
          placeholder="type"
          value={query}
          onChange={({ target }) => setQuery(target.value)}
        />
        <span className="grow" />
        <span className="num by">{number(events.length)} events</span>
      </div>
      <div
        ref={element}
        className="evs"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scroll area needs the focus to scroll by keys
        tabIndex={0}
        role="region"
        aria-label="Events"
        onScroll={({ currentTarget }) => {
          setTop(currentTarget.scrollTop);
          isAtEnd.current =
            currentTarget.scrollHeight - currentTarget.scrollTop - currentTarget.clientHeight < 40;
        }}
      >
        <div style={{ height: events.length * rowHeight }} className="evspace">
          <div style={{ transform: `translateY(${from * rowHeight}px)` }}>
            {shown.map((event) => (
              <button
                key={event.sequence_number}
                type="button"
                tabIndex={-1}
                className={event.sequence_number === chosen ? "evrow sel" : "evrow"}
                onClick={() =>
                  setChosen(event.sequence_number === chosen ? undefined : event.sequence_number)
                }
              >
                <span>{number(event.sequence_number)}</span>
                <span>{labelOf(tree, event.task_id)}</span>
                <span>{event.type}</span>
                <span>{gist(event)}</span>
              </button>
            ))}
          </div>
        </div>
      </div>
      {selected && (
        <div className="evopen">
          <div className="acts">
            <b className="num">Event {number(selected.sequence_number)}</b>
            <span className="grow" />
            <button
              type="button"
              className="btn sm"
              onClick={() => void playback.seek(selected.sequence_number)}
            >
              Show the tree here
            </button>
            <button
              type="button"
              className="btn sm"
              onClick={() =>
                void copyText(JSON.stringify(selected, null, 2), "The event is copied.")
              }
            >
              Copy
            </button>
            <button
              type="button"
              className="btn sm"
              onClick={() => void copyText(documentOf(tree), "The document is copied.")}
            >
              Copy document
            </button>
          </div>
          <pre>{JSON.stringify(selected, null, 2)}</pre>
        </div>
      )}
    </div>
  );
}

/** The run as one JSON document, as it is at the event that is shown. */
function documentOf(tree: Tree): string {
  return JSON.stringify(materialize(tree), null, 2);
}

function filterEvents(
  log: RunLog,
  filter: Filter,
  taskId: string,
  query: string,
): readonly LogEvent[] {
  const { events } = log;
  if (filter === "All agents" && query === "") return events.slice();
  const { tree } = log.getSnapshot();
  const below = new Map<string, boolean>();
  const isBelow = (id: string): boolean => {
    const known = below.get(id);
    if (known !== undefined) return known;
    below.set(id, id === taskId);
    const parent = taskOf(tree, id)?.parentTaskId;
    const result = id === taskId || (parent !== undefined && isBelow(parent));
    below.set(id, result);
    return result;
  };
  return events.filter(({ type, task_id }) => {
    if (query !== "" && !type.includes(query)) return false;
    if (filter === "no deltas") return !type.endsWith(".delta");
    if (filter === "approvals") return type.startsWith("task.approval.");
    return filter === "All agents" || isBelow(task_id);
  });
}

/** What an event says, in a few words. */
function gist(event: LogEvent): string {
  if ("delta" in event) return JSON.stringify(event.delta);
  if ("arguments" in event && event.arguments !== undefined) return event.arguments;
  if ("annotation" in event) return event.annotation.marker ?? "";
  if ("item" in event) {
    const { item } = event as { item: { type?: string; name?: string; text?: string } };
    return item.name ?? item.text?.slice(0, 80) ?? item.type ?? "";
  }
  if ("task" in event) return event.task.status;
  if ("child_task_id" in event) return event.child_task_id;
  if ("usage" in event) return `${event.usage?.total_tokens} tokens`;
  return "";
}

function useThrottled<T>(value: T): T {
  const [shown, setShown] = useState(value);
  const latest = useRef(value);
  latest.current = value;
  useEffect(() => {
    const timer = setInterval(() => setShown(latest.current), 250);
    return () => clearInterval(timer);
  }, []);
  return shown;
}
