import { useEffect, useRef, useState } from "react";
import type { ListedSession } from "rivulet";
import type { ListedApproval } from "rivulet/client";
import { taskOf } from "rivulet/protocol";
import { AgentPicker } from "./agent-picker.tsx";
import { Icon, Mark, Status } from "./icons.tsx";
import { endOfRun, type Shape } from "./state/agents.ts";
import { type AgentOffer, server } from "./state/api.ts";
import { clock, dayOf, duration, plural } from "./state/format.ts";
import { openFile } from "./state/open-file.ts";
import type { RunLog } from "./state/run-log.ts";
import {
  addressOf,
  currentAgent,
  deleteSession,
  forkName,
  pickedModel,
  showNew,
  useLog,
  useSessions,
} from "./state/sessions.ts";
import { setTheme, setUi } from "./state/ui.ts";
import { useWaiting } from "./state/waiting.ts";
import { useLogView } from "./thread/context.ts";
import { useSummary } from "./top-bar.tsx";

/** Which run? The sessions, newest first, with search. */
export function Rail() {
  const [query, setQuery] = useState("");
  const matches = useMatches(query);
  const list = useSessions(({ list }) => list);
  const status = useSessions(({ status }) => status);
  const openId = useSessions(({ open }) => open.id);
  const shown = matches
    ? list.filter(
        ({ sessionId, title = "" }) =>
          matches.has(sessionId) || title.toLowerCase().includes(query.toLowerCase().trim()),
      )
    : list;
  const days = new Map<string, ListedSession[]>();
  for (const session of shown) {
    const day = dayOf(session.updatedAt);
    days.set(day, [...(days.get(day) ?? []), session]);
  }
  return (
    <nav className="rail" aria-label="Runs">
      <div className="brand">
        <Mark /> Rivulet
        <span className="grow" />
        <button
          type="button"
          className="icon"
          aria-label="New run"
          title="New run (n)"
          onClick={showNew}
        >
          <Icon name="plus" />
        </button>
      </div>
      <AgentPicker>New runs with</AgentPicker>
      <label className="find">
        <Icon name="find" />
        <span className="vh">Search runs</span>
        <input
          id="search"
          type="search"
          placeholder="Search runs"
          value={query}
          onChange={({ target }) => setQuery(target.value)}
        />
        <kbd>/</kbd>
      </label>
      <div className="sessions">
        {query === "" && status === "ready" && <Waiting />}
        {[...days].map(([day, sessions]) => (
          <section key={day} aria-label={day}>
            <h2>{day}</h2>
            {sessions.map((session) => (
              <SessionRow
                key={session.sessionId}
                session={session}
                isOpen={session.sessionId === openId}
                excerpt={matches?.get(session.sessionId)}
              />
            ))}
          </section>
        ))}
        {status === "ready" && shown.length === 0 && (
          <>
            <h2>Runs</h2>
            <p className="none">
              {query === ""
                ? "No runs yet. Drop a run file anywhere on this page to replay it."
                : `No run has the words “${query}”.`}
            </p>
          </>
        )}
      </div>
      <Foot />
    </nav>
  );
}

/** The approvals that wait for the user, in all runs. */
function Waiting() {
  const waiting = useWaiting() ?? [];
  if (waiting.length === 0) return null;
  return (
    <section aria-label="Waiting for you">
      <h2>Waiting for you</h2>
      {waiting.map((approval) => (
        <div className="sess" key={approval.id}>
          <a href={addressOf(approval.sessionId)} onClick={() => setUi({ drawer: undefined })}>
            <Status shape="ask" />
            <b>{requestOf(approval)}</b>
            <small>{approval.title ?? "Untitled run"}</small>
          </a>
        </div>
      ))}
    </section>
  );
}

function requestOf({ path, agentName, kind, call }: ListedApproval): string {
  const who = path?.split("/").at(-1) ?? agentName;
  if (kind === "question" || kind === "external") return `${who} asks`;
  return call.name === "" ? `${who} stopped` : `${who} wants to run ${call.name}`;
}

/** The excerpts of the sessions that have the words; undefined without words. */
function useMatches(query: string): ReadonlyMap<string, string> | undefined {
  const [matches, setMatches] = useState<ReadonlyMap<string, string>>();
  const words = query.trim();
  useEffect(() => {
    if (words === "") return setMatches(undefined);
    let isCurrent = true;
    const timer = setTimeout(() => {
      server.sessions.search(words, { limit: 50 }).then(
        (found) => {
          if (!isCurrent) return;
          setMatches(new Map(found.map(({ sessionId, excerpt }) => [sessionId, excerpt])));
        },
        () => isCurrent && setMatches(new Map()), // titles are searched here
      );
    }, 120);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [words]);
  return words === "" ? undefined : (matches ?? new Map());
}

const shapes: Readonly<Record<string, Shape>> = {
  queued: "queued",
  in_progress: "run",
  suspended: "ask",
  completed: "done",
  failed: "fail",
  cancelled: "off",
  incomplete: "part",
};

interface RowProps {
  readonly session: ListedSession;
  readonly isOpen: boolean;
  readonly excerpt: string | undefined;
}

function SessionRow({ session, isOpen, excerpt }: RowProps) {
  const { sessionId, updatedAt, agentId, status = "completed" } = session;
  const isOneOfMany = useSessions(({ agents }) => agents.length > 1);
  const fork = useSessions((all) => forkName(all, sessionId));
  const log = useLog();
  const input = useSessions(({ open }) =>
    isOpen ? (open.earlier[0] ?? open.turns[0])?.input : undefined,
  );
  const title = session.title ?? input ?? "Untitled run";
  return (
    <div className={isOpen ? "sess on" : "sess"}>
      <a
        href={addressOf(sessionId)}
        aria-current={isOpen ? "page" : undefined}
        onClick={() => setUi({ drawer: undefined })}
      >
        {isOpen && log ? <LiveStatus log={log} /> : <Status shape={shapes[status] ?? "done"} />}
        <b>{title}</b>
        <small>
          {fork && `${fork}, `}
          {isOneOfMany && agentId !== undefined && `${agentId}, `}
          {excerpt ?? (isOpen && log ? <LiveSummary log={log} /> : `${clock(updatedAt)}`)}
        </small>
      </a>
      <DeleteButton sessionId={sessionId} title={title} />
    </div>
  );
}

function LiveStatus({ log }: { readonly log: RunLog }) {
  return <Status shape={useSummary(log).shape} />;
}

const states: Readonly<Partial<Record<Shape, string>>> = {
  run: "running",
  ask: "waiting for you",
  hold: "held",
  fail: "failed",
  off: "cancelled",
  part: "stopped early",
};

function LiveSummary({ log }: { readonly log: RunLog }) {
  const count = useLogView(log, ({ tree }) => Object.keys(tree.tasks).length);
  const took = useLogView(log, ({ tree }) => {
    const [from, to] = [taskOf(tree, tree.rootId)?.createdAt, endOfRun(tree)];
    return from === undefined || to === undefined ? undefined : to - from;
  });
  const { shape } = useSummary(log);
  const state = states[shape] ?? (took === undefined ? undefined : duration(took));
  return [plural(count, "agent"), state].filter(Boolean).join(", ");
}

/** Deletes after a second click. */
function DeleteButton({
  sessionId,
  title,
}: {
  readonly sessionId: string;
  readonly title: string;
}) {
  const [isSure, setSure] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  return (
    <button
      type="button"
      className={isSure ? "icon del sure" : "icon del"}
      aria-label={isSure ? `Really delete ${title}` : `Delete ${title}`}
      onClick={() => {
        clearTimeout(timer.current);
        if (isSure) return void deleteSession(sessionId);
        setSure(true);
        timer.current = setTimeout(() => setSure(false), 3_000);
      }}
    >
      {isSure ? "Delete" : <Icon name="trash" />}
    </button>
  );
}

const noAgent: Partial<AgentOffer> = {};

/** What the agents work with. */
function Foot() {
  const { workspace, model: own } = useSessions((all) => currentAgent(all) ?? noAgent);
  const model = useSessions(pickedModel) ?? own;
  const [theme, show] = useState(document.documentElement.dataset.theme);
  const next = theme === "dark" ? "light" : "dark";
  return (
    <div className="foot">
      <div>
        <label className="link grow">
          <Icon name="file" /> Open a run file
          <input
            type="file"
            className="vh"
            accept=".jsonl,application/x-ndjson"
            onChange={({ target }) => {
              const [file] = target.files ?? [];
              if (file) void openFile(file);
              target.value = "";
            }}
          />
        </label>
        <button
          type="button"
          className="icon"
          aria-label={`Use the ${next} theme`}
          onClick={() => {
            setTheme(next);
            show(next);
          }}
        >
          <Icon name={theme === "dark" ? "sun" : "moon"} />
        </button>
        <button
          type="button"
          className="icon"
          aria-label="Keys"
          onClick={() => setUi({ isHelpOpen: true })}
        >
          ?
        </button>
      </div>
      {workspace !== undefined && (
        <div>
          <Icon name="folder" />
          <span>{workspace === "workspace" ? workspace : `${workspace} workspace`}</span>
        </div>
      )}
      {model !== undefined && (
        <div>
          <Icon name="chip" />
          <span>{model.startsWith("demo:") ? `${model}, offline` : model}</span>
        </div>
      )}
    </div>
  );
}
