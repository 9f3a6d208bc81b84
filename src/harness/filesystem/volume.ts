import { RivuletError } from "../../protocol/error.ts";
import type { FileContent, FileStat, Listing, OnVersion, WrittenFile } from "./filesystem.ts";
import { nameProblem } from "./name.ts";
import type { Place } from "./path.ts";

/** Where files really are: a directory of a disk, blobs of a store. It is given places, never a model's path. */
export interface Volume {
  /** How its users may call a place absolutely; absent: in no way. */
  absolute?(names: readonly string[]): readonly string[];
  stat(place: Place): Promise<FileStat | undefined>;
  read(place: Place): Promise<FileContent>;
  write(place: Place, data: Uint8Array, condition: OnVersion): Promise<WrittenFile>;
  remove(place: Place): Promise<void>;
  /** What is in a directory, at most `limit` entries, in any order. */
  list(place: Place, options: { limit: number; accepts: Accepts }): Promise<Listing>;
  /** Shows every file below a directory, some at a time. */
  walk(place: Place, walk: Walk): Promise<void>;
}

/** Which names of the directory where it begins are seen. */
export type Accepts = (name: string) => boolean;

/** How a volume is walked. */
export interface Walk {
  readonly accepts: Accepts;
  visit(files: readonly FoundFile[]): Promise<void>;
  /** Asked often; true ends the walk. */
  isOver(): boolean;
}

/** A file that a walk has come to. */
export interface FoundFile {
  readonly path: string;
  /** Its bytes, or why there are none. Never rejects; to be called before `visit` has ended. */
  read(): Promise<Uint8Array | "too large" | "unreadable">;
}

/** Whether a path could have this name in it: what a volume has besides is not shown. */
export function isUsableName(name: string): boolean {
  return name !== "" && name !== "." && name !== ".." && nameProblem(name) === undefined;
}

/** The path of a name in a directory. */
export function pathIn(directory: string, name: string): string {
  return directory === "" ? name : `${directory}/${name}`;
}

/** For `catch`: why a file that was found could not be read. */
export function unreadBecause(error: unknown): "too large" | "unreadable" {
  return error instanceof RivuletError && error.code === "too_large" ? "too large" : "unreadable";
}

/** The order of paths in every result. */
export function byPath(a: { readonly path: string }, b: { readonly path: string }): number {
  return a.path < b.path ? -1 : a.path > b.path ? 1 : 0;
}
