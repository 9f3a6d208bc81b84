import type { Clock } from "../../base/clock.ts";
import { isObject, sha256 } from "../../base/plain.ts";
import { valueOnCodes } from "../filesystem/file-error.ts";
import type { Filesystem } from "../filesystem/filesystem.ts";
import { memoryPrompts } from "../prompts.ts";
import { type Entry, entriesIn } from "./facts.ts";
import {
  dailyFiles,
  isConflict,
  memoryFile,
  readText,
  versionFiles,
  versionsDirectory,
} from "./memory-files.ts";

/** The surroundings of a consolidation. */
export interface Consolidation {
  readonly files: Filesystem;
  /** Identifies the files: a layer without a state shows that of the common files. */
  readonly scope: string;
  readonly clock: Clock;
  ask(systemPrompt: string, text: string): Promise<string | undefined>;
  warn(message: string): void;
}

/** Which entries are in the memory file. */
interface State {
  readonly scope: string;
  readonly consolidatedAt: number;
  /** The hashes of the entries; an entry that was edited counts as new. */
  readonly seen: readonly string[];
  /** A new memory file that is being written. */
  readonly pending?: {
    readonly time: number;
    /** The version that it replaces; null: there was none. */
    readonly base: string | null;
    readonly text: string;
    readonly seen: readonly string[];
  };
}

const stateFile = "memory/.state.json";
const maxNewCharacters = 40_000;
const maxMemoryCharacters = 24_000;
const maxVersions = 10;
/** A shorter new file than this share of the old one has lost something. */
const leastShare = 0.2;
const minOldCharacters = 1_000;

/**
 * Merges new entries of the daily files into the memory file and keeps its old version; returns whether it has changed.
 * The new text goes into the state first, so that a crash neither loses nor repeats a merge.
 */
export async function consolidate(consolidation: Consolidation): Promise<boolean> {
  const { files, clock, ask, warn } = consolidation;
  let { state, version } = await readState(consolidation);
  if (state.pending) {
    await finish(consolidation, state, version);
    ({ state, version } = await readState(consolidation));
    if (state.pending) return false;
  }
  const all = await allEntries(files);
  const fresh = takeFresh(all, new Set(state.seen));
  if (fresh.length === 0) return false;
  const old = await readText(files, memoryFile);
  const news = fresh.map(({ text }) => text).join("\n\n");
  const answer = await ask(memoryPrompts.consolidate, memoryPrompts.notes(old.text, news));
  const { text, problem } = readMemory(answer, old.text);
  if (text === undefined) {
    warn(`${memoryFile} was not updated: ${problem}`);
    return false;
  }
  const hashes = new Set(all.map(({ hash }) => hash));
  const seen = [...state.seen.filter((hash) => hashes.has(hash)), ...fresh.map(({ hash }) => hash)];
  const pending = { time: clock.now(), base: old.version, text, seen };
  const next = { ...state, pending };
  const stored = await writeState(files, next, version);
  return stored !== undefined && finish(consolidation, next, stored);
}

/** When the memory file was last merged; 0 if never. */
export async function consolidatedAt(
  consolidation: Pick<Consolidation, "files" | "scope">,
): Promise<number> {
  return (await readState(consolidation)).state.consolidatedAt;
}

/** Lets a new memory file that is being written go if it contains something, and stops mergers that have not written it. */
export async function withdrawPending(
  consolidation: Pick<Consolidation, "files" | "scope">,
  isForgotten: (text: string) => boolean,
): Promise<void> {
  for (;;) {
    const { state, version } = await readState(consolidation);
    const { pending, ...rest } = state;
    const kept = pending && !isForgotten(pending.text) ? { ...rest, pending } : rest;
    // Also without a change: a merger that read the old notes must not succeed.
    if ((await writeState(consolidation.files, kept, version)) !== undefined) return;
  }
}

async function finish(
  { files }: Consolidation,
  { pending, ...state }: State,
  version: string | null,
): Promise<boolean> {
  if (!pending) return false;
  const old = await readText(files, memoryFile);
  const { time, base, text, seen } = pending;
  if (old.text !== text) {
    if (old.version !== base) {
      // The file was edited meanwhile: the entries stay new, and the next merge starts from the edit.
      await writeState(files, state, version);
      return false;
    }
    if (old.text.trim() !== "") await keepVersion(files, old.text, time);
    try {
      await files.write(memoryFile, text, { ifVersion: base });
    } catch (error) {
      if (!isConflict(error)) throw error;
      return false;
    }
  }
  const done = await writeState(files, { ...state, consolidatedAt: time, seen }, version);
  if (done !== undefined) return true;
  const { state: now } = await readState({ files, scope: state.scope });
  if (now.consolidatedAt === time) return true; // another process has finished the same merge
  // The merge was withdrawn, because something in it was forgotten.
  const { version: written, text: current } = await readText(files, memoryFile);
  if (current === text) await files.write(memoryFile, old.text, { ifVersion: written });
  return false;
}

/** Keeps the last versions; the name of a version has its content, so that a repeated write changes nothing. */
async function keepVersion(files: Filesystem, text: string, time: number): Promise<void> {
  const stamp = new Date(time).toISOString().slice(0, 19).replaceAll(":", "-");
  await files.write(`${versionsDirectory}/${stamp}-${sha256(text).slice(0, 8)}.md`, text);
  const paths = await versionFiles(files);
  for (const path of paths.slice(0, -maxVersions)) {
    await files.remove(path).catch(valueOnCodes(undefined, "not_found"));
  }
}

type HashedEntry = Entry & { readonly hash: string };

async function allEntries(files: Filesystem): Promise<readonly HashedEntry[]> {
  const entries: HashedEntry[] = [];
  for (const path of (await dailyFiles(files)).toReversed()) {
    const { text } = await readText(files, path);
    for (const entry of entriesIn(text)) {
      const dated = `${path}\n${entry.text}`;
      entries.push({ ...entry, text: dated, hash: sha256(dated).slice(0, 16) });
    }
  }
  return entries;
}

/** The oldest new entries that fit into one model call. */
function takeFresh(
  entries: readonly HashedEntry[],
  seen: ReadonlySet<string>,
): readonly HashedEntry[] {
  const fresh = entries.filter(({ hash }) => !seen.has(hash));
  let room = maxNewCharacters;
  const end = fresh.findIndex(({ text }) => {
    room -= text.length;
    return room < 0;
  });
  return end < 0 ? fresh : fresh.slice(0, Math.max(1, end));
}

/** Checks a model's new memory file, which must not lose the old one. */
function readMemory(
  answer: string | undefined,
  old: string,
):
  | { readonly text: string; readonly problem?: undefined }
  | { readonly text?: undefined; readonly problem: string } {
  if (answer === undefined) return { problem: "the answer of the model was cut off." };
  const inner = /^```(?:markdown|md)?\n([\s\S]*?)\n?```$/.exec(answer.trim())?.[1] ?? answer;
  const text = `${inner.replaceAll("\0", "").trim()}\n`;
  if (!/^\s*[-*] \S/m.test(text)) return { problem: "the model gave no list of facts." };
  if (text.length > maxMemoryCharacters) {
    const size = `${text.length} characters, and the limit is ${maxMemoryCharacters}`;
    return { problem: `the answer of the model has ${size}.` };
  }
  const isTooShort = old.length >= minOldCharacters && text.length < old.length * leastShare;
  return isTooShort ? { problem: "the model left out most of what was there." } : { text };
}

async function readState({ files, scope }: Pick<Consolidation, "files" | "scope">) {
  const { text, version } = await readText(files, stateFile);
  const empty: State = { scope, consolidatedAt: 0, seen: [] };
  let stored: unknown;
  try {
    stored = JSON.parse(text || "{}");
  } catch {
    stored = {}; // the agent can write this file; a broken one only repeats a merge
  }
  return { version, state: isState(stored) && stored.scope === scope ? stored : empty };
}

function isState(value: unknown): value is State {
  if (!isObject(value) || !Array.isArray(value.seen)) return false;
  const { pending, consolidatedAt } = value;
  if (typeof consolidatedAt !== "number") return false;
  if (pending === undefined) return true;
  return isObject(pending) && typeof pending.text === "string" && Array.isArray(pending.seen);
}

async function writeState(files: Filesystem, state: State, ifVersion: string | null) {
  try {
    const text = `${JSON.stringify({ ...state, nonce: crypto.randomUUID() })}\n`;
    return (await files.write(stateFile, text, { ifVersion })).version;
  } catch (error) {
    if (isConflict(error)) return undefined;
    throw error;
  }
}
