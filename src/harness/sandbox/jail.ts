import { RivuletError } from "../../base/error.ts";
import type { Fields } from "../../base/options.ts";
import * as is from "../../base/options.ts";
import type { Filesystem } from "../filesystem/filesystem.ts";

/** The kinds of jails; `unsafe` is none. */
export type JailKind = "bubblewrap" | "just-bash" | "unsafe";

/** Where the workspace is in every jail. */
export const jailRoot = "/workspace";

/** The default limits of a command. */
export const commandLimits = {
  /** How long a command may run if its call says nothing. */
  timeoutMs: 120_000,
  /** How long a call may let a command run. */
  maxTimeoutMs: 600_000,
  /** How long a command in the background may run. */
  backgroundMs: 3_600_000,
  /** The kept output: its beginning and its end. */
  outputBytes: 1024 * 1024,
  /** Of all processes of a command together. */
  memoryBytes: 1024 * 1024 * 1024,
  processes: 128,
  /** The size of `/tmp`, and of `/dev/shm`. */
  tmpBytes: 256 * 1024 * 1024,
  /** The size of one file. */
  fileBytes: 1024 * 1024 * 1024,
  /** The bytes that a command may write to the workspace, all files together. */
  workspaceBytes: 1024 * 1024 * 1024,
};

/** The limits of a command. */
export type CommandLimits = Readonly<typeof commandLimits>;

/** Options of a sandbox. */
export interface SandboxOptions {
  /** Defaults to bubblewrap if the probe succeeds, else just-bash. `unsafe` runs commands as this process. */
  readonly jail?: JailKind;
  /** Whether commands may use the network of this machine, its loopback included; defaults to false. */
  readonly network?: boolean;
  /** The environment of every command; nothing is inherited from this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Absolute paths of this machine that commands can read, besides `/usr`. */
  readonly systemPaths?: readonly string[];
  readonly commands?: Partial<CommandLimits>;
  /** Called once for a weaker jail than bubblewrap, with the reason; defaults to a process warning. */
  readonly onWarning?: (message: string) => void;
}

const limitFields: Fields<CommandLimits> = {
  timeoutMs: is.duration,
  maxTimeoutMs: is.duration,
  backgroundMs: is.duration,
  outputBytes: is.count,
  memoryBytes: is.count,
  processes: is.count,
  tmpBytes: is.count,
  fileBytes: is.count,
  workspaceBytes: is.count,
};

/** The rules for the options of a sandbox. */
export const sandboxFields: Fields<SandboxOptions> = {
  jail: is.oneOf<JailKind>("bubblewrap", "just-bash", "unsafe"),
  network: is.flag,
  env: is.recordOf(is.text),
  systemPaths: is.listOf({
    ...is.name,
    fits: (value) => typeof value === "string" && value.startsWith("/"),
    expected: "an absolute path",
  }),
  commands: is.options(limitFields),
  onWarning: is.callback,
};

/** How to run a command. */
export interface ShellOptions {
  /** The working directory, relative to the workspace; defaults to the workspace. */
  readonly cwd?: string;
  /** Defaults to the limit of the sandbox, which also limits it. */
  readonly timeoutMs?: number;
  /** Applies the limit of background commands. */
  readonly background?: boolean;
  readonly signal?: AbortSignal;
  /** Called with output as it arrives, up to the limit of kept output. Must not throw. */
  readonly onOutput?: (text: string) => void;
  /** Tells which files of the workspace the command cannot read, by their path. */
  readonly hides?: (path: string) => boolean;
}

/** Runs commands on the files of a filesystem. */
export interface Shell {
  readonly jail: JailKind;
  readonly limits: CommandLimits;
  /** Runs a script in bash, or in sh where there is no bash. Everything that it has started is gone when it resolves. */
  run(script: string, options?: ShellOptions): Promise<CommandResult>;
}

/** The part of a volume that runs commands. */
export interface ShellRunner {
  /** Tells that a directory is the root of an agent's files, so commands must not replace its instructions. */
  noteRoot(names: readonly string[]): void;
  shellFor(files: Filesystem, place: ViewPlace): Shell;
}

/** The place of a workspace in its volume. */
export interface ViewPlace {
  /** The names that lead to the layer of a namespace; empty for the common files. */
  readonly layer: readonly string[];
  /** The names that lead from there to the workspace. */
  readonly base: readonly string[];
  /** The names in the workspace that are read-only. */
  readonly readOnly: readonly string[];
  /** Tells which files a command cannot read. */
  readonly hides?: (path: string) => boolean;
}

/** A command as a jail runs it. */
export interface Command extends Pick<ShellOptions, "signal" | "onOutput"> {
  readonly script: string;
  readonly cwd: string;
  readonly timeoutMs: number;
}

/** Why a command was stopped. */
export type StopReason =
  | "timeout"
  | "cancel"
  | "memory"
  | "disk"
  | "workspace"
  | "output"
  | "control";

/** The outcome of a command. */
export interface CommandResult {
  /** Absent when the command was stopped; 128 and the number of the signal if one ended it. */
  readonly exitCode?: number;
  readonly stoppedBy?: StopReason;
  /** Standard output and standard error in the order of their arrival. */
  readonly output: string;
  /** The number of bytes that were left out of the middle of the output. */
  readonly omittedBytes: number;
  /** The working directory after the command, relative to the workspace. */
  readonly cwd: string;
}

/** An open entry of a workspace. */
export interface OpenEntry {
  /** Relative to the workspace. */
  readonly path: string;
  readonly fd: number;
}

/** What a command sees of a workspace. */
export interface JailView {
  /** The directory that becomes `/workspace`. */
  readonly directory: { readonly path: string; readonly fd: number };
  /** Entries that cannot be written, renamed or removed. */
  readonly readOnly: readonly OpenEntry[];
  /** Directories that cannot be renamed or removed, because something read-only is in them. */
  readonly pinned: readonly OpenEntry[];
  /** Paths of directories that look empty. */
  readonly hidden: readonly string[];
  /** Directories that look empty, and files that cannot be opened. */
  readonly masked: { readonly directories: readonly string[]; readonly files: readonly string[] };
  /** Removes the files that steer the agent and have appeared since the command has started. */
  sweep(): Promise<void>;
  /** The size of the files that were written since the command has started. */
  bytesWritten(): Promise<number>;
}

/** A place where commands run: on a directory of this machine, or on files that it reaches through functions. */
export type Jail =
  | {
      readonly kind: "bubblewrap" | "unsafe";
      /** The user that runs commands; absent: the user of this process. */
      readonly owner?: Owner;
      run(command: Command, view: JailView, limits: CommandLimits): Promise<CommandResult>;
    }
  | {
      readonly kind: "just-bash";
      readonly owner?: undefined;
      runOn(files: Filesystem, command: Command, limits: CommandLimits): Promise<CommandResult>;
    };

/** A user of this machine. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** Creates the error of a jail that did not start the command. */
export function jailFailed(reason: string, cause?: unknown): RivuletError {
  return new RivuletError("sandbox_failed", `The sandbox did not start: ${reason}.`, { cause });
}
