import { type KeyboardEvent, useEffect, useLayoutEffect, useRef, useState } from "react";
import type { ApprovalState } from "rivulet/protocol";
import { useApprovals } from "rivulet/react";
import { argumentsOf, labelOf, pathOf } from "../state/agents.ts";
import { duration } from "../state/format.ts";
import type { RunLog } from "../state/run-log.ts";
import { announce, showError, useUi } from "../state/ui.ts";
import { refreshWaiting } from "../state/waiting.ts";
import { useLogView, useNow } from "./context.ts";
import { EditForm } from "./edit-form.tsx";
import { changeOf, FileChange } from "./file-change.tsx";

interface CardProps {
  readonly log: RunLog;
  readonly taskId: string;
  readonly approval: ApprovalState;
}

type Decision = "approve" | "always" | "deny" | "edit" | "answer";

/** A request to a person, in its place, with everything that it would do. */
export function ApprovalCard({ log, taskId, approval }: CardProps) {
  const { name = "", kind, message, arguments: text = "" } = approval;
  const label = useLogView(log, ({ tree }) => labelOf(tree, taskId));
  const path = useLogView(log, ({ tree }) =>
    [...pathOf(tree, taskId), taskId].map((id) => labelOf(tree, id)).join(" › "),
  );
  const isPast = useLogView(log, ({ at }) => at !== undefined);
  const isMarked = useUi(({ place }) => place?.itemId === approval.approval_id);
  const approvals = useApprovals(log);
  const found = approvals.find(({ id }) => id === approval.approval_id);
  const element = useRef<HTMLElement>(null);
  const [mode, setMode] = useState<"ask" | "edit">("ask");
  const [isSent, setSent] = useState(false);
  const [reason, setReason] = useState("");
  const reasonInput = useRef<HTMLInputElement>(null);

  useWholeWidth(element);
  useEffect(() => {
    void refreshWaiting();
    return () => void refreshWaiting();
  }, []);
  // The form is another size than what it replaces.
  useLayoutEffect(() => {
    if (mode === "edit") element.current?.scrollIntoView({ block: "nearest" });
  }, [mode]);
  useEffect(() => {
    if (isMarked) element.current?.focus({ preventScroll: true });
  }, [isMarked]);

  async function send(decision: Decision, value?: unknown): Promise<void> {
    if (found === undefined || log.run === undefined || isSent || isPast) return;
    const answer = {
      approve: () => found.approve(),
      always: () => found.approve({ always: true }),
      deny: () => found.deny(reason.trim() === "" ? undefined : reason.trim()),
      edit: () => found.edit(value),
      answer: () => found.answer(String(value)),
    }[decision]();
    setSent(true);
    try {
      await log.run.answer(answer);
      announce(`${label}: ${decision === "deny" ? "denied" : "answered"}.`);
    } catch (error) {
      setSent(false);
      showError(error);
    }
  }

  function onKeyDown(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || isText(event.target)) return;
    const keys: Record<string, () => void> = {
      a: () => void send("approve"),
      A: () => void send("always"),
      e: () => setMode("edit"),
      d: () => reasonInput.current?.focus(),
    };
    const act = kind === "question" || kind === "external" ? undefined : keys[event.key];
    if (act === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  const input = argumentsOf(text);
  const change = changeOf(name, input);
  const isQuestion = kind === "question" || kind === "external";
  return (
    <section
      ref={element}
      className="appr"
      tabIndex={-1}
      data-approval={approval.approval_id}
      aria-label={`${label} ${isQuestion ? "asks" : `wants to run ${name}`}`}
      onKeyDown={onKeyDown}
    >
      <p className="path">{path}</p>
      <h3>{title(label, approval)}</h3>
      {message !== undefined && message !== `Allow ${name}?` && !isQuestion && (
        <p className="why">“{message}”</p>
      )}
      {mode === "ask" && !isQuestion && (
        <Arguments input={input} text={text} hasDiff={change !== undefined} approval={approval} />
      )}
      {mode === "ask" && change && <FileChange change={change} isPending />}
      {isPast ? (
        <p className="why">This was asked here. Return to live to see what came of it.</p>
      ) : isQuestion ? (
        <AnswerForm isSent={isSent} isExternal={kind === "external"} onSend={send} />
      ) : mode === "edit" ? (
        <EditForm
          text={text}
          isSent={isSent}
          onSend={(value) => void send("edit", value)}
          onCancel={() => setMode("ask")}
        />
      ) : (
        <div className="acts">
          <button
            type="button"
            className="btn yes"
            disabled={isSent}
            onClick={() => void send("approve")}
          >
            {kind === "stop" ? "Continue" : "Approve"} <kbd>a</kbd>
          </button>
          {kind === "tool_call" && (
            <>
              <button
                type="button"
                className="btn"
                disabled={isSent}
                onClick={() => setMode("edit")}
              >
                Edit <kbd>e</kbd>
              </button>
              <button
                type="button"
                className="btn"
                disabled={isSent}
                title={`Approve every call of ${name} in this session`}
                onClick={() => void send("always")}
              >
                Always for {name} <kbd>⇧a</kbd>
              </button>
            </>
          )}
          <form
            className="deny"
            onSubmit={(event) => {
              event.preventDefault();
              void send("deny");
            }}
          >
            <input
              ref={reasonInput}
              value={reason}
              aria-label={`Reason, sent to ${label}`}
              placeholder={`Reason, sent to ${label}`}
              onChange={({ target }) => setReason(target.value)}
            />
            <button type="submit" className="btn no" disabled={isSent}>
              Deny <kbd>d</kbd>
            </button>
          </form>
        </div>
      )}
    </section>
  );
}

/** On a phone the card leaves its thread and takes the width of the screen. */
function useWholeWidth(element: React.RefObject<HTMLElement | null>): void {
  useLayoutEffect(() => {
    const { current } = element;
    const parent = current?.parentElement;
    if (!current || !parent) return;
    const place = () => {
      const left =
        parent.getBoundingClientRect().left +
        Number.parseFloat(getComputedStyle(parent).paddingLeft);
      current.style.setProperty("--appr-shift", `${left - 2}px`);
    };
    place();
    const observer = new ResizeObserver(place);
    observer.observe(parent);
    return () => observer.disconnect();
  }, [element]);
}

function title(label: string, { kind, name, message }: ApprovalState) {
  if (kind === "question") return `${label} asks: ${message ?? name ?? ""}`;
  if (kind === "external")
    return (
      <>
        {label} waits for the result of <code>{name}</code>
      </>
    );
  if (kind === "stop" && !name) return `${label} was stopped before it continues`;
  return (
    <>
      {label} wants to run <code>{name}</code>
    </>
  );
}

interface ArgumentsProps {
  readonly input: Readonly<Record<string, unknown>> | undefined;
  readonly text: string;
  readonly hasDiff: boolean;
  readonly approval: ApprovalState;
}

/** Every argument in full; those that a diff shows are left to it. */
function Arguments({ input, text, hasDiff, approval }: ArgumentsProps) {
  const inDiff = ["old_string", "new_string", "content"];
  const entries = Object.entries(input ?? {}).filter(
    ([name]) => !hasDiff || !inDiff.includes(name),
  );
  return (
    <dl>
      {input === undefined && text !== "" && (
        <div>
          <dt>arguments</dt>
          <dd>{text}</dd>
        </div>
      )}
      {entries.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{typeof value === "string" ? value : JSON.stringify(value, null, 2)}</dd>
        </div>
      ))}
      {approval.edited && (
        <div>
          <dt>note</dt>
          <dd>A rule has changed this call; these are the arguments that would run.</dd>
        </div>
      )}
      {approval.expires_at !== undefined && <Expiry at={approval.expires_at} />}
    </dl>
  );
}

function Expiry({ at }: { readonly at: number }) {
  const now = useNow(true);
  return (
    <div>
      <dt>expires</dt>
      <dd>in {duration(at - now)}, then counts as denied</dd>
    </div>
  );
}

interface AnswerProps {
  readonly isSent: boolean;
  readonly isExternal: boolean;
  readonly onSend: (decision: Decision, value: unknown) => void;
}

function AnswerForm({ isSent, isExternal, onSend }: AnswerProps) {
  const [text, setText] = useState("");
  const label = isExternal ? "The result of the call" : "Your answer";
  return (
    <form
      className="answer"
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim() !== "") onSend("answer", text);
      }}
    >
      <input
        value={text}
        aria-label={label}
        placeholder={label}
        onChange={({ target }) => setText(target.value)}
      />
      <button type="submit" className="btn yes" disabled={isSent || text.trim() === ""}>
        Answer
      </button>
    </form>
  );
}

function isText(target: EventTarget): boolean {
  return target instanceof HTMLElement && target.matches("input, textarea, [contenteditable]");
}
