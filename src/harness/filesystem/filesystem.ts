import type { Namespace } from "./namespace.ts";

/**
 * How an agent's files are reached. Paths are the model's: relative to the root, `/` between names, checked by the one
 * resolver. Every operation is bounded, and every refusal is a `RivuletError` that a model can read.
 */
export interface Filesystem {
  /** The same files as one user, session or agent has them: its own, and what all share, which it may only read. */
  within(namespace: Namespace): Filesystem;
  /** A directory as a root of its own, for an agent that lives there: nothing above it can be reached. */
  below(path: string): Filesystem;
  /** Undefined when there is nothing. */
  stat(path: string): Promise<FileStat | undefined>;
  read(path: string): Promise<FileContent>;
  /** Replaces the whole file at once, or creates it with the directories above it; durable when it resolves. */
  write(path: string, data: string | Uint8Array, options?: OnVersion): Promise<WrittenFile>;
  remove(path: string): Promise<void>;
  list(path: string): Promise<Listing>;
  /** The files below `options.path` whose path from there matches. */
  glob(pattern: string, options?: SearchOptions): Promise<GlobResult>;
  grep(query: GrepQuery, options?: GrepOptions): Promise<GrepResult>;
  /** Absent where commands cannot be run. */
  execute?(command: string, options?: ExecuteOptions): Promise<ExecuteResult>;
}

/** What there is at a path. `other` is what is never opened: a symbolic link, a pipe, a device, a socket. */
export interface FileStat {
  readonly path: string;
  readonly type: "file" | "directory" | "other";
  /** In bytes; 0 for what is not a file. */
  readonly size: number;
  /** Milliseconds since the epoch; 0 where nobody knows. */
  readonly modifiedAt: number;
}

/** A file as it was at one moment. */
export interface FileContent {
  readonly path: string;
  readonly data: Uint8Array;
  /** Changes with the content; what a conditional write names. */
  readonly version: string;
}

/** The condition of a write: it fails with `conflict` unless this version is there (null: unless nothing is). */
export interface OnVersion {
  readonly ifVersion?: string | null;
}

/** What a write has made. */
export interface WrittenFile {
  readonly path: string;
  readonly version: string;
  readonly created: boolean;
}

/** One directory, ordered by path. */
export interface Listing {
  readonly entries: readonly FileStat[];
  /** There is more in it than is listed. */
  readonly cut: boolean;
}

/** Where to search. */
export interface SearchOptions {
  /** A directory; for grep also a file. Absent: the root. */
  readonly path?: string;
  readonly signal?: AbortSignal;
}

/** Why a search stopped before it had seen everything. */
export type CutBy = "limit" | "time";

/** Paths of files, in order. */
export interface GlobResult {
  readonly paths: readonly string[];
  readonly cutBy?: CutBy;
}

/** What to look for, line by line. */
export interface GrepQuery {
  readonly pattern: string;
  /** The pattern is a text, not a regular expression. */
  readonly literal?: boolean;
  readonly ignoreCase?: boolean;
}

/** Where to look. */
export interface GrepOptions extends SearchOptions {
  /** Only in files whose path, or last name when the glob has no `/`, matches. */
  readonly glob?: string;
}

/** A line that matches; a long one is cut. */
export interface GrepMatch {
  readonly path: string;
  /** Counts from 1. */
  readonly line: number;
  readonly text: string;
}

/** Lines that match, ordered by path and line. */
export interface GrepResult {
  readonly matches: readonly GrepMatch[];
  /** Files that were not searched, because they are too large. */
  readonly tooLarge: number;
  readonly cutBy?: CutBy;
}

/** How a command is run. */
export interface ExecuteOptions {
  /** The directory it starts in; absent: the root. */
  readonly path?: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** How a command ended. */
export interface ExecuteResult {
  readonly exitCode: number;
  readonly output: string;
  readonly cutBy?: CutBy;
}

/** The bounds of a filesystem. */
export interface FileLimits {
  /** The largest file that is read, written or searched. */
  readonly fileBytes: number;
  readonly listEntries: number;
  readonly globPaths: number;
  readonly globMs: number;
  readonly grepMatches: number;
  readonly grepMs: number;
}

/** What holds where nothing else is said. */
export const fileLimits: FileLimits = {
  fileBytes: 10 * 1024 * 1024,
  listEntries: 10_000,
  globPaths: 10_000,
  globMs: 5_000,
  grepMatches: 10_000,
  grepMs: 2_000,
};
