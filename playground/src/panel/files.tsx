import { useEffect, useRef, useState } from "react";
import { isTerminal, type RivuletError, taskOf } from "rivulet/protocol";
import { Icon } from "../icons.tsx";
import { api, type FileEntry } from "../state/api.ts";
import { bytes } from "../state/format.ts";
import { hasWorkspace, useLog, useSessions } from "../state/sessions.ts";
import { useUi } from "../state/ui.ts";

interface Listing {
  readonly entries?: readonly FileEntry[];
  readonly text?: string;
  readonly error?: string;
}

/** The files that the agents of this session see. */
export function Files() {
  const sessionId = useSessions(({ open }) => open.id);
  const hasFiles = useSessions(hasWorkspace);
  const log = useLog();
  const wanted = useUi(({ file }) => file);
  const [path, setPath] = useState(wanted?.path ?? "");
  const [isFile, setFile] = useState(wanted !== undefined);
  useEffect(() => {
    if (wanted === undefined) return;
    setPath(wanted.path);
    setFile(true);
  }, [wanted]);
  const [listing, setListing] = useState<Listing>({});
  const [version, setVersion] = useState(0);
  useEffect(() => {
    // The list is read again when a tool has ended.
    let ended = 0;
    return log?.subscribe(() => {
      const { tree } = log.getSnapshot();
      const root = taskOf(tree, tree.rootId);
      const count = root && isTerminal(root.status) ? -1 : Object.keys(tree.tasks).length;
      if (count !== ended) setVersion((now) => now + 1);
      ended = count;
    });
  }, [log]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new version reads the list again
  useEffect(() => {
    if (sessionId === undefined || !hasFiles) return;
    let isCurrent = true;
    const read = isFile
      ? api.file(sessionId, path).then((text) => ({ text }))
      : api.files(sessionId, path).then(({ entries }) => ({ entries }));
    read.then(
      (found) => isCurrent && setListing(found),
      ({ message }: RivuletError) => isCurrent && setListing({ error: message }),
    );
    return () => {
      isCurrent = false;
    };
  }, [sessionId, path, isFile, version, hasFiles]);
  if (!hasFiles) return <p className="none">The agents of this server have no workspace.</p>;
  if (sessionId === undefined)
    return <p className="none">The files of the workspace appear with the first run.</p>;
  const parts = path === "" ? [] : path.split("/");
  const open = (next: string, isNextFile: boolean) => {
    setPath(next);
    setFile(isNextFile);
  };
  return (
    <>
      <nav className="ih" aria-label="Path">
        <button type="button" className="link" onClick={() => open("", false)}>
          workspace
        </button>
        {parts.map((part, index) => (
          <span key={parts.slice(0, index + 1).join("/")}>
            {"/ "}
            {index === parts.length - 1 ? (
              <b>{part}</b>
            ) : (
              <button
                type="button"
                className="link"
                onClick={() => open(parts.slice(0, index + 1).join("/"), false)}
              >
                {part}
              </button>
            )}
          </span>
        ))}
      </nav>
      <div className="scroll">
        {listing.error !== undefined && <p className="none">{listing.error}</p>}
        {listing.text !== undefined && isFile && (
          <FileText text={listing.text} line={path === wanted?.path ? wanted.line : undefined} />
        )}
        {!isFile && listing.entries?.length === 0 && <p className="none">This folder is empty.</p>}
        {!isFile &&
          listing.entries?.map((entry) => (
            <button
              key={entry.path}
              type="button"
              className="filerow"
              onClick={() => open(entry.path, entry.type === "file")}
            >
              <Icon name={entry.type === "file" ? "file" : "folder"} />
              <span className="grow">{entry.path.split("/").at(-1)}</span>
              {entry.size !== undefined && entry.type === "file" && (
                <span className="num">{bytes(entry.size)}</span>
              )}
            </button>
          ))}
      </div>
    </>
  );
}

/** How many lines are shown at once. */
const shownLines = 2_000;

interface TextProps {
  readonly text: string;
  readonly line: number | undefined;
}

function FileText({ text, line }: TextProps) {
  const marked = useRef<HTMLLIElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another text, or another line, is shown from its line
  useEffect(() => marked.current?.scrollIntoView({ block: "center" }), [text, line]);
  const lines = text.split("\n");
  const from = line === undefined ? 0 : Math.max(0, line - shownLines / 2);
  return (
    <ol className="lines" start={from + 1}>
      {lines.slice(from, from + shownLines).map((content, index) => {
        const isMarked = from + index + 1 === line;
        return (
          <li
            key={(from + index).toString()}
            ref={isMarked ? marked : undefined}
            className={isMarked ? "cited" : undefined}
          >
            {content}
          </li>
        );
      })}
    </ol>
  );
}
