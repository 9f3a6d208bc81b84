import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { type RivuletError, textOf } from "rivulet/protocol";
import { Icon } from "./icons.tsx";
import { Markdown } from "./markdown/markdown.tsx";
import { Start } from "./start.tsx";
import { duration, number } from "./state/format.ts";
import type { RunLog } from "./state/run-log.ts";
import { load, type OpenSession, signIn, useLog, useSessions } from "./state/sessions.ts";
import { setUi, showError, useUi } from "./state/ui.ts";
import { momentOf, useLogView } from "./thread/context.ts";
import { Skeleton, Turn } from "./thread/turn.tsx";

/** What do the agents say? */
export function Conversation() {
  const status = useSessions(({ status }) => status);
  const open = useSessions(({ open }) => open);
  const log = useLog();
  const notice = useUi(({ notice }) => notice);
  return (
    <>
      {log && <PastBar log={log} />}
      {notice && (
        <div
          className={notice.isError ? "notice bad top-notice" : "notice top-notice"}
          role={notice.isError ? "alert" : undefined}
        >
          <span className="grow">{notice.text}</span>
          <button
            type="button"
            className="icon"
            aria-label="Dismiss"
            onClick={() => setUi({ notice: undefined })}
          >
            <Icon name="close" />
          </button>
        </div>
      )}
      {status === "refused" ? (
        <SignIn />
      ) : status === "error" ? (
        <Unreachable />
      ) : status === "loading" || open.status === "loading" ? (
        <div className="talk">
          <div className="col">
            <Skeleton />
          </div>
        </div>
      ) : open.status === "error" ? (
        <NotOpened error={open.error} />
      ) : log === undefined && open.id === undefined ? (
        <Start />
      ) : log === undefined ? (
        <div className="talk">
          <div className="col">
            <Earlier earlier={open.earlier} copied={open.copied} />
          </div>
        </div>
      ) : (
        <Talk open={open} log={log} />
      )}
    </>
  );
}

/** A session that cannot be shown. The hints of the server are for programs, so a common case has its own. */
function NotOpened({ error }: { readonly error: RivuletError | undefined }) {
  const isMissing = error?.code === "not_found";
  return (
    <div className="talk">
      <p className="notice bad col">
        <span>
          <b>{isMissing ? "This run is not on this server." : error?.message}</b>
          {isMissing
            ? "It was deleted, or it belongs to another person. Open another run, or ask a new question."
            : error?.hint}
        </span>
      </p>
    </div>
  );
}

/** The conversation that a fork continues: the turns before it, or its copies of their questions and answers. */
function Earlier({ earlier, copied }: Pick<OpenSession, "earlier" | "copied">) {
  if (earlier.length + copied.length === 0) return null;
  return (
    <section className="earlier" aria-label="Before the fork">
      {earlier.map((turn) => (
        <Turn key={turn.taskId} log={turn} />
      ))}
      {copied.map(({ id, role, content }) =>
        role === "user" ? (
          <h2 key={id} className="ask-q">
            {textOf(content)}
          </h2>
        ) : (
          <div key={id} className="say lead">
            <Markdown text={textOf(content)} isOpen={false} renderCitation={() => null} />
          </div>
        ),
      )}
      <p className="note">This session was forked here.</p>
    </section>
  );
}

interface TalkProps {
  readonly open: OpenSession;
  readonly log: RunLog;
}

/** The turns of a session. It follows the newest words only while the reader is at the end. */
function Talk({ open: { turns, earlier, copied }, log }: TalkProps) {
  const element = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const seen = useRef(0);
  const [isAway, setAway] = useState(false);
  const focus = useUi(({ focus }) => focus);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another run begins at its end
  useLayoutEffect(() => {
    isAtEnd.current = true;
  }, [log]);
  useEffect(() => {
    const [scroller, inner] = [element.current, content.current];
    if (scroller === null || inner === null) return;
    const onScroll = () => {
      const left = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
      isAtEnd.current = left < 48;
      if (isAtEnd.current) seen.current = log.getSnapshot().last;
      setAway(!isAtEnd.current);
    };
    const toEnd = () => {
      // A request that is being answered stays where it is.
      if (document.activeElement?.closest(".appr")) return;
      if (isAtEnd.current) scroller.scrollTop = scroller.scrollHeight;
      else if (scroller.scrollHeight <= scroller.clientHeight) onScroll(); // threads have folded
    };
    const observer = new ResizeObserver(toEnd);
    observer.observe(inner);
    observer.observe(scroller);
    scroller.addEventListener("scroll", onScroll, { passive: true });
    toEnd();
    return () => {
      observer.disconnect();
      scroller.removeEventListener("scroll", onScroll);
    };
  }, [log]);
  return (
    <div className="talkbox">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scroll area needs the focus to scroll by keys */}
      <div className="talk" ref={element} tabIndex={0} role="region" aria-label="Conversation">
        <div className="col" ref={content}>
          {focus === undefined && <Earlier earlier={earlier} copied={copied} />}
          {(focus === undefined ? turns : turns.slice(-1)).map((turn) => (
            <Turn key={turn.taskId} log={turn} />
          ))}
        </div>
      </div>
      {isAway && (
        <NewWords
          log={log}
          seen={seen.current}
          onClick={() => {
            isAtEnd.current = true;
            element.current?.scrollTo({ top: element.current.scrollHeight });
          }}
        />
      )}
    </div>
  );
}

interface NewProps {
  readonly log: RunLog;
  readonly seen: number;
  readonly onClick: () => void;
}

function NewWords({ log, seen, onClick }: NewProps) {
  const count = useLogView(log, ({ last }) => last - seen);
  const isLive = useLogView(log, ({ connection, at }) => connection.status === "open" && !at);
  return (
    <button type="button" className="btn newest" onClick={onClick}>
      <Icon name="down" /> {isLive && count > 0 ? `${number(count)} new` : "To the end"}
    </button>
  );
}

function PastBar({ log }: { readonly log: RunLog }) {
  const at = useLogView(log, ({ at }) => at);
  const last = useLogView(log, ({ last }) => last);
  if (at === undefined) return null;
  const moment = momentOf(log) ?? 0;
  const start = log.events[0]?.created_at ?? moment;
  const newer = last - at;
  return (
    <div className="pastbar" role="status">
      Past
      <span className="grow">
        The tree as it was at event {number(at)}, {duration(moment - start)} after the start.
        {newer > 0 && ` ${number(newer)} newer events are kept.`}
      </span>
    </div>
  );
}

/** The server needs a key that the page does not have. */
function SignIn() {
  const [token, setToken] = useState("");
  return (
    <div className="talk">
      <form
        className="hero"
        onSubmit={(event) => {
          event.preventDefault();
          signIn(token.trim()).catch((error: RivuletError) =>
            showError(
              error.code === "unauthorized"
                ? new Error(
                    "The server does not accept this token. Copy it from the printed address.",
                  )
                : error,
            ),
          );
        }}
      >
        <h2>This server needs a key.</h2>
        <p>Open the address that the server printed, or paste its token here.</p>
        <div className="signin">
          <input
            type="password"
            aria-label="Token"
            placeholder="Token"
            autoComplete="off"
            value={token}
            onChange={({ target }) => setToken(target.value)}
          />
          <button type="submit" className="btn go" disabled={token.trim() === ""}>
            Sign in
          </button>
        </div>
      </form>
    </div>
  );
}

function Unreachable() {
  return (
    <div className="talk">
      <div className="hero">
        <h2>The server does not answer.</h2>
        <p>Runs continue on the server without this page. It tries again every few seconds.</p>
        <button type="button" className="btn go" onClick={() => void load()}>
          Try now
        </button>
      </div>
    </div>
  );
}
