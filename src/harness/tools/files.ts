import { jsonSchema, type ToolContext, tool } from "../../agent/index.ts";
import { systemClock } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import { readArgument, readOptions, required } from "../../base/options.ts";
import type { StandardSchema, Tool } from "../../contract/index.ts";
import { changed, fileError, quotePath } from "../filesystem/file-error.ts";
import { guardFiles, rulesBehind, rulesOnCall } from "../filesystem/file-rules.ts";
import {
  type CutBy,
  type FileStat,
  type Filesystem,
  filesystemField,
} from "../filesystem/filesystem.ts";
import { type IsolationScope, namespaceOf, scopeField } from "../filesystem/path.ts";
import { type EditProblem, editText, exactText, linesOf } from "../filesystem/text.ts";

/** Creates the tools that read, write and search files. The model sees file errors as results. */
export function fileTools(
  filesystem: Filesystem,
  options: { readonly scope?: IsolationScope } = {},
): readonly Tool[] {
  readArgument("filesystem", filesystem, required(filesystemField, 'localFilesystem("files")'));
  const { scope = "user" } = readOptions("fileTools()", options, { scope: scopeField });
  const tools = [readFile, writeFile, editFile, grepFiles, globFiles, listFiles];
  return tools.map((create) => create(filesystem, scope));
}

const maxCharacters = 40_000; // the maximum length of a result, well below the limit of a tool result
const maxLine = 2_000;
const maxLines = maxCharacters / 8; // the number, tab and newline of a line take 8 characters
const defaultLines = 2_000;
const minEditMs = 10_000;
const minEditAttempts = 50; // on a busy machine few attempts fit into the time
const maxEditPauseMs = 64;
const globSyntax = "* and ? within a name, ** across directories, [a-z], {a,b}";

const texts = {
  empty: "(the file is empty)",
  pastEnd: (total: number) => `(the file has only ${total} lines)`,
  page: (first: number, last: number, total: number) =>
    `[lines ${first} to ${last} of ${total}; continue with offset ${last + 1}]`,
  longLine: (rest: number) => `[${rest} more characters]`,
  written: (created: boolean, path: string, bytes: number) =>
    `${created ? "Created" : "Replaced"} ${path} (${bytes} bytes).`,
  edited: (count: number, path: string) =>
    `Replaced ${count} ${count === 1 ? "occurrence" : "occurrences"} in ${path}.`,
  readAgain: "Read the file again.",
  addContext: "Add more of the surrounding text, or set replace_all.",
  tooLarge: (count: number) =>
    `[${count} ${count === 1 ? "file was" : "files were"} too large to search]`,
  part: (what: string, reasons: readonly string[]) =>
    `[${what}: ${reasons.join("; ")}. Narrow the search.]`,
  limit: "there are more",
  time: "the search timed out",
};

const text = (description: string) => ({ type: "string", description });
const lineNumber = (description: string) => ({ type: "integer", minimum: 1, description });
const flag = (description: string) => ({ type: "boolean", description });
const file = text("The file, relative to the workspace.");
const directory = text("The directory, relative to the workspace; defaults to all of it.");

const readFile = fileTool<{ path: string; offset?: number; limit?: number }>({
  name: "read_file",
  description: "Reads a text file. Each line starts with its number and a tab.",
  properties: {
    path: file,
    offset: lineNumber("The first line; defaults to 1."),
    limit: lineNumber(`The number of lines; defaults to ${defaultLines}.`),
  },
  required: ["path"],
  async execute(files, { path, offset = 1, limit = defaultLines }) {
    const { data } = await files.read(path);
    const found = linesOf(data, offset, Math.min(limit, maxLines));
    if (!found) throw fileError("not_text", `${quotePath(path)} is binary (${data.length} bytes).`);
    const { lines, total } = found;
    if (total === 0) return texts.empty;
    if (offset > total) return texts.pastEnd(total);
    const page = fittingLines(
      lines.map((line, index) => `${String(offset + index).padStart(6)}\t${cutLine(line)}`),
    );
    const last = offset + page.length - 1;
    return [...page, ...(last < total ? [texts.page(offset, last, total)] : [])].join("\n");
  },
});

const writeFile = fileTool<{ path: string; content: string }>({
  name: "write_file",
  description:
    "Creates or replaces a whole text file, with missing directories. To change a part of a file, use edit_file.",
  properties: { path: file, content: text("The whole content of the file.") },
  required: ["path", "content"],
  writes: true,
  async execute(files, { path, content }) {
    const written = await files.write(path, content);
    return texts.written(written.created, written.path, Buffer.byteLength(content));
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
    "Replaces text in a file. old_string must match exactly, including spaces, and occur only once unless replace_all is true.",
  properties: {
    path: file,
    old_string: { ...text("The text to replace, without line numbers."), minLength: 1 },
    new_string: text("The new text."),
    replace_all: flag("Replace every occurrence; defaults to false."),
  },
  required: ["path", "old_string", "new_string"],
  writes: true,
  async execute(files, { path, old_string, new_string, replace_all = false }, signal) {
    // After a conflict the edit is retried on the new content, which keeps the other writer's work.
    const until = performance.now() + minEditMs;
    for (let attempt = 1; attempt <= minEditAttempts || performance.now() < until; attempt++) {
      const { data, version } = await files.read(path);
      const edit = editText(exactText(data, path), old_string, new_string, { all: replace_all });
      if ("problem" in edit) throw attempt > 1 ? changed(path) : editError(path, edit.problem);
      try {
        const written = await files.write(path, edit.text, { ifVersion: version });
        return texts.edited(edit.count, written.path);
      } catch (error) {
        if (!(error instanceof RivuletError && error.code === "conflict")) throw error;
      }
      // Random and growing, so that two writers do not collide again.
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
  description: "Searches text files by line. Returns path:line: text.",
  properties: {
    pattern: text("A regular expression that is matched within a line."),
    path: text("A directory or file; defaults to the whole workspace."),
    glob: { ...text(`Search only matching files, such as *.md: ${globSyntax}.`), minLength: 1 },
    literal: flag("Treat the pattern as plain text."),
    ignore_case: flag("Ignore case."),
  },
  required: ["pattern"],
  async execute(files, { pattern, path, glob, literal, ignore_case }, signal) {
    const query = { pattern, literal, ignoreCase: ignore_case };
    const { matches, tooLarge, cutBy } = await files.grep(query, { path, glob, signal });
    const lines = matches.map(({ path, line, text }) => `${path}:${line}: ${text}`);
    const unread = tooLarge > 0 ? [texts.tooLarge(tooLarge)] : [];
    return [formatList(lines, "matches", cutBy), ...unread].join("\n");
  },
});

const globFiles = fileTool<{ pattern: string; path?: string }>({
  name: "glob_files",
  description: "Finds files by path.",
  properties: { pattern: text(`A glob such as **/*.md: ${globSyntax}.`), path: directory },
  required: ["pattern"],
  async execute(files, { pattern, path }, signal) {
    const { paths, cutBy } = await files.glob(pattern, { path, signal });
    return formatList(paths, "files", cutBy);
  },
});

const listFiles = fileTool<{ path?: string }>({
  name: "list_files",
  description: "Lists a directory. Names of directories end with /.",
  properties: { path: directory },
  async execute(files, { path = "" }) {
    const { entries, cut } = await files.list(path);
    return formatList(entries.map(entryLine), "entries", cut ? "limit" : undefined);
  },
});

interface FileTool<T> {
  readonly name: string;
  readonly description: string;
  /** The JSON Schema of the properties; must match `T`. */
  readonly properties: Readonly<Record<string, object>>;
  readonly required?: readonly string[];
  readonly writes?: boolean;
  execute(files: Filesystem, input: T, signal: AbortSignal): Promise<string>;
}

function fileTool<T>(
  options: FileTool<T>,
): (filesystem: Filesystem, scope: IsolationScope) => Tool {
  const { name, description, properties, required = [], writes = false } = options;
  const schema = { type: "object", properties, required, additionalProperties: false } as const;
  let input: StandardSchema<T> | undefined;
  // A write is not repeated after a crash, and runs alone in its batch.
  const policy = { idempotent: !writes, exclusive: writes, readOnly: !writes };
  return (filesystem, scope) => {
    input ??= jsonSchema<T>(schema);
    const filesOf = ({ userId, sessionId, agent: { agentId } }: ToolContext) => {
      const namespace = namespaceOf(scope, { userId, sessionId, agentId });
      return namespace ? filesystem.within(namespace) : filesystem;
    };
    return tool({
      name,
      description,
      input,
      ...policy,
      paths: {
        path(path, context) {
          try {
            return filesOf(context).normalize(path);
          } catch (error) {
            throw withHint(error);
          }
        },
      },
      async execute(input, context) {
        try {
          const rules = rulesOnCall(rulesBehind(context), name, input);
          const files = guardFiles(filesOf(context), rules);
          return await options.execute(files, input as T, context.signal);
        } catch (error) {
          throw withHint(error);
        }
      },
    });
  };
}

/** The model reads only the message, so the hint is added to it. */
function withHint(error: unknown): unknown {
  if (!(error instanceof RivuletError) || error.hint === undefined) return error;
  return new RivuletError(error.code, `${error.message} ${error.hint}`, { cause: error });
}

function editError(path: string, problem: EditProblem): Error {
  const file = quotePath(path);
  switch (problem) {
    case "missing":
      return fileError("edit_failed", `old_string is not in ${file}.`, texts.readAgain);
    case "several":
      return fileError("edit_failed", `old_string is in ${file} more than once.`, texts.addContext);
    case "too long":
      return fileError("too_large", `${file} would become too large.`, "Work with smaller files.");
  }
}

function entryLine({ path, type, size }: FileStat): string {
  const name = path.slice(path.lastIndexOf("/") + 1);
  if (type === "directory") return `${name}/`;
  return type === "file" ? `${name} (${size} bytes)` : `${name} (not a regular file)`;
}

function formatList(lines: readonly string[], what: string, cutBy: CutBy | undefined): string {
  const head = fittingLines(lines);
  const reasons = [
    ...(head.length < lines.length ? [`${head.length} of ${lines.length} shown`] : []),
    ...(cutBy ? [texts[cutBy]] : []),
  ];
  if (reasons.length === 0) return lines.length > 0 ? lines.join("\n") : `(no ${what})`;
  return [...head, texts.part(what, reasons)].join("\n");
}

function fittingLines(lines: readonly string[]): readonly string[] {
  let room = maxCharacters;
  const end = lines.findIndex((line) => {
    room -= line.length + 1;
    return room < 0;
  });
  return end < 0 ? lines : lines.slice(0, end);
}

function cutLine(line: string): string {
  const rest = line.length - maxLine;
  return rest <= 0 ? line : `${line.slice(0, maxLine).toWellFormed()} ${texts.longLine(rest)}`;
}
