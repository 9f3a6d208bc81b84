import { tmpdir } from "node:os";
import { resolve } from "node:path";
import { RivuletError } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import { type Fields, readArgument, readOptions } from "../../base/options.ts";
import { bubblewrapJail } from "../sandbox/bubblewrap.ts";
import { type CopyHolder, copyHolder } from "../sandbox/copied-files.ts";
import {
  type Command,
  type CommandLimits,
  commandLimits,
  type Jail,
  type JailKind,
  jailRoot,
  type SandboxOptions,
  type Shell,
  type ShellOptions,
  type ShellRunner,
  sandboxFields,
} from "../sandbox/jail.ts";
import { noJail } from "../sandbox/unsafe.ts";
import { viewHolder } from "../sandbox/view.ts";
import { isVirtualShellInstalled, virtualShell } from "../sandbox/virtual-shell.ts";
import { guardFiles } from "./file-rules.ts";
import {
  type Filesystem,
  type FilesystemOptions,
  filesystemFields,
  type Volume,
  volumeFilesystem,
  withVolume,
} from "./filesystem.ts";
import { localVolume } from "./local.ts";
import { withRoot } from "./place.ts";

/** Options of a sandboxed filesystem. */
export interface SandboxFilesystemOptions extends FilesystemOptions, SandboxOptions {}

/** A filesystem whose files commands can use as well. */
export interface SandboxFilesystem extends Filesystem {
  readonly shell: Shell;
}

const allFields: Fields<SandboxFilesystemOptions> = { ...filesystemFields, ...sandboxFields };
const shellFields: Fields<ShellOptions> = {
  cwd: is.text,
  timeoutMs: is.duration,
  background: is.flag,
  signal: is.signal,
  onOutput: is.callback,
  hides: is.callback,
};

/** Creates a filesystem in a directory of this machine, where commands run in a jail; throws `no_sandbox` without one. */
export function sandboxFilesystem(
  root: string,
  given: SandboxFilesystemOptions = {},
): SandboxFilesystem {
  readArgument("root", root, is.required(is.name, '"./workspace"'));
  const options = readOptions("sandboxFilesystem()", given, allFields);
  const files = volumeFilesystem(localSandbox(resolve(root), options), options);
  return withRoot(files as SandboxFilesystem, root);
}

/** What an agent or a declaration says about commands. */
export interface SandboxChoice {
  /** Whether the files can execute commands, or how. */
  readonly sandbox: boolean | SandboxOptions;
}

/** An agent's choice of files; with `store`, they are there and not in the directory of the workspace. */
export type FilesChoice = SandboxChoice & { readonly store?: boolean };

/** Returns whether an option is a choice about commands, with valid options. */
export function isSandboxChoice(value: unknown): value is SandboxChoice {
  return isChoice(value, choiceFields);
}

/** Returns whether an option is a choice about files, with valid options. */
export function isFilesChoice(value: unknown): value is FilesChoice {
  return isChoice(value, filesFields);
}

function isChoice(value: unknown, fields: Fields<SandboxChoice>): boolean {
  if (typeof value !== "object" || value === null || !("sandbox" in value)) return false;
  const { sandbox } = readOptions("filesystem", value as SandboxChoice, fields);
  if (typeof sandbox === "object") readOptions("filesystem.sandbox", sandbox, sandboxFields);
  return true;
}

/** The rule for whether there are commands, or how; `withSandbox` checks the options. */
export const sandboxField = is.or(is.flag, "an object", (value) => typeof value === "object");
const choiceFields: Fields<SandboxChoice> = { sandbox: is.required(sandboxField) };
const filesFields: Fields<FilesChoice> = { ...choiceFields, store: is.flag };

/** Returns the same files with commands as the choice says; throws `no_sandbox` if they cannot have them. */
export function withSandbox(files: Filesystem, { sandbox }: SandboxChoice): Filesystem {
  const changed = withVolume(files, (volume, options) => {
    if (!sandbox) return { ...volume, runner: undefined };
    const { directory } = volume;
    const wanted =
      typeof sandbox === "object" ? readOptions("sandbox", sandbox, sandboxFields) : {};
    const all = { ...options, ...wanted };
    return directory === undefined ? copySandbox(volume, all) : localSandbox(directory, all);
  });
  if (changed || !sandbox) return changed ?? files;
  const hint = "Use localFilesystem, sandboxFilesystem or storeFilesystem.";
  const message = "Commands need files in a directory of this machine or in a store.";
  throw new RivuletError("no_sandbox", message, { hint });
}

/** Chooses the jail that the options name, or the best that this machine offers; tells the operator about a weaker one. */
function chooseJail(root: string, options: SandboxOptions): Jail {
  const { jail: wanted, onWarning = warnProcess } = options;
  if (wanted === "unsafe") {
    warnOnce(onWarning, "Commands run without a jail, with all rights of this process.");
    return noJail(options);
  }
  const probed = wanted === "just-bash" ? { reason: "" } : bubblewrapJail(root, options);
  if ("jail" in probed) {
    if (probed.warning) warnOnce(onWarning, probed.warning);
    return probed.jail;
  }
  if (wanted === "bubblewrap" || !isVirtualShellInstalled()) {
    const other = wanted ? "" : ", and just-bash is not installed";
    const problem = probed.reason || "just-bash is not installed";
    const hint =
      'Install bubblewrap, or the package just-bash; jail: "unsafe" runs commands without a jail.';
    throw new RivuletError("no_sandbox", `There is no sandbox: ${problem}${other}.`, { hint });
  }
  if (wanted === undefined) {
    const limits = "It has its own commands and cannot run programs.";
    warnOnce(onWarning, `Commands run in just-bash because ${probed.reason}. ${limits}`);
  }
  return virtualShell(options);
}

const warned = new WeakMap<(message: string) => void, Set<string>>();

function warnOnce(onWarning: (message: string) => void, message: string): void {
  const messages = warned.get(onWarning) ?? new Set();
  warned.set(onWarning, messages);
  if (messages.has(message)) return;
  messages.add(message);
  onWarning(message);
}

function warnProcess(message: string): void {
  process.emitWarning(message, "RivuletWarning");
}

/** Files in a directory, where commands run. */
function localSandbox(path: string, options: SandboxFilesystemOptions): Volume {
  const jail = chooseJail(path, options);
  const local = localVolume(path, options, jail.owner);
  const roots: Roots = new Map();
  const { hold, noteWrite } = viewHolder(local, jail.owner, roots);
  return {
    ...local,
    write(place, data, options) {
      noteWrite([...place.base, ...place.names]);
      return local.write(place, data, options);
    },
    absolute: () => [jailRoot],
    runner: runnerOf(jail, options, roots, (files, place, _signal, work) =>
      work({ files, place, hold }),
    ),
  };
}

/** Files that are elsewhere: commands run on copies. */
function copySandbox(volume: Volume, options: SandboxFilesystemOptions): Volume {
  const jail = chooseJail(tmpdir(), options);
  const roots: Roots = new Map();
  return {
    ...volume,
    absolute: () => [jailRoot],
    runner: runnerOf(jail, options, roots, copyHolder(volume, jail.owner, roots, options)),
  };
}

type Roots = Map<string, readonly string[]>;

function runnerOf(
  jail: Jail,
  { commands }: SandboxOptions,
  roots: Roots,
  reach: CopyHolder,
): ShellRunner {
  const limits: CommandLimits = { ...commandLimits, ...commands };
  return {
    noteRoot: (names) => void roots.set(names.join("/"), names),
    shellFor: (files, place) => ({
      jail: jail.kind satisfies JailKind,
      limits,
      async run(script, given = {}) {
        readArgument("script", script, is.required(is.name, '"ls -l"'));
        const {
          cwd = "",
          background,
          timeoutMs,
          hides,
          ...rest
        } = readOptions("run()", given, shellFields);
        const most = background ? limits.backgroundMs : limits.maxTimeoutMs;
        const usual = background ? limits.backgroundMs : limits.timeoutMs;
        const command: Command = {
          ...rest,
          script,
          cwd: files.normalize(cwd),
          timeoutMs: Math.min(timeoutMs ?? usual, most),
        };
        const seen = hides ? { ...place, hides } : place;
        return reach(files, seen, rest.signal, ({ files, place, hold }) => {
          if (jail.kind !== "just-bash")
            return hold(place, (view) => jail.run(command, view, limits));
          const mayRead = (path: string) => !hides?.(path);
          const guarded = guardFiles(files, hides && { mayName: mayRead, mayRead });
          return jail.runOn(guarded, command, limits);
        });
      },
    }),
  };
}
