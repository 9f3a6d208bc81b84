import { type Clock, systemClock } from "../../base/clock.ts";
import type { RivuletError } from "../../base/error.ts";
import type { Awaitable } from "../../base/time.ts";
import { isSettled, trackPaths } from "../workspace.ts";
import type { FileStat, Filesystem } from "./filesystem.ts";

/** A problem with a file: a warning, or the reason why the file was skipped. */
export interface LoadProblem {
  readonly path: string;
  readonly level: "warning" | "skipped";
  readonly reason: string;
}

/** The files of a directory that a loader reads. */
export interface FoundFiles {
  readonly entries: readonly FileStat[];
  /** Paths whose appearance or change means that the files must be read again. */
  readonly paths: readonly string[];
}

/** How a loader finds and reads the files of a directory. */
export interface FileLoader<Found extends FoundFiles, Loaded> {
  find(): Promise<Found>;
  /** `isComplete`: false if the same files may give another result the next time. */
  load(found: Found): Promise<{ readonly loaded: Loaded; readonly isComplete: boolean }>;
}

interface Kept<Loaded> {
  /** The list of files; "" if they must be read again. */
  readonly seen: string;
  /** A cheap check of the files; false if they cannot be tracked. */
  readonly isCurrent: () => boolean;
  readonly loaded: Loaded;
}

/** Reads files again when one of them changes, and else returns the same object. */
export function fileLoader<Found extends FoundFiles, Loaded>(
  files: Filesystem,
  directory: string,
  { find, load }: FileLoader<Found, Loaded>,
  clock: Clock = systemClock,
): () => Awaitable<Loaded> {
  let last: Kept<Loaded> | undefined;
  const loadAgain = async () => {
    const isListCurrent = trackPaths(files, [directory]);
    const found = await find();
    const seen = JSON.stringify(found);
    if (!isListCurrent && last?.seen === seen) return last.loaded;
    const isEachCurrent = trackPaths(files, found.paths);
    const now = clock.now();
    const { loaded, isComplete } = await load(found);
    const isCacheable = isComplete && found.entries.every((entry) => isSettled(entry, now));
    const isSame = JSON.stringify(last?.loaded) === JSON.stringify(loaded);
    last = {
      seen: isCacheable ? seen : "",
      isCurrent: () => isCacheable && isListCurrent?.() === true && isEachCurrent?.() === true,
      loaded: last && isSame ? last.loaded : loaded,
    };
    return last.loaded;
  };
  return () => (last?.isCurrent() ? last.loaded : loadAgain());
}

/** An error as the reason of a problem. */
export function problemReason({ message, hint }: RivuletError): string {
  return hint === undefined ? message : `${message} ${hint}`;
}
