import {
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve, sep } from "node:path";
import { RivuletError } from "../../base/error.ts";
import type { Filesystem } from "./filesystem.ts";
import { reservedPrefix } from "./path.ts";

/** The directories of this machine that local filesystems show. */
const roots = new WeakMap<Filesystem, string>();

/** Notes the directory of a local filesystem. */
export function withRoot<Local extends Filesystem>(files: Local, root: string): Local {
  roots.set(files, resolve(root));
  return files;
}

/** The directory of this machine that a filesystem shows; undefined for files that are elsewhere. */
export function rootOf(files: Filesystem): string | undefined {
  return roots.get(files);
}

/**
 * The place of a directory: a random id that is kept in it, so that processes with the same disk have the same place, and
 * a new disk is another one. Throws for a directory that is deleted with the machine.
 */
export function placeOf(root: string): string {
  if (isInside(root, tmpdir()))
    throw new RivuletError(
      "invalid_settings",
      `The workspace ${root} is in the temporary folder, but processes on other machines share the store.`,
      {
        hint: 'Keep the files in the store with filesystem: "store", or pass a `workspace` on a disk that stays.',
      },
    );
  const path = join(root, reservedPrefix, "place");
  const place = existsSync(path) ? readFileSync(path, "utf8").trim() : createPlace(path);
  if (/^[\w-]{16,64}$/.test(place)) return place;
  throw new RivuletError("invalid_settings", `The file ${path} has no id of a place.`, {
    hint: "Delete it. Sessions with files in this workspace then wait until they are moved here.",
  });
}

/** Writes the file under another name first: another process must not read a part of it, or write another id. */
function createPlace(path: string): string {
  const id = crypto.randomUUID();
  const draft = `${path}-${id}`;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(draft, `${id}\n`, { flag: "wx" });
  try {
    linkSync(draft, path);
    return id;
  } catch (error) {
    if ((error as { code?: string }).code !== "EEXIST") throw error;
    return readFileSync(path, "utf8").trim();
  } finally {
    rmSync(draft, { force: true });
  }
}

function isInside(path: string, folder: string): boolean {
  const between = relative(realOf(folder), realOf(path));
  return between !== ".." && !between.startsWith(`..${sep}`);
}

/** The path without links, as far as it exists. */
function realOf(path: string): string {
  const whole = resolve(path);
  if (existsSync(whole)) return realpathSync(whole);
  const parent = dirname(whole);
  return parent === whole ? whole : join(realOf(parent), relative(parent, whole));
}
