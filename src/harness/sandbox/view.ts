import { constants } from "node:fs";
import {
  type FileHandle,
  lchown,
  lstat,
  mkdir,
  open,
  readdir,
  rmdir,
  unlink,
} from "node:fs/promises";
import { RivuletError } from "../../base/error.ts";
import { type Directory, errnoOf, ignoreCode, openDirectory } from "../filesystem/directory.ts";
import { valueOnCodes } from "../filesystem/file-error.ts";
import type { LocalVolume } from "../filesystem/local.ts";
import { foldName, pathIn, reservedPrefix } from "../filesystem/path.ts";
import { configFiles, steering } from "../filesystem/steering.ts";
import { copyCommonFiles, type LayerCopies } from "./copies.ts";
import type { CommandResult, JailView, OpenEntry, Owner, ViewPlace } from "./jail.ts";
import {
  bytesWritten,
  findMasked,
  removeNewFiles,
  type Survey,
  sweepInstructions,
  takeSurvey,
} from "./survey.ts";

const { instructions: instructionsFile, toolsFile } = steering;
const stubContent: Readonly<Record<string, string>> = { [toolsFile]: "{}" };

/**
 * Runs commands on views of workspaces; the view of a layer exists while some command uses it. Files that steer the agent
 * and appear meanwhile are removed.
 */
export interface ViewHolder {
  hold(place: ViewPlace, work: (view: JailView) => Promise<CommandResult>): Promise<CommandResult>;
  /** Tells that a file tool writes a file, which is not a command's. */
  noteWrite(names: readonly string[]): void;
}

/** A layer that commands use. */
interface Held {
  holders: number;
  readonly copies: Promise<LayerCopies | undefined>;
  readonly stubs: Stub[];
  /** Those of the first command, by directory: what another one adds while it runs must not count as known. */
  readonly surveys: Map<string, Survey>;
  /** The paths that file tools have written meanwhile. */
  readonly toolPaths: Set<string>;
  /** The paths of entries that some command has read-only; they may be stubs. */
  readonly bound: Set<string>;
  closing?: Promise<void>;
}

/** Creates the views of a volume. `roots` are the directories that hold the instructions of agents. */
export function viewHolder(
  local: LocalVolume,
  owner: Owner | undefined,
  roots: ReadonlyMap<string, readonly string[]>,
): ViewHolder {
  const layers = new Map<string, Held>();
  const given = new Set<string>(); // directories whose files belong to the owner

  async function enter({ layer, readOnly }: ViewPlace): Promise<Held> {
    const key = layer.join("/");
    for (let held = layers.get(key); held?.closing; held = layers.get(key)) await held.closing;
    const held = layers.get(key) ?? {
      holders: 0,
      copies:
        layer.length > 0 ? copyCommonFiles(local, layer, readOnly) : Promise.resolve(undefined),
      stubs: [],
      surveys: new Map(),
      toolPaths: new Set(),
      bound: new Set(),
    };
    layers.set(key, held);
    held.holders++;
    return held;
  }

  async function leave(layer: readonly string[], held: Held): Promise<void> {
    if (--held.holders > 0) return;
    const close = async () => {
      try {
        for (const stub of held.stubs) await removeStub(stub);
        const copies = await held.copies.catch(() => undefined);
        await copies?.release();
      } finally {
        for (const { directory } of held.stubs) await directory.close();
        layers.delete(layer.join("/"));
      }
    };
    held.closing = close();
    await held.closing;
  }

  const hold: ViewHolder["hold"] = async (place, work) => {
    const { layer, base } = place;
    const held = await enter(place);
    const opened: { close(): Promise<void> }[] = [];
    try {
      await held.copies;
      const root = await local.root();
      const names = [...layer, ...base];
      const directory = await openDirectory(
        root,
        { path: "", base: names, names: [] },
        { create: true },
      );
      opened.push(directory);
      if (directory.fd === undefined) throw notHeld();
      const key = names.join("/");
      if (owner && !given.has(key)) await give(directory, owner, keptNames(place));
      given.add(key);
      const workspace = { root: directory, isKept: keptNames(place) };
      const before = await takeSurvey(workspace);
      const first = held.surveys.get(key) ?? before;
      held.surveys.set(key, first);
      const isLayer = layer.length > 0;
      const stub: AddStub = (at, name) => addStub(at, name, held.stubs, isLayer);
      const readOnly = await openReadOnly(directory, place, opened, stub);
      const rootPaths = rootsBelow(place, roots.values());
      for (const root of rootPaths) await addInstructions(directory, root, stub);
      const paths = [...rootPaths.map((root) => pathIn(root, instructionsFile))];
      const masked = place.hides ? await findMasked(directory, place.hides) : nothingMasked;
      const hiddenPaths = [...masked.directories, ...masked.files];
      const nested = await openNested(directory, [...paths, ...first.nested], hiddenPaths, opened);
      const hidden = names.length === 0 ? [reservedPrefix] : [];
      if (hidden.length > 0) await mkdir(directory.at(reservedPrefix)).catch(ignoreCode("EEXIST"));
      for (const { path } of [...readOnly, ...nested.readOnly]) held.bound.add(pathIn(key, path));
      const removed = new Set<string>();
      const sweep = async () => {
        const isBound = (path: string) => held.bound.has(pathIn(key, path));
        const swept = await sweepInstructions(workspace, first, isBound);
        for (const path of swept) removed.add(path);
      };
      const view = {
        directory: { path: directory.at(""), fd: directory.fd },
        readOnly: [...readOnly, ...nested.readOnly],
        pinned: nested.pinned,
        hidden,
        masked,
        sweep,
        bytesWritten: () => bytesWritten(workspace, { ...before, takenAt: startedAt }),
      };
      const startedAt = Date.now(); // the stubs are older
      const result = await work(view).finally(sweep);
      if (result.stoppedBy === "workspace") {
        await removeNewFiles(workspace, before, (path) => held.toolPaths.has(pathIn(key, path)));
      }
      const notes = [...removed].sort().map((path) => `${path} ${removedNote}\n`);
      return { ...result, output: result.output + notes.join("") };
    } finally {
      for (const entry of opened) await entry.close();
      await leave(layer, held);
    }
  };
  return {
    hold,
    noteWrite(names) {
      const path = names.join("/");
      for (const [layer, { toolPaths }] of layers) if (path.startsWith(layer)) toolPaths.add(path);
    },
  };
}

const removedNote = "was not kept, because commands cannot change the files that steer the agent.";

const nothingMasked: JailView["masked"] = { directories: [], files: [] };

type AddStub = (directory: Directory, name: string) => Promise<void>;

/** Opens the entries of a workspace that its commands cannot write. */
async function openReadOnly(
  directory: Directory,
  { readOnly }: ViewPlace,
  opened: { close(): Promise<void> }[],
  stub: AddStub,
): Promise<readonly OpenEntry[]> {
  for (const name of readOnly) if (!configFiles.includes(name)) await stub(directory, name);
  const names = await readdir(directory.at(""));
  const folded = new Set(readOnly.map(foldName));
  const isReadOnly = (name: string) => folded.has(foldName(name)) || name === ".git";
  const entries: OpenEntry[] = [];
  for (const name of names.filter(isReadOnly)) {
    const handle = await openEntry(directory, name);
    opened.push(handle);
    entries.push({ path: name, fd: handle.fd });
  }
  return entries;
}

/** The paths of directories below a workspace that are the root of an agent's files. */
function rootsBelow(
  { base, readOnly }: ViewPlace,
  roots: Iterable<readonly string[]>,
): readonly string[] {
  return [...roots].flatMap((root) => {
    const below = root.slice(base.length);
    const isBelow = base.every((name, index) => root[index] === name) && below.length > 0;
    return isBelow && !readOnly.includes(below[0] ?? "") ? [below.join("/")] : [];
  });
}

/** Adds a stub of the instructions in a directory, if the directory exists. */
async function addInstructions(directory: Directory, path: string, stub: AddStub): Promise<void> {
  const opened: Directory[] = [];
  try {
    let at = directory;
    for (const name of path.split("/")) {
      at = await at.enter(name, name);
      opened.push(at);
    }
    await stub(at, instructionsFile);
  } catch (error) {
    valueOnCodes(undefined, "not_found")(error);
  } finally {
    for (const entry of opened) await entry.close();
  }
}

/** Opens files in directories below the workspace, and the directories above these and above hidden paths. */
async function openNested(
  directory: Directory,
  paths: readonly string[],
  hiddenPaths: readonly string[],
  opened: { close(): Promise<void> }[],
): Promise<Pick<JailView, "readOnly" | "pinned">> {
  const pinned = new Map<string, Directory>();
  const readOnly: OpenEntry[] = [];
  for (const path of new Set([...paths, ...hiddenPaths])) {
    const names = path.split("/");
    try {
      let at = directory;
      for (const [index, name] of names.slice(0, -1).entries()) {
        const above = names.slice(0, index + 1).join("/");
        const child = pinned.get(above) ?? (await at.enter(name, above));
        if (!pinned.has(above)) opened.push(child);
        pinned.set(above, child);
        at = child;
      }
      if (hiddenPaths.includes(path)) continue;
      const handle = await openEntry(at, names.at(-1) ?? "");
      opened.push(handle);
      readOnly.push({ path, fd: handle.fd });
    } catch (error) {
      if (errnoOf(error) !== "ENOENT") valueOnCodes(undefined, "not_found")(error);
    }
  }
  return { pinned: [...pinned].map(([path, { fd = -1 }]) => ({ path, fd })), readOnly };
}

async function openEntry(directory: Directory, name: string): Promise<FileHandle> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  try {
    const handle = await open(directory.at(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const stats = await handle.stat();
    if (stats.isFile() || stats.isDirectory()) return handle;
    await handle.close();
  } catch (error) {
    if (errnoOf(error) !== "ELOOP") throw error;
  }
  const hint = "Replace it with a regular file or directory.";
  const message = `${name} must be a regular file or directory, because commands must not change it.`;
  throw new RivuletError("sandbox_failed", message, { hint });
}

/** An entry that exists only while commands run. */
interface Stub {
  readonly directory: Directory;
  readonly name: string;
  readonly inode: bigint;
  readonly size: bigint;
}

/** Creates an entry if it is missing. In a layer, one that a crash has left there counts as created. */
async function addStub(
  directory: Directory,
  name: string,
  stubs: Stub[],
  isLayer: boolean,
): Promise<void> {
  const at = directory.at(name);
  const content = stubContent[name] ?? "";
  try {
    if (!name.includes(".")) await mkdir(at);
    else {
      const handle = await open(at, "wx", 0o644);
      await handle.writeFile(content).finally(() => handle.close());
    }
  } catch (error) {
    ignoreCode("EEXIST")(error);
    if (!isLayer || stubs.some((stub) => stub.name === name)) return;
  }
  const stats = await lstat(at, { bigint: true });
  if (!stats.isDirectory() && stats.size !== BigInt(content.length)) return;
  const own = await directory.enter(".", name); // the caller closes its directory first
  stubs.push({ directory: own, name, inode: stats.ino, size: stats.size });
}

async function removeStub({ directory, name, inode, size }: Stub): Promise<void> {
  const at = directory.at(name);
  const stats = await lstat(at, { bigint: true }).catch(ignoreCode("ENOENT"));
  if (stats?.ino !== inode) return;
  if (stats.isDirectory()) {
    await rmdir(at).catch((error) => {
      if (!["ENOTEMPTY", "EEXIST"].includes(errnoOf(error))) throw error;
    });
  } else if (stats.size === size) await unlink(at);
}

/** Control files stay with the user that wrote them. */
function keptNames({ readOnly, layer }: ViewPlace): (name: string) => boolean {
  const folded = new Set(readOnly.map(foldName));
  return (name) =>
    folded.has(foldName(name)) ||
    name === ".git" ||
    (layer.length === 0 && name === reservedPrefix);
}

/** Gives a directory and everything in it to a user. */
async function give(
  directory: Directory,
  owner: Owner,
  isKept: (name: string) => boolean = () => false,
): Promise<void> {
  const { uid, gid } = owner;
  const own = await lstat(`${directory.at("")}/.`);
  if (own.uid !== uid) await lchown(`${directory.at("")}/.`, uid, gid);
  for (const entry of await readdir(directory.at(""), { withFileTypes: true })) {
    const { name } = entry;
    if (isKept(name)) continue;
    if (entry.isDirectory()) {
      const child = await directory.enter(name, name).catch(() => undefined);
      if (child) await give(child, owner).finally(() => child.close());
    } else if ((await lstat(directory.at(name))).uid !== uid) {
      await lchown(directory.at(name), uid, gid).catch(ignoreCode("ENOENT"));
    }
  }
}

function notHeld(): RivuletError {
  const message = "The sandbox needs a system with /proc/self/fd.";
  return new RivuletError("sandbox_failed", message, { hint: "Mount /proc." });
}
