import type { Clock } from "../../base/clock.ts";
import { reasonOf } from "../../base/error.ts";
import type { Awaitable } from "../../base/time.ts";
import { allDone, isThenable, whenDone } from "../../base/time.ts";
import type { Hook, HookContext, ModelCall } from "../../contract/index.ts";
import { steering } from "../filesystem/steering.ts";
import { isBinary } from "../filesystem/text.ts";
import { frameFile, notes, workspaceIntroduction } from "../prompts.ts";
import { FileCache, type FileView, type Workspace } from "../workspace.ts";

/** The files of the memory, the most important first; `{today}` and `{yesterday}` are dates in UTC. */
export const memoryContextFiles: readonly string[] = [
  "MEMORY.md",
  "memory/{today}.md",
  "memory/{yesterday}.md",
];

/** The default context files, the most important first. */
export const defaultContextFiles: readonly string[] = [
  steering.instructions,
  `${steering.knowledge}/KNOWLEDGE.md`,
];

/** The default context files of a child, whose sessions are short: the memory is in its system prompt. */
export const childContextFiles: readonly string[] = [
  steering.instructions,
  ...memoryContextFiles,
  `${steering.knowledge}/KNOWLEDGE.md`,
];

type Found =
  | { readonly head: string; readonly length: number }
  | { readonly problem: string }
  | undefined;

/** Adds the current content of the context files to the system prompt of every model call. */
export function contextFiles(
  workspace: Workspace,
  paths: readonly string[],
  maxTokens: number,
  clock: Clock,
): Hook {
  const room = maxTokens - estimateTokens(workspaceIntroduction);
  const sectionsIn = fileSections(paths, room, clock);

  function addTo(context: HookContext, call: ModelCall): Awaitable<void> {
    return whenDone(sectionsIn(workspace.viewFor(context)), (sections) => {
      if (sections.length === 0) return;
      const system = [call.systemPrompt, workspaceIntroduction, ...sections].filter(
        (text) => text !== "",
      );
      call.systemPrompt = system.join("\n\n");
    });
  }
  return { name: "workspace-context", priority: 900, preReasoning: addTo, preSummary: addTo };
}

/** Returns a function that frames the current text of files, the first ones first, within a number of tokens. */
export function fileSections(
  paths: readonly string[],
  maxTokens: number,
  clock: Clock,
): (view: FileView) => Awaitable<readonly string[]> {
  const cache = new FileCache<Found>(clock, ({ data }) => {
    if (isBinary(data)) return { problem: "it is not text" };
    const text = new TextDecoder().decode(data).trim();
    return { head: text.slice(0, maxTokens * 4), length: text.length }; // no more can fit
  });

  let today: { readonly day: number; readonly paths: readonly string[] } | undefined;
  let shown: { readonly files: readonly Found[]; readonly sections: readonly string[] } | undefined;

  /** Formats the files only when one of them has changed. */
  function sectionsOf(dated: readonly string[], files: readonly Found[]): readonly string[] {
    if (shown?.files.every((file, index) => file === files[index])) return shown.sections;
    const sections: string[] = [];
    let room = maxTokens;
    for (const [index, path] of dated.entries()) {
      const section = sectionOf(path, files[index], room);
      if (section === undefined) continue;
      sections.push(section);
      room -= estimateTokens(section);
    }
    shown = { files, sections };
    return sections;
  }

  function read(view: FileView, path: string): Awaitable<Found> {
    const found = cache.get(view, path);
    const problem = (error: unknown) => ({ problem: reasonOf(error) });
    return isThenable(found) ? found.then((file) => file, problem) : found;
  }

  return (view) => {
    const day = Math.floor(clock.now() / dayMs);
    if (today?.day !== day) today = { day, paths: datedPaths(paths, day) };
    const dated = today.paths;
    const files = allDone(dated.map((path) => read(view, path)));
    return whenDone(files, (found) => sectionsOf(dated, found));
  };
}

function sectionOf(path: string, found: Found, room: number): string | undefined {
  if (found === undefined) return undefined;
  if ("problem" in found) return notes.unreadable(path, found.problem);
  const { head, length } = found;
  if (length === 0) return undefined;
  const whole = frameFile("workspace-file", path, head);
  if (head.length === length && estimateTokens(whole) <= room) return whole;
  const cut = (kept: string) =>
    `${frameFile("workspace-file", path, kept)}\n${notes.cut(path, length - kept.length, length)}`;
  // A text with a closing tag has the longest frame.
  const frame = estimateTokens(cut("</"));
  const kept = wholeLines(head.slice(0, fittingCharacters(head, room - frame)));
  return kept === "" ? notes.omitted(path, length) : cut(kept);
}

function wholeLines(text: string): string {
  const end = text.lastIndexOf("\n");
  return (end > 0 ? text.slice(0, end) : text.toWellFormed()).trimEnd();
}

const dayMs = 86_400_000;

/** `day` counts from the epoch. */
function datedPaths(paths: readonly string[], day: number): readonly string[] {
  const nameOf = (day: number) => new Date(day * dayMs).toISOString().slice(0, "2030-12-31".length);
  return paths.map((path) =>
    path.replaceAll("{today}", nameOf(day)).replaceAll("{yesterday}", nameOf(day - 1)),
  );
}

const firstWideCharacter = 0x2e80;

/** Estimates the tokens of a text: four characters, or one character of a script without spaces, make one token. */
export function estimateTokens(text: string): number {
  return Math.ceil(weigh(text).quarters / 4);
}

/** Returns how many characters of a text fit into a number of tokens. */
export function fittingCharacters(text: string, tokens: number): number {
  return weigh(text, Math.max(0, tokens) * 4).characters;
}

function weigh(text: string, room = Number.POSITIVE_INFINITY) {
  let quarters = 0;
  let characters = 0;
  for (; characters < text.length; characters++) {
    const next = quarters + (text.charCodeAt(characters) < firstWideCharacter ? 1 : 4);
    if (next > room) break;
    quarters = next;
  }
  return { quarters, characters };
}
