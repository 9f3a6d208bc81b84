import { type KeyboardEvent, useEffect, useLayoutEffect, useRef, useState } from "react";
import { isTerminal, RivuletError, type Task, taskOf } from "rivulet/protocol";
import { useApprovals } from "rivulet/react";
import { AgentPicker } from "./agent-picker.tsx";
import { Icon, Status } from "./icons.tsx";
import { ModelPicker } from "./model-picker.tsx";
import { labelOf, pathOf, shapeOf } from "./state/agents.ts";
import { api } from "./state/api.ts";
import { attach } from "./state/attachments.ts";
import { mentionedBy, mentionOf, readMention } from "./state/mentions.ts";
import type { LogSnapshot, RunLog } from "./state/run-log.ts";
import { ask, hasWorkspace, useLog, useSessions } from "./state/sessions.ts";
import { getUi, openPlace, setUi, showError, type Ui, useUi } from "./state/ui.ts";
import { cancelTask } from "./thread/actions.ts";
import { useLogView } from "./thread/context.ts";

/** Asks, steers and stops. */
export function Composer() {
  const log = useLog();
  const hasFiles = useSessions(hasWorkspace);
  const isNew = useSessions(({ open }) => open.id === undefined);
  const first = hasFiles ? "Ask about the files in this workspace" : "Ask a question";
  return log === undefined ? (
    <div className="compose">
      <Box placeholder={isNew ? first : "Ask the next question"} onSend={ask}>
        {isNew && <AgentPicker />}
        <ModelPicker />
      </Box>
    </div>
  ) : (
    <RunComposer log={log} />
  );
}

function RunComposer({ log }: { readonly log: RunLog }) {
  const rootId = useLogView(log, ({ tree }) => tree.rootId);
  const isOver = useLogView(log, ({ tree }) => {
    const root = taskOf(tree, tree.rootId);
    return root !== undefined && isTerminal(root.status);
  });
  const isPast = useLogView(log, ({ at }) => at !== undefined);
  const isHeld = useLogView(log, ({ healing }) => healing?.status === "held");
  const steered = useUi(({ steered }) => steered) ?? rootId;
  const label = useLogView(log, ({ tree }) =>
    steered === undefined ? "" : mentionOf(tree, steered),
  );
  const file = useSessions(({ open }) => open.file);
  if (file !== undefined || log.run === undefined)
    return (
      <div className="compose">
        <div className="box is-off">
          This run is from a file. It can be replayed, not continued.
        </div>
      </div>
    );
  if (isPast)
    return (
      <div className="compose">
        <div className="box is-off">Read only in the past. Fork to continue from here.</div>
      </div>
    );
  return (
    <div className="compose">
      <Needs log={log} />
      <Sent log={log} />
      {isOver ? (
        <Box placeholder="Ask the next question" onSend={ask}>
          <ModelPicker />
        </Box>
      ) : (
        <Box
          placeholder={
            isHeld
              ? "Messages are kept and sent after the reconnect."
              : "Steer the run. Type @ to reach one agent."
          }
          to={label}
          log={log}
          onSend={async (text) => {
            if (steered !== undefined) await steer(log, steered, text);
          }}
          idle={
            <button
              type="button"
              className="btn"
              onClick={() => rootId !== undefined && void cancelTask(rootId)}
            >
              <Icon name="stop" /> Stop <kbd>esc</kbd>
            </button>
          }
        />
      )}
    </div>
  );
}

/** Sends a message to a task, or to the agent whose name it begins with. */
async function steer(log: RunLog, chosenId: string, typed: string): Promise<void> {
  const { tree } = log.getSnapshot();
  const { tasks: [named, ...more] = [], rest: text = typed } = readMention(tree, typed) ?? {};
  if (named && more.length > 0)
    throw new RivuletError("ambiguous_name", `${more.length + 1} agents have this name.`, {
      hint: `Write ${[named, ...more].map(({ id }) => `@${mentionOf(tree, id)}`).join(" or ")}.`,
    });
  const taskId = named?.id ?? chosenId;
  await api.steer(taskId, text);
  const { sent } = getUi();
  const waiting = sent.filter((message) => message.taskId === taskId && isUnread(log, message));
  const after = messagesTo(log, taskId) + waiting.length;
  setUi({ steered: undefined, sent: [...sent, { taskId, text, after }] });
}

function messagesTo(log: RunLog, taskId: string): number {
  const { hints = [] } = taskOf(log.getSnapshot().tree, taskId) ?? {};
  return hints.filter(({ from_task_id }) => from_task_id === undefined).length;
}

function isUnread(log: RunLog, { taskId, after }: Ui["sent"][number]): boolean {
  const task = taskOf(log.getSnapshot().tree, taskId);
  return task !== undefined && messagesTo(log, taskId) <= after;
}

/** When an agent reads a message: the session keeps one that its run has not read. */
function readingOf({ tree }: LogSnapshot, taskId: string): string {
  const task = taskOf(tree, taskId);
  const label = labelOf(tree, taskId);
  if (task === undefined || !isTerminal(task.status))
    return `${label} reads this before its next step`;
  return task.parentTaskId === undefined
    ? `${label} ended before it read this, and reads it with your next question`
    : `${label} ended before it read this`;
}

/** The messages that an agent has not read yet. */
function Sent({ log }: { readonly log: RunLog }) {
  const sent = useUi(({ sent }) => sent);
  const unread = useLogView(log, (snapshot) =>
    sent
      .flatMap((message, index) =>
        isUnread(log, message) ? [`${index} ${readingOf(snapshot, message.taskId)}`] : [],
      )
      .join("\n"),
  );
  return unread.split("\n").map((line) => {
    const [, index = "", reading] = /^(\d+) (.*)$/.exec(line) ?? [];
    const message = sent[Number(index)];
    if (index === "" || message === undefined) return null;
    return (
      <p key={index} className="sent">
        <Icon name="steer" />
        <span className="grow">{message.text}</span>
        <span className="by">{reading}</span>
      </p>
    );
  });
}

interface BoxProps {
  readonly placeholder: string;
  readonly to?: string;
  readonly log?: RunLog;
  readonly onSend: (text: string) => Promise<void>;
  /** Stands in the place of the button while there is no text. */
  readonly idle?: React.ReactNode;
  readonly children?: React.ReactNode;
}

/** Whether the composer that is replaced by another one had the focus. */
let hadFocus = false;

/** A text that is sent with Enter; a text that could not be sent waits for the connection. */
function Box({ placeholder, to, log, onSend, idle, children }: BoxProps) {
  const [text, setText] = useState("");
  const [pending, setPending] = useState<string>();
  const area = useRef<HTMLTextAreaElement>(null);
  const mention = log && /(?:^|\s)@([\p{L}\p{N}_/.-]*)$/u.exec(text)?.[1];
  const mentioned =
    log && mention !== undefined ? mentionedBy(log.getSnapshot().tree, mention).slice(0, 8) : [];

  function pick(taskId: string): void {
    setUi({ steered: taskId });
    setText(text.replace(/@[\p{L}\p{N}_/.-]*$/u, ""));
    area.current?.focus();
  }

  useLayoutEffect(() => {
    const { current } = area;
    if (hadFocus) current?.focus();
    hadFocus = false;
    return () => {
      hadFocus = document.activeElement === current;
    };
  }, []);

  async function send(given = text): Promise<void> {
    const trimmed = given.trim();
    if (trimmed === "") return;
    setText("");
    try {
      await onSend(trimmed);
      setPending(undefined);
    } catch (error) {
      if ((error as { code?: string }).code === "unreachable") setPending(trimmed);
      else {
        setText(trimmed);
        showError(error);
      }
    }
  }

  useEffect(() => {
    if (pending === undefined) return;
    const timer = setTimeout(() => void send(pending), 1_000);
    return () => clearTimeout(timer);
  });

  function onKeyDown(event: KeyboardEvent): void {
    if (event.shiftKey || event.nativeEvent.isComposing) return;
    const [first] = mentioned;
    const isPick = first !== undefined && (event.key === "Enter" || event.key === "Tab");
    if (event.key !== "Enter" && !isPick) return;
    event.preventDefault();
    if (isPick) pick(first.id);
    else void send();
  }

  return (
    <>
      {to === undefined && <AttachedFiles />}
      {log && mentioned.length > 0 && <Mentions log={log} tasks={mentioned} onPick={pick} />}
      <form
        className="box"
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
      >
        {to === undefined && <AttachButton />}
        {to !== undefined && <span className="to">to {to}</span>}
        <textarea
          id="composer"
          ref={area}
          rows={1}
          value={text}
          placeholder={pending === undefined ? placeholder : `Waiting to send: ${pending}`}
          aria-label={to === undefined ? "Your question" : `A message to ${to}`}
          onChange={({ target }) => setText(target.value)}
          onKeyDown={onKeyDown}
          onPaste={({ clipboardData }) => {
            if (to === undefined && clipboardData.files.length > 0)
              void attach(clipboardData.files);
          }}
        />
        {children}
        {text.trim() !== "" || idle === undefined ? (
          <button type="submit" className="btn go" disabled={text.trim() === ""}>
            {to === undefined ? "Run" : "Send"} <kbd>↵</kbd>
          </button>
        ) : (
          idle
        )}
      </form>
    </>
  );
}

function AttachButton() {
  return (
    <label className="icon attach" title="Attach files">
      <Icon name="clip" />
      <span className="vh">Attach files</span>
      <input
        type="file"
        className="vh"
        multiple
        onChange={({ target }) => {
          void attach([...(target.files ?? [])]);
          target.value = "";
        }}
      />
    </label>
  );
}

/** The files that go with the next question. */
function AttachedFiles() {
  const attached = useUi(({ attached }) => attached);
  if (attached.length === 0) return null;
  return (
    <ul className="attached" aria-label="Attached files">
      {attached.map((file) => (
        <li key={file.name}>
          <Icon name="file" />
          <span>{file.name}</span>
          <button
            type="button"
            className="icon"
            aria-label={`Remove ${file.name}`}
            onClick={() =>
              setUi(({ attached }) => ({ attached: attached.filter((other) => other !== file) }))
            }
          >
            <Icon name="close" />
          </button>
        </li>
      ))}
    </ul>
  );
}

interface MentionsProps {
  readonly log: RunLog;
  readonly tasks: readonly Task[];
  readonly onPick: (taskId: string) => void;
}

/** Agents to choose from; Enter takes the first. */
function Mentions({ log, tasks, onPick }: MentionsProps) {
  const { tree } = log.getSnapshot();
  return (
    <ul className="mentions" aria-label="Agents">
      {tasks.map((task) => (
        <li key={task.id}>
          <button type="button" onClick={() => onPick(task.id)}>
            <Status shape={shapeOf(task)} /> {mentionOf(tree, task.id)}
          </button>
        </li>
      ))}
    </ul>
  );
}

/** One line that leads to an approval. */
function Needs({ log }: { readonly log: RunLog }) {
  const approvals = useApprovals(log);
  const [first] = approvals;
  const isInView = useInView(first?.id);
  useEffect(() => {
    const title = "Rivulet";
    document.title = approvals.length > 0 ? `◆ ${approvals.length} · ${title}` : title;
    return () => {
      document.title = title;
    };
  }, [approvals.length]);
  if (first === undefined || isInView) return null;
  const { tree } = log.getSnapshot();
  const path = first.call.input as { path?: unknown } | undefined;
  const target = typeof path?.path === "string" ? ` ${path.path}` : "";
  return (
    <div className="needs">
      <Status shape="ask" />
      <b>{approvals.length === 1 ? "1 approval" : `${approvals.length} approvals`}</b>
      <span className="grow">
        {labelOf(tree, first.taskId)}{" "}
        {first.kind === "question" ? "asks a question" : `wants to run ${first.call.name}${target}`}
      </span>
      <button type="button" className="btn sm" onClick={() => goToApproval(log, 0)}>
        Go to it <kbd>g a</kbd>
      </button>
    </div>
  );
}

function useInView(approvalId: string | undefined): boolean {
  const [isInView, setInView] = useState(false);
  useEffect(() => {
    setInView(false);
    if (approvalId === undefined) return;
    const observer = new IntersectionObserver(
      ([entry]) => setInView(entry?.isIntersecting ?? false),
      {
        threshold: 0.3,
      },
    );
    const selector = `[data-approval="${CSS.escape(approvalId)}"]`;
    let observed: Element | null = null;
    // The card appears and goes as threads fold.
    const look = () => {
      const found = document.querySelector(selector);
      if (found === observed) return;
      if (observed) observer.unobserve(observed);
      observed = found;
      if (found) observer.observe(found);
      else setInView(false);
    };
    look();
    const timer = setInterval(look, 300);
    return () => {
      clearInterval(timer);
      observer.disconnect();
    };
  }, [approvalId]);
  return isInView;
}

/** Scrolls to the approval number `index` and gives it the focus. */
export function goToApproval(log: RunLog, index: number): void {
  const { tree } = log.getSnapshot();
  const waiting = Object.values(tree.tasks).flatMap((task) =>
    isTerminal(task.status)
      ? []
      : task.approvals
          .filter(({ decision }) => decision === undefined)
          .map(({ approval_id }) => ({ taskId: task.id, itemId: approval_id })),
  );
  const place = waiting[index % Math.max(1, waiting.length)];
  if (place) openPlace(place, pathOf(tree, place.taskId));
}
