import type { Clock } from "../../base/clock.ts";
import type { Awaitable } from "../../base/time.ts";
import { whenDone } from "../../base/time.ts";
import type { HookContext, Message } from "../../contract/index.ts";
import { steering } from "../filesystem/steering.ts";
import { isBinary } from "../filesystem/text.ts";
import { transcriptBehind } from "../hook-task.ts";
import { frameFile, nestedIntroduction } from "../prompts.ts";
import { FileCache, type FileView, type Workspace } from "../workspace.ts";
import type { ModelView, Note, NoteSource } from "./notes.ts";
import { firstTokens } from "./summary.ts";

const { instructions: fileName } = steering;
const maxTokens = 2_000;
const maxNotes = 10;
const fileTools: ReadonlySet<string> = new Set(["read_file", "write_file", "edit_file"]);
const stateKey = "harness.nested-files";

/** A directory with an AGENTS.md in which the agent has worked. */
interface Found {
  readonly text: string;
  /** The index of the last message that names a file below it. */
  at: number;
}

interface Scan {
  readTo: number;
  readonly found: Map<string, Found>;
}

/** Gives the model the AGENTS.md of a directory when it reads or edits a file below it. */
export function nestedFiles(workspace: Workspace, clock: Clock): NoteSource {
  const cache = new FileCache<string>(clock, ({ data }) =>
    isBinary(data) ? "" : new TextDecoder().decode(data).trim(),
  );

  function scan(context: HookContext, { from }: ModelView): Awaitable<Scan["found"]> {
    const { state } = context;
    const messages = transcriptBehind(context);
    const last = (state.get(stateKey) as Scan | undefined) ?? { readTo: from, found: new Map() };
    state.set(stateKey, last);
    const view = workspace.viewFor(context);
    const touched = new Map<string, number>();
    for (let at = last.readTo; at < messages.length; at++)
      for (const directory of directoriesIn(messages[at] as Message, view))
        touched.set(directory, at);
    last.readTo = messages.length;
    return touched.size === 0 ? last.found : find(last.found, touched, view);
  }

  async function find(found: Scan["found"], touched: ReadonlyMap<string, number>, view: FileView) {
    for (const [directory, at] of touched) {
      try {
        const text = await cache.get(view, `${directory}/${fileName}`);
        if (text) found.set(directory, { text, at });
      } catch {
        // A file that cannot be read has no effect.
      }
    }
    return found;
  }

  function notesOf(files: Scan["found"], { from }: ModelView): readonly Note[] {
    const found = [...files].filter(([, { at }]) => at >= from);
    return found.slice(-maxNotes).map(([directory, { text }]): Note => {
      const framed = frameFile(
        "agents-file",
        `${directory}/${fileName}`,
        firstTokens(text, maxTokens),
      );
      return {
        key: `agents:${directory}`,
        text: `${nestedIntroduction}\n\n${framed}`,
        isFixed: true,
      };
    });
  }

  return (context, view) => whenDone(scan(context, view), (found) => notesOf(found, view));
}

/** The directories above the files that a message reads or edits, without the workspace itself. */
function directoriesIn({ role, content }: Message, { files }: FileView): readonly string[] {
  if (role !== "assistant") return [];
  return content.flatMap((block) => {
    if (block.type !== "tool_use" || !fileTools.has(block.name)) return [];
    try {
      const names = files.normalize(String((block.input as { path?: unknown }).path)).split("/");
      return names.slice(0, -1).map((_, index) => names.slice(0, index + 1).join("/"));
    } catch {
      return []; // the tool has told the model what is wrong with the path
    }
  });
}
