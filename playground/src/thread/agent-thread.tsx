import { memo, type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { type ApprovalState, type Hint, isTerminal, type Task, taskOf } from "rivulet/protocol";
import { useTask } from "rivulet/react";
import { Icon, Status } from "../icons.tsx";
import {
  labelOf,
  lastWords,
  promptOf,
  type Row,
  rowsOf,
  shapeOf,
  waitingIn,
  waitingText,
  wordsBelow,
} from "../state/agents.ts";
import { number, tokensUsed } from "../state/format.ts";
import type { RunLog } from "../state/run-log.ts";
import { retry } from "../state/sessions.ts";
import { setUi, showError, toggleFold, useUi } from "../state/ui.ts";
import { cancelTask } from "./actions.ts";
import { ApprovalCard } from "./approval-card.tsx";
import { useLogView, useRunLog } from "./context.ts";
import { Elapsed } from "./elapsed.tsx";
import { Fan } from "./fan.tsx";
import { Caret, ShownItem } from "./items.tsx";
import { ToolCall } from "./tool-call.tsx";
import { Windowed } from "./windowed.tsx";

/** Agents below this level are one row until they are opened. */
const maxOpenDepth = 3;

interface ThreadProps {
  readonly taskId: string;
  /** True: it is one of many, and so one row. */
  readonly isRow?: boolean;
  /** True: its parent has continued after it. */
  readonly isJoined?: boolean;
  /** True: it fills the thread, whatever its depth. */
  readonly isTop?: boolean;
  readonly children?: ReactNode;
}

/** An agent: its line, its words, its tools and the agents that it has started, to any depth. */
export const AgentThread = memo(function AgentThread(props: ThreadProps) {
  const { taskId, isRow = false, isJoined = false, isTop = false, children } = props;
  const log = useRunLog();
  const task = useTask(log, taskId);
  const element = useRef<HTMLElement>(null);
  const isHeld = useLogView(log, ({ healing }) => healing?.status === "held");
  const isSelected = useUi(({ selected }) => selected === taskId);
  const choice = useUi(({ folds, allFolded }) => folds[taskId] ?? allFolded);
  const depth = task?.source?.depth ?? 0;
  const isAsking = task !== undefined && waitingIn(task).length > 0;
  const wantsFold =
    !isAsking &&
    ((isRow && !isTop) ||
      (!isTop && depth > maxOpenDepth) ||
      (isJoined && task !== undefined && isTerminal(task.status)));
  const folds = useQuietFold(wantsFold, element);
  const isFolded = !isTop && (choice ?? folds);
  useReveal(taskId, element);
  if (task === undefined) return null;
  const shape = shapeOf(task, isHeld);
  const names = [
    ...["thread", shape],
    isFolded && "mini",
    task.mode === "background" && "bg",
    isSelected && "sel",
  ].filter(Boolean);
  return (
    <section
      ref={element}
      className={names.join(" ")}
      data-task={taskId}
      data-status={task.status}
      aria-label={labelOf(log.getSnapshot().tree, taskId)}
    >
      <Header task={task} log={log} shape={shape} isFolded={isFolded} isTop={isTop} />
      {!isFolded && <Rows task={task} log={log} isHeld={isHeld} isTop={isTop} />}
      {children}
    </section>
  );
});

/** Folds by itself, but never under the pointer or the focus. */
function useQuietFold(wants: boolean, element: React.RefObject<HTMLElement | null>): boolean {
  const [isFolded, setFolded] = useState(wants);
  useEffect(() => {
    const { current } = element;
    if (!wants || current === null) return setFolded(wants);
    const isBusy = () => current.matches(":hover") || current.contains(document.activeElement);
    if (!isBusy()) return setFolded(true);
    const onLeave = () => {
      if (!isBusy()) setFolded(true);
    };
    current.addEventListener("pointerleave", onLeave);
    current.addEventListener("focusout", onLeave);
    return () => {
      current.removeEventListener("pointerleave", onLeave);
      current.removeEventListener("focusout", onLeave);
    };
  }, [wants, element]);
  return isFolded;
}

/** Scrolls to a place in this thread and marks it for two seconds. */
function useReveal(taskId: string, element: React.RefObject<HTMLElement | null>): void {
  const place = useUi(({ place }) => (place?.taskId === taskId ? place : undefined));
  useEffect(() => {
    if (place === undefined) return;
    let tries = 0;
    let timer: ReturnType<typeof setTimeout>;
    // Threads around it may still unfold.
    const attempt = () => {
      const inside = place.itemId
        ? `[data-item="${CSS.escape(place.itemId)}"], [data-approval="${CSS.escape(place.itemId)}"]`
        : undefined;
      const target = inside ? element.current?.querySelector(inside) : element.current;
      if (!target && tries++ < 20) {
        timer = setTimeout(attempt, 50);
        return;
      }
      const cited = target?.querySelector(".cited") ?? target;
      if (!cited) return;
      if (place.quote !== undefined && cited === target && tries++ < 6) {
        timer = setTimeout(attempt, 50);
        return;
      }
      cited.scrollIntoView({ block: place.itemId ? "center" : "nearest", behavior: "instant" });
      target?.classList.add("is-marked");
      timer = setTimeout(() => target?.classList.remove("is-marked"), 2_000);
    };
    attempt();
    return () => clearTimeout(timer);
  }, [place, element]);
}

interface HeaderProps {
  readonly task: Task;
  readonly log: RunLog;
  readonly shape: ReturnType<typeof shapeOf>;
  readonly isFolded: boolean;
  readonly isTop: boolean;
}

function Header({ task, log, shape, isFolded, isTop }: HeaderProps) {
  const { tree } = log.getSnapshot();
  const label = labelOf(tree, task.id);
  const isLive = useLogView(log, ({ at }) => at === undefined) && !isTerminal(task.status);
  // Without a connection the words stay as they are.
  const isHeld = shape === "hold";
  const state = isHeld ? shapeOf(task) : shape;
  const isWaiting = isFolded && state === "idle";
  const below = useLogView(log, ({ tree }) => {
    const found = isWaiting ? wordsBelow(tree, task) : undefined;
    return found && `${found.path}\n${found.words}`;
  })?.split("\n");
  const words = below?.[1] ?? (isFolded ? lastWords(tree, task) : "");
  const isStreaming = isFolded && words !== "" && (state === "run" || below !== undefined);
  return (
    <header>
      <Status shape={shape} />
      <button
        type="button"
        className="name"
        aria-expanded={isTop ? undefined : !isFolded}
        onClick={() => {
          setUi({ selected: task.id });
          if (!isTop) toggleFold(task.id, isFolded);
        }}
      >
        <b>{label}</b>
      </button>
      {task.mode === "background" && <span className="tag dash">background</span>}
      {task.remote && <span className="tag">remote</span>}
      {task.cancelling && isLive && <span className="tag">stopping</span>}
      {below && <span className="via">› {below[0]}</span>}
      {isFolded && words !== "" ? (
        <span className={isStreaming && words.length > 40 ? "last over" : "last"}>
          <span>
            {words}
            {isStreaming && <Caret isHeld={isHeld} />}
          </span>
        </span>
      ) : (
        <span className="task">{isTop ? "" : promptOf(tree, task)}</span>
      )}
      {isLive && log.run && (
        <span className="tools">
          {!isTop && (
            <button
              type="button"
              aria-label={`Focus ${label}`}
              title="Focus (f)"
              onClick={() => setUi({ focus: task.id, selected: task.id })}
            >
              <Icon name="focus" />
            </button>
          )}
          <button
            type="button"
            aria-label={`Steer ${label}`}
            title="Steer (s)"
            onClick={() => {
              setUi({ steered: task.id });
              document.querySelector<HTMLElement>("#composer")?.focus();
            }}
          >
            <Icon name="steer" />
          </button>
          <button
            type="button"
            aria-label={`Cancel ${label} and its agents`}
            title="Cancel with its agents (x)"
            onClick={() => void cancelTask(task.id)}
          >
            <Icon name="stop" />
          </button>
        </span>
      )}
      <span className="meta">
        {shape === "ask" && <span className="state">waits</span>}
        <Elapsed from={task.createdAt} to={endOf(task)} />
        {!isFolded && <span className="num">{tokensUsed(task)}</span>}
      </span>
    </header>
  );
}

function endOf({ completedAt, status, createdAt }: Task): number | undefined {
  return completedAt ?? (isTerminal(status) ? createdAt : undefined);
}

interface RowsProps {
  readonly task: Task;
  readonly log: RunLog;
  readonly isHeld: boolean;
  readonly isTop: boolean;
}

function Rows({ task, log, isHeld, isTop }: RowsProps) {
  const { tree } = log.getSnapshot();
  const first = useLogView(log, ({ first }) => first);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the places of messages come with the history
  const rows = useMemo(
    () => rowsOf(log.getSnapshot().tree, task, log.lanes.get(task.id)?.hints),
    [task, log, first],
  );
  const revealed = useUi(({ place }) =>
    place?.taskId === task.id && place.itemId !== undefined ? place.itemId : undefined,
  );
  const reveal = revealed === undefined ? undefined : indexOf(rows, revealed);
  const waiting = waitingIn(task);
  const inRows = new Set(rows.map((row) => (row.kind === "call" ? row.item.call_id : "")));
  const loose = waiting.filter(({ call_id }) => call_id === undefined || !inRows.has(call_id));
  const isOver = isTerminal(task.status);
  return (
    <>
      <Windowed rows={rows} rowHeight={34} reveal={reveal}>
        {(row, index) => (
          <ShownRow
            key={row.kind === "hint" ? row.hint.id : `${row.kind}${row.index}`}
            row={row}
            task={task}
            log={log}
            waiting={waiting}
            hasMore={isOver || index < rows.length - 1}
          />
        )}
      </Windowed>
      {loose.map((approval) => (
        <ApprovalCard key={approval.approval_id} log={log} taskId={task.id} approval={approval} />
      ))}
      {/* Further down, the agent that it waits for stands right above. */}
      <Notes
        task={task}
        log={log}
        text={isOver || isHeld || !isTop ? "" : waitingText(tree, task)}
      />
      {isTop && !isOver && <Interruption log={log} />}
    </>
  );
}

function indexOf(rows: readonly Row[], itemId: string): number | undefined {
  const index = rows.findIndex(
    (row) =>
      (row.kind === "item" && row.item.id === itemId) ||
      (row.kind === "call" && (row.item.id === itemId || row.result?.id === itemId)),
  );
  return index < 0 ? undefined : index;
}

/** What a person, or the time, decided about a call. */
function decisionOn({ approvals }: Task, callId: string): ApprovalState["decision"] {
  return approvals.findLast(({ call_id }) => call_id === callId)?.decision;
}

interface RowProps {
  readonly row: Row;
  readonly task: Task;
  readonly log: RunLog;
  readonly waiting: readonly ApprovalState[];
  readonly hasMore: boolean;
}

function ShownRow({ row, task, log, waiting, hasMore }: RowProps) {
  if (row.kind === "fan")
    return <Fan taskIds={row.taskIds} isBackground={row.isBackground} hasMore={hasMore} />;
  if (row.kind === "hint") return <ShownHint log={log} task={task} hint={row.hint} />;
  if (row.kind === "item")
    return (
      <ShownItem
        log={log}
        taskId={task.id}
        index={row.index}
        item={row.item}
        isLead={task.parentTaskId === undefined}
      />
    );
  const approval = waiting.find(({ call_id }) => call_id === row.item.call_id);
  return (
    <>
      <ToolCall
        log={log}
        taskId={task.id}
        item={row.item}
        result={row.result}
        isAsking={approval !== undefined}
        decision={decisionOn(task, row.item.call_id)}
        isOver={isTerminal(task.status)}
      />
      {approval && <ApprovalCard log={log} taskId={task.id} approval={approval} />}
    </>
  );
}

interface HintProps {
  readonly log: RunLog;
  readonly task: Task;
  readonly hint: Hint;
}

/** A message that an agent got while it ran: from a person, or the report of an agent in the background. */
function ShownHint({ log, task, hint }: HintProps) {
  const { tree } = log.getSnapshot();
  if (hint.from_task_id === undefined)
    return (
      <p className="hint">
        <Icon name="steer" />
        <span>{hint.text}</span>
      </p>
    );
  return (
    <details className="report">
      <summary>
        {taskOf(tree, hint.from_task_id)
          ? labelOf(tree, hint.from_task_id)
          : "An agent of an earlier turn"}{" "}
        reported back to {labelOf(tree, task.id)}
      </summary>
      <pre className="out">{hint.text}</pre>
    </details>
  );
}

/** What an interruption means for the words above. */
function Interruption({ log }: { readonly log: RunLog }) {
  const status = useLogView(log, ({ healing }) => healing?.status);
  const cursor = useLogView(log, ({ healing }) => healing?.cursor ?? 0);
  const hasSeams = useLogView(log, ({ healing }) => (healing?.texts.size ?? 0) > 0);
  if (status === "held")
    return (
      <p className="note">Held at event {number(cursor)}. The log keeps every token up to here.</p>
    );
  if (status !== "healed" || !hasSeams) return null;
  return (
    <p className="note">
      <span>
        <i className="seam" /> marks where one process stopped and the next continued.
      </span>
    </p>
  );
}

interface NotesProps {
  readonly task: Task;
  readonly log: RunLog;
  readonly text: string;
}

function isRetryable(status: Task["status"]): boolean {
  return status === "failed" || status === "cancelled" || status === "incomplete";
}

/** What a thread says at its end: which agents it waits for, why it ended. */
function Notes({ task, log, text }: NotesProps) {
  const { error, status, incompleteReason, reason = "" } = task;
  const isLive = useLogView(log, ({ at }) => at === undefined);
  const isOwn = log.run !== undefined && !log.isEarlier;
  const canRetry = isLive && isOwn && task.parentTaskId === undefined && isRetryable(status);
  return (
    <>
      {text !== "" && <p className="note">{`${sentence(text)}.`}</p>}
      {status === "failed" && (
        <p className="notice bad">
          <span>
            <b>{error?.message ?? "The agent failed."}</b>
            {/* A cause can be read in a program only. */}
            {error?.hint?.includes("`cause`") ? "" : error?.hint} Everything up to here is kept.
          </span>
        </p>
      )}
      {status === "cancelled" && (
        <p className="note">
          {/^cancelled\b/i.test(reason)
            ? sentence(reason)
            : `Cancelled${reason === "" ? "" : `: ${reason}`}`}
          .
        </p>
      )}
      {status === "incomplete" && (
        <p className="note">Stopped early: {incompleteReason?.replaceAll("_", " ")}.</p>
      )}
      {canRetry && (
        <p className="note">
          <button type="button" className="btn sm" onClick={() => retry(log).catch(showError)}>
            Retry
          </button>
        </p>
      )}
    </>
  );
}

function sentence(text: string): string {
  return `${text[0]?.toUpperCase() ?? ""}${text.slice(1).replace(/\.$/, "")}`;
}
