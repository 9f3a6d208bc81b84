import { RivuletError } from "../../base/error.ts";
import {
  type Filesystem,
  type FilesystemOptions,
  fileLimits,
  type Volume,
  volumeFilesystem,
} from "../filesystem/filesystem.ts";
import { layeredVolume } from "../filesystem/layers.ts";
import { isUsableName, type Place } from "../filesystem/path.ts";
import { copyLimits, inBatches } from "./copies.ts";
import { type CopyScan, createCopy, type FileCopy, hashOf } from "./file-copy.ts";
import type { CommandResult, Owner, ViewPlace } from "./jail.ts";
import { type ViewHolder, viewHolder } from "./view.ts";

/** Runs commands on copies of files that are not in a directory of this machine, and writes back what they change. */
export type CopyHolder = (
  files: Filesystem,
  place: ViewPlace,
  signal: AbortSignal | undefined,
  work: (copy: LocalFiles) => Promise<CommandResult>,
) => Promise<CommandResult>;

/** Files in a directory of this machine, and how commands see them. */
export interface LocalFiles {
  readonly files: Filesystem;
  readonly place: ViewPlace;
  readonly hold: ViewHolder["hold"];
}

/** A copy that commands of one workspace use, one after the other. */
interface Workspace {
  readonly copy: FileCopy;
  readonly hold: ViewHolder["hold"];
  /** The directories in it that hold the instructions of agents. */
  readonly roots: Map<string, readonly string[]>;
}

/** The unused copies of a volume: each saves the next command of its workspace from copying all files. */
const keep = { copies: 8, ms: 600_000 };
const parallel = 16;
const maxNotes = 20;
const clockMs = 50;

/** Creates the copies of a volume. `roots` are the directories that hold the instructions of agents. */
export function copyHolder(
  whole: Volume,
  owner: Owner | undefined,
  roots: ReadonlyMap<string, readonly string[]>,
  options: FilesystemOptions,
): CopyHolder {
  const maxBytes = options.limits?.fileBytes ?? fileLimits.fileBytes;
  const unused = new Map<string, { workspace: Workspace; timer: NodeJS.Timeout }>();

  async function take(key: string): Promise<Workspace> {
    const kept = unused.get(key);
    clearTimeout(kept?.timer);
    unused.delete(key);
    if (kept && (await kept.workspace.copy.exists())) return kept.workspace;
    const copy = await createCopy(owner, options);
    const own = new Map<string, readonly string[]>();
    return { copy, roots: own, hold: viewHolder(copy.local, owner, own).hold };
  }
  function put(key: string, workspace: Workspace): void {
    drop(key);
    const timer = setTimeout(() => drop(key), keep.ms);
    timer.unref();
    unused.set(key, { workspace, timer });
    const [oldest] = unused.keys();
    if (unused.size > keep.copies && oldest !== undefined) drop(oldest);
  }
  function drop(key: string): void {
    const kept = unused.get(key);
    clearTimeout(kept?.timer);
    unused.delete(key);
    void kept?.workspace.copy.remove().catch(() => {}); // the next process removes it
  }

  return async (files, place, signal, work) => {
    const { layer, base, readOnly, hides } = place;
    const volume = layer.length > 0 ? layeredVolume(whole, layer) : whole;
    const key = [...layer, "", ...base].join("/");
    const workspace = await take(key);
    const { copy, hold } = workspace;
    let isReusable = false;
    try {
      await update(copy, volume, place);
      workspace.roots.clear();
      for (const root of roots.values()) {
        const isBelow = base.every((name, index) => root[index] === name);
        if (isBelow) workspace.roots.set(root.join("/"), root.slice(base.length));
      }
      const startedAt = Date.now();
      const result = await work({
        files: volumeFilesystem(copy.local, options),
        place: { layer: [], base: [], readOnly, ...(hides && { hides }) },
        hold,
      });
      // A person who cancels a command keeps its files. An error of ours says that another process may continue the task.
      const isLost = signal?.aborted === true && signal.reason instanceof RivuletError;
      if (isLost || result.stoppedBy === "workspace") return result;
      const notes = await writeBack(copy, files, volume, place, startedAt, maxBytes);
      isReusable = notes.length === 0;
      const shown = notes.slice(0, maxNotes);
      if (notes.length > maxNotes) shown.push(`${notes.length - maxNotes} more were not kept.`);
      const text = shown.map((note) => `${note}\n`).join("");
      return { ...result, output: result.output + text };
    } finally {
      if (isReusable) put(key, workspace);
      else await copy.remove().catch(() => {});
    }
  };
}

/** The files of a workspace with their versions, and what reads them. */
async function walkFiles(
  volume: Volume,
  { base }: ViewPlace,
  visit: Parameters<Volume["walk"]>[1]["visit"],
  isOver: () => boolean = () => false,
): Promise<void> {
  const root: Place = { path: "", base, names: [], writable: true };
  await volume.walk(root, { accepts: isUsableName, visit, isOver });
}

async function versionsOf(volume: Volume, place: ViewPlace) {
  const versions = new Map<string, string>();
  const { maxFiles } = copyLimits;
  await walkFiles(
    volume,
    place,
    async (found) => {
      for (const { path, version = "" } of found) versions.set(path, version);
    },
    () => versions.size > maxFiles,
  );
  if (versions.size > maxFiles) throw tooMuch(`${maxFiles} files`);
  return versions;
}

/** Makes a copy equal to the files: what the last command left is compared, and what is another version is copied. */
async function update(copy: FileCopy, volume: Volume, place: ViewPlace): Promise<void> {
  const versions = await versionsOf(volume, place);
  const wanted = (path: string) => (place.hides?.(path) ? undefined : versions.get(path));
  const isCurrent = (path: string, stamp: string) => {
    const copied = copy.files.get(path);
    return versions.has(path) && copied?.version === wanted(path) && copied?.stamp === stamp;
  };
  const scan = await copy.scan();
  const current = new Set<string>();
  for (const [path, { stamp }] of scan.files) if (isCurrent(path, stamp)) current.add(path);
  const needed = directoriesAbove(versions.keys());
  const obsolete = [...scan.files.keys()].filter((path) => !current.has(path));
  await copy.prune(scan, obsolete, (directory) => needed.has(directory));
  if (current.size === versions.size) return;
  await walkFiles(volume, place, (found) =>
    inBatches(found, parallel, async ({ path, version, read }) => {
      if (!versions.has(path) || current.has(path)) return;
      if (place.hides?.(path)) return copy.write(path, new Uint8Array(), undefined);
      const data = await read();
      if (typeof data === "string") return; // a command cannot have what file tools cannot read
      await copy.write(path, data, version);
      let bytes = 0;
      for (const { size } of copy.files.values()) bytes += size;
      if (bytes > copyLimits.maxBytes) throw tooMuch(`${copyLimits.maxBytes} bytes`);
    }),
  );
}

function tooMuch(limit: string): RivuletError {
  const message = `The workspace has more than ${limit}, too many to copy for commands.`;
  const hint = "Move large files out of the workspace and add their directory to systemPaths.";
  return new RivuletError("sandbox_failed", message, { hint });
}

function directoriesAbove(paths: Iterable<string>): ReadonlySet<string> {
  const directories = new Set<string>();
  for (const path of paths) {
    for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) {
      const directory = path.slice(0, end);
      if (directories.has(directory)) break;
      directories.add(directory);
    }
  }
  return directories;
}

/** Writes what a command has changed, with the rules of file tools; returns a note for each file that is not written. */
async function writeBack(
  copy: FileCopy,
  files: Filesystem,
  volume: Volume,
  place: ViewPlace,
  startedAt: number,
  maxBytes: number,
): Promise<readonly string[]> {
  const scan = await copy.scan();
  const notes = scan.others.map((path) => note(path, "not_regular", maxBytes));
  const attempt = async (path: string, work: () => Promise<void>) => {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof RivuletError) || !Object.hasOwn(reasons, error.code)) throw error;
      notes.push(note(path, error.code as keyof typeof reasons, maxBytes));
    }
  };
  const removed = [...copy.files.keys()].filter((path) => !scan.files.has(path));
  if (removed.length > 0) {
    const changed = (path: string) => void notes.push(note(path, "conflict", maxBytes));
    for (const path of removable(copy, scan, removed, await versionsOf(volume, place), changed))
      await attempt(path, () => files.remove(path));
    for (const path of removed) copy.files.delete(path);
  }
  await inBatches([...scan.files], parallel, ([path, { stamp, changedAt }]) =>
    attempt(path, async () => {
      const copied = copy.files.get(path);
      // A file that was just copied may have changed within one tick of the clock of its disk.
      if (stamp === copied?.stamp && changedAt < startedAt - clockMs) return;
      const data = await copy.read(path, maxBytes);
      if (!data) return void notes.push(note(path, "too_large", maxBytes));
      const hash = hashOf(data);
      if (copied?.hash === hash) return;
      if (copied && copied.version === undefined)
        return void notes.push(note(path, "denied", maxBytes));
      const { version } = await files.write(path, data, { ifVersion: copied?.version ?? null });
      copy.files.set(path, { version, stamp, hash, size: data.byteLength });
    }),
  );
  return notes.sort();
}

/** The removed files that nobody has changed meanwhile; a directory in place of all files that were in it. */
function removable(
  copy: FileCopy,
  { directories }: CopyScan,
  removed: readonly string[],
  versions: ReadonlyMap<string, string>,
  changed: (path: string) => void,
): ReadonlySet<string> {
  const found = removed.filter((path) => {
    const version = versions.get(path);
    const isSame = version === copy.files.get(path)?.version;
    if (version !== undefined && !isSame) changed(path);
    return version !== undefined && isSame;
  });
  const gone = new Set(found);
  const kept = directoriesAbove([...versions.keys()].filter((path) => !gone.has(path)));
  return new Set(
    found.map((path) => {
      const names = path.split("/");
      const above = names.slice(1).map((_, index) => names.slice(0, index + 1).join("/"));
      return above.find((directory) => !directories.has(directory) && !kept.has(directory)) ?? path;
    }),
  );
}

/** Why a file is not written back, by the code of the error. */
const reasons = {
  conflict: () => "somebody else changed it while the command ran",
  not_a_file: () => "somebody else created a directory of this name",
  not_a_directory: () => "somebody else created a file in place of its directory",
  not_found: () => "somebody else removed it while the command ran",
  read_only: () => "it is read-only",
  invalid_path: () => "file tools cannot use its name",
  outside_workspace: () => "file tools cannot use its name",
  not_regular: () => "links and special files are not kept",
  denied: () => "a rule forbids to read it",
  too_large: (maxBytes: number) => `it has more than ${maxBytes} bytes`,
  file_too_large: () => "it is too large for the store",
};

function note(path: string, code: keyof typeof reasons, maxBytes: number): string {
  return `The change of ${path} was not kept, because ${reasons[code](maxBytes)}.`;
}
