import { useEffect, useMemo, useState } from "react";
import { api } from "../state/api.ts";
import { getSessions, hasWorkspace } from "../state/sessions.ts";
import { Diff, editLines, writeLines } from "./diff.tsx";

/** The change that a call makes to a file; undefined if it makes none. */
export function changeOf(
  name: string,
  input: Readonly<Record<string, unknown>> | undefined,
): Change | undefined {
  const { path, old_string: before, new_string: after, content } = input ?? {};
  if (typeof path !== "string") return undefined;
  if (name === "edit_file" && typeof before === "string" && typeof after === "string")
    return { path, before, after };
  if (name === "write_file" && typeof content === "string") return { path, after: content };
  return undefined;
}

interface Change {
  readonly path: string;
  /** Undefined: the whole file is written. */
  readonly before?: string;
  readonly after: string;
}

/** A change of a file as a diff; before the call runs, beside the lines around it. */
export function FileChange({
  change,
  isPending,
}: {
  readonly change: Change;
  readonly isPending: boolean;
}) {
  const { path, before, after } = change;
  const [file, setFile] = useState<string>();
  useEffect(() => {
    const { id } = getSessions().open;
    if (!isPending || id === undefined || !hasWorkspace(getSessions())) return;
    let isCurrent = true;
    api.findFile(id, path).then(
      (text) => isCurrent && setFile(text),
      () => {}, // the change is shown without the lines around it
    );
    return () => {
      isCurrent = false;
    };
  }, [path, isPending]);
  const lines = useMemo(
    () => (before === undefined ? writeLines(file, after) : editLines(file, before, after)),
    [file, before, after],
  );
  return <Diff path={path} lines={lines} />;
}
