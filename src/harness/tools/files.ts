import { jsonSchema } from "../../agent/tool/schema.ts";
import { type Tool, tool } from "../../agent/tool/tool.ts";
import { systemClock } from "../../protocol/clock.ts";
import { RivuletError } from "../../protocol/error.ts";
import { changed, fileError, shown } from "../filesystem/file-error.ts";
import type { CutBy, FileStat, Filesystem } from "../filesystem/filesystem.ts";
import { type IsolationScope, namespaceOf } from "../filesystem/namespace.ts";
import { type EditProblem, editText, exactText, linesOf } from "../filesystem/text.ts";

/** The tools by which a model reads, writes and searches files. What is refused is a result that it can act on. */
export function fileTools(
  filesystem: Filesystem,
  options: {
    /** Among whom files are shared; absent: each user has their own. */
    readonly scope?: IsolationScope;
  } = {},
): readonly Tool[] {
  const makers = [readFile, writeFile, editFile, grepFiles, globFiles, listFiles];
  return makers.map((make) => make(filesystem, options.scope ?? "user"));
}

/** The most that a result shows, well below what a transcript keeps of one. */
const maxShown = 40_000;
const maxLineShown = 2_000;
const maxLinesShown = maxShown / 8; // each has its number, a tab and an end
const defaultLines = 2_000;
const editPatienceMs = 10_000;
const editPatience = 50; // attempts, when a busy machine leaves time for few
const maxEditPauseMs = 64;

const fileProperty = { type: "string", description: "The file, relative to the workspace." };
const directoryProperty = {
  type: "string",
  description: "The directory, relative to the workspace; absent: all of it.",
};
const globSyntax = "* and ? within a name, ** across directories, [a-z], {one,other}";

const readFile = fileTool<{ path: string; offset?: number; limit?: number }>({
  name: "read_file",
  description: "Reads a text file. Every line has its number and a tab before it.",
  properties: {
    path: fileProperty,
    offset: { type: "integer", minimum: 1, description: "The first line; 1 when absent." },
    limit: {
      type: "integer",
      minimum: 1,
      description: `How many lines; ${defaultLines} when absent.`,
    },
  },
  required: ["path"],
  async execute(files, { path, offset = 1, limit = defaultLines }) {
    const { data } = await files.read(path);
    const found = linesOf(data, offset, Math.min(limit, maxLinesShown));
    if (!found) throw fileError("not_text", `${shown(path)} is binary (${data.length} bytes).`);
    const { lines, total } = found;
    if (total === 0) return "(the file is empty)";
    if (offset > total) return `(the file has only ${total} lines)`;
    const shownLines = fitting(
      lines.map((line, index) => `${String(offset + index).padStart(6)}\t${cutLine(line)}`),
    );
    const end = offset + shownLines.length;
    if (end > total) return shownLines.join("\n");
    const note = `[lines ${offset} to ${end - 1} of ${total}; go on with offset ${end}]`;
    return [...shownLines, note].join("\n");
  },
});

const writeFile = fileTool<{ path: string; content: string }>({
  name: "write_file",
  description:
    "Writes a whole text file: creates it, with the directories above it, or replaces it. To change a part of a file, use edit_file.",
  properties: {
    path: fileProperty,
    content: { type: "string", description: "Everything that the file is to contain." },
  },
  required: ["path", "content"],
  writes: true,
  async execute(files, { path, content }) {
    const written = await files.write(path, content);
    const size = Buffer.byteLength(content);
    return `${written.created ? "Created" : "Replaced"} ${written.path} (${size} bytes).`;
  },
});

const editFile = fileTool<{
  path: string;
  old_string: string;
  new_string: string;
  replace_all?: boolean;
}>({
  name: "edit_file",
  description:
    "Replaces a piece of a text file. old_string must be in the file exactly as given, spaces included, and only once unless replace_all is true.",
  properties: {
    path: fileProperty,
    old_string: { type: "string", minLength: 1, description: "What is there, without numbers." },
    new_string: { type: "string", description: "What is to be there instead." },
    replace_all: { type: "boolean", description: "Replace it everywhere; false when absent." },
  },
  required: ["path", "old_string", "new_string"],
  writes: true,
  async execute(files, { path, old_string, new_string, replace_all = false }, signal) {
    // Who loses against another writer looks again: an edit that still fits loses nobody's work.
    const until = performance.now() + editPatienceMs;
    for (let attempt = 1; attempt <= editPatience || performance.now() < until; attempt++) {
      const { data, version } = await files.read(path);
      const edit = editText(exactText(data, path), old_string, new_string, { all: replace_all });
      if ("problem" in edit) throw attempt > 1 ? changed(path) : cannotEdit(path, edit.problem);
      try {
        const written = await files.write(path, edit.text, { ifVersion: version });
        return `Replaced ${edit.count} ${edit.count === 1 ? "piece" : "pieces"} in ${written.path}.`;
      } catch (error) {
        if (!(error instanceof RivuletError && error.code === "conflict")) throw error;
      }
      // At random, and longer each time, so that two who collide do not go on in step.
      await systemClock.sleep(Math.random() * Math.min(2 ** attempt, maxEditPauseMs), signal);
    }
    throw changed(path);
  },
});

const grepFiles = fileTool<{
  pattern: string;
  path?: string;
  glob?: string;
  literal?: boolean;
  ignore_case?: boolean;
}>({
  name: "grep_files",
  description: "Finds the lines of text files that match a pattern, as path:line: text.",
  properties: {
    pattern: { type: "string", description: "A regular expression, matched within a line." },
    path: { type: "string", description: "A directory or a file; absent: the whole workspace." },
    glob: { type: "string", description: `Only in files that match, such as *.md: ${globSyntax}.` },
    literal: { type: "boolean", description: "Take the pattern as plain text." },
    ignore_case: { type: "boolean", description: "Take A and a for the same." },
  },
  required: ["pattern"],
  async execute(files, { pattern, path, glob, literal, ignore_case }, signal) {
    const query = { pattern, literal, ignoreCase: ignore_case };
    const { matches, tooLarge, cutBy } = await files.grep(query, { path, glob, signal });
    const lines = matches.map(({ path, line, text }) => `${path}:${line}: ${text}`);
    const large = tooLarge === 1 ? "1 file was" : `${tooLarge} files were`;
    const unread = tooLarge > 0 ? [`[${large} too large to be searched]`] : [];
    return [listed(lines, "matches", cutBy), ...unread].join("\n");
  },
});

const globFiles = fileTool<{ pattern: string; path?: string }>({
  name: "glob_files",
  description: "Finds files by their path.",
  properties: {
    pattern: { type: "string", description: `Such as **/*.md: ${globSyntax}.` },
    path: directoryProperty,
  },
  required: ["pattern"],
  async execute(files, { pattern, path }, signal) {
    const { paths, cutBy } = await files.glob(pattern, { path, signal });
    return listed(paths, "files", cutBy);
  },
});

const listFiles = fileTool<{ path?: string }>({
  name: "list_files",
  description: "Lists a directory. Directories end with /.",
  properties: { path: directoryProperty },
  async execute(files, { path = "" }) {
    const { entries, cut } = await files.list(path);
    return listed(entries.map(entryLine), "entries", cut ? "limit" : undefined);
  },
});

/** A file tool before it is known whose files it works on. */
interface FileTool<T> {
  readonly name: string;
  readonly description: string;
  /** What the model sends; `T` must say the same. */
  readonly properties: Readonly<Record<string, object>>;
  readonly required?: readonly string[];
  readonly writes?: boolean;
  execute(files: Filesystem, input: T, signal: AbortSignal): Promise<string>;
}

function fileTool<T>(made: FileTool<T>): (filesystem: Filesystem, scope: IsolationScope) => Tool {
  const { name, description, properties, required = [], writes = false } = made;
  const input = jsonSchema<T>({
    type: "object",
    properties,
    required,
    additionalProperties: false,
  });
  // What writes is not repeated after a crash, and nothing of its batch runs beside it.
  const policy = { idempotent: !writes, exclusive: writes };
  return (filesystem, scope) =>
    tool({
      name,
      description,
      input,
      ...policy,
      async execute(input, { userId, sessionId, agent: { agentId }, signal }) {
        try {
          const namespace = namespaceOf(scope, { userId, sessionId, agentId });
          const files = namespace ? filesystem.within(namespace) : filesystem;
          return await made.execute(files, input as T, signal);
        } catch (error) {
          throw withHint(error);
        }
      },
    });
}

/** A model reads the message alone, so the hint goes into it. */
function withHint(error: unknown): unknown {
  if (!(error instanceof RivuletError) || error.hint === undefined) return error;
  return new RivuletError(error.code, `${error.message} ${error.hint}`, { cause: error });
}

function cannotEdit(path: string, problem: EditProblem): Error {
  switch (problem) {
    case "missing":
      return fileError(
        "edit_failed",
        `old_string is not in ${shown(path)}.`,
        "Read the file again.",
      );
    case "several":
      return fileError(
        "edit_failed",
        `old_string is in ${shown(path)} more than once.`,
        "Give more of what is around it, or set replace_all.",
      );
    case "too long":
      return fileError(
        "too_large",
        `${shown(path)} would become too large.`,
        "Work with smaller files.",
      );
  }
}

function entryLine({ path, type, size }: FileStat): string {
  const name = path.slice(path.lastIndexOf("/") + 1);
  if (type === "directory") return `${name}/`;
  return type === "file" ? `${name} (${size} bytes)` : `${name} (not a regular file)`;
}

const cutNotes: Readonly<Record<CutBy, string>> = {
  limit: "there are more",
  time: "the search took too long and was stopped",
};

/** A list as far as it fits, and what is missing from it. */
function listed(lines: readonly string[], what: string, cutBy: CutBy | undefined): string {
  const shownLines = fitting(lines);
  const notes = [
    ...(shownLines.length < lines.length ? [`${shownLines.length} of ${lines.length} shown`] : []),
    ...(cutBy ? [cutNotes[cutBy]] : []),
  ];
  if (notes.length === 0) return lines.length > 0 ? lines.join("\n") : `(no ${what})`;
  return [...shownLines, `[${what}: ${notes.join("; ")}. Narrow it down.]`].join("\n");
}

/** The first lines, as many as are shown. */
function fitting(lines: readonly string[]): readonly string[] {
  let room = maxShown;
  const end = lines.findIndex((line) => {
    room -= line.length + 1;
    return room < 0;
  });
  return end < 0 ? lines : lines.slice(0, end);
}

function cutLine(line: string): string {
  if (line.length <= maxLineShown) return line;
  const rest = line.length - maxLineShown;
  return `${line.slice(0, maxLineShown).toWellFormed()} [${rest} more characters]`;
}
