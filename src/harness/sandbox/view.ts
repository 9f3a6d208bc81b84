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
import { RivuletError } from "../../protocol/error.ts";
import { type Directory, errnoOf, ignoreCode, openDirectory } from "../filesystem/directory.ts";
import type { LocalVolume } from "../filesystem/local.ts";
import { foldName, reservedPrefix } from "../filesystem/path.ts";
import { copyCommonFiles, type LayerCopies } from "./copies.ts";
import type { JailView, OpenEntry, Owner, ViewPlace } from "./jail.ts";

const persona = "AGENTS.md";
const stubContent: Readonly<Record<string, string>> = { "tools.json": "{}" };

/** Runs work on a view of a workspace; the view of a layer exists while some work uses it. */
export type HoldView = <T>(place: ViewPlace, work: (view: JailView) => Promise<T>) => Promise<T>;

/** A layer that commands use. */
interface Held {
  holders: number;
  readonly copies: Promise<LayerCopies | undefined>;
  readonly stubs: Stub[];
  closing?: Promise<void>;
}

/** Creates the views of a volume. `roots` are the directories that hold the instructions of agents. */
export function viewHolder(
  local: LocalVolume,
  owner: Owner | undefined,
  roots: ReadonlyMap<string, readonly string[]>,
): HoldView {
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

  return async (place, work) => {
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
      if (owner && !given.has(key)) await give(directory, owner, isKept(place));
      given.add(key);
      const isLayer = layer.length > 0;
      const stub: AddStub = (at, name) => addStub(at, name, held.stubs, isLayer);
      const readOnly = await openReadOnly(directory, place, opened, stub);
      const nested = await openRoots(directory, place, roots.values(), opened, stub);
      const hidden = names.length === 0 ? [reservedPrefix] : [];
      if (hidden.length > 0) await mkdir(directory.at(reservedPrefix)).catch(ignoreCode("EEXIST"));
      return await work({
        directory: { path: directory.at(""), fd: directory.fd },
        readOnly: [...readOnly, ...nested.readOnly],
        pinned: nested.pinned,
        hidden,
      });
    } finally {
      for (const entry of opened) await entry.close();
      await leave(layer, held);
    }
  };
}

type AddStub = (directory: Directory, name: string) => Promise<void>;

/** Opens the entries of a workspace that its commands cannot write. */
async function openReadOnly(
  directory: Directory,
  { readOnly }: ViewPlace,
  opened: { close(): Promise<void> }[],
  stub: AddStub,
): Promise<readonly OpenEntry[]> {
  for (const name of readOnly) await stub(directory, name);
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

/** Opens the instructions in directories below the workspace, and the directories that lead there. */
async function openRoots(
  directory: Directory,
  { base, readOnly: controlled }: ViewPlace,
  roots: Iterable<readonly string[]>,
  opened: { close(): Promise<void> }[],
  stub: AddStub,
): Promise<Pick<JailView, "readOnly" | "pinned">> {
  const pinned = new Map<string, number>();
  const readOnly: OpenEntry[] = [];
  for (const root of roots) {
    const below = root.slice(base.length);
    const isBelow = base.every((name, index) => root[index] === name) && below.length > 0;
    if (!isBelow || controlled.includes(below[0] ?? "")) continue;
    let at = directory;
    try {
      for (const [index, name] of below.entries()) {
        at = await at.enter(name, name);
        opened.push(at);
        pinned.set(below.slice(0, index + 1).join("/"), at.fd ?? -1);
      }
    } catch (error) {
      if (error instanceof RivuletError && error.code === "not_found") continue;
      throw error;
    }
    await stub(at, persona);
    const handle = await openEntry(at, persona);
    opened.push(handle);
    readOnly.push({ path: [...below, persona].join("/"), fd: handle.fd });
  }
  return { pinned: [...pinned].map(([path, fd]) => ({ path, fd })), readOnly };
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
function isKept({ readOnly, layer }: ViewPlace): (name: string) => boolean {
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
