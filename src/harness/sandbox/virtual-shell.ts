import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { onAbort } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import type { Filesystem } from "../filesystem/filesystem.ts";
import {
  type Command,
  type CommandLimits,
  type CommandResult,
  type Jail,
  jailFailed,
  jailRoot,
  type SandboxOptions,
} from "./jail.ts";
import { capOutput, childProcess } from "./process.ts";
import type { FileRequest, FileResponse, ShellEnd, ShellStart } from "./shell-process.ts";

const minMegabytes = 32;

/** Returns whether the optional package just-bash can be loaded. */
export function isVirtualShellInstalled(): boolean {
  try {
    createRequire(import.meta.url).resolve("just-bash");
    return true;
  } catch {
    return false;
  }
}

/** Runs commands in just-bash, a shell without processes. It gets a process of its own: a thread that runs out of memory ends all. */
export function virtualShell({ env = {} }: SandboxOptions): Jail {
  return {
    kind: "just-bash",
    runOn: (files, command, limits) => runInProcess(files, command, limits, env),
  };
}

/** The program is a file of its own, in the sources as well as in the package. */
function programPath(): string {
  const isSource = import.meta.url.endsWith(".ts");
  const path = isSource ? "./shell-process.ts" : "./harness/sandbox/shell-process.js";
  return fileURLToPath(new URL(path, import.meta.url));
}

async function runInProcess(
  files: Filesystem,
  command: Command,
  { memoryBytes, outputBytes, workspaceBytes }: CommandLimits,
  env: Readonly<Record<string, string>>,
): Promise<CommandResult> {
  const { script, cwd, timeoutMs, signal, onOutput } = command;
  const megabytes = Math.max(minMegabytes, Math.floor(memoryBytes / 1024 ** 2));
  const child = childProcess().fork(programPath(), [], {
    cwd: "/",
    env: {},
    execArgv: [`--max-old-space-size=${megabytes}`, "--disable-warning=ExperimentalWarning"],
    serialization: "advanced",
    stdio: ["ignore", "ignore", "ignore", "ipc"],
    detached: true,
  });
  const ended = Promise.withResolvers<ShellEnd | CommandResult["stoppedBy"]>();
  const timer = setTimeout(() => ended.resolve("timeout"), timeoutMs);
  const ledger: Ledger = { sizes: new Map(), created: new Set(), maxBytes: workspaceBytes };
  child.on("message", async (message: FileRequest | ShellEnd) => {
    if ("exitCode" in message) return ended.resolve(message);
    if (!(await isWithin(ledger, files, message))) return ended.resolve("workspace");
    const response = await answer(files, message);
    if (child.connected) child.send(response, () => {});
  });
  child.once("error", (error) => ended.reject(jailFailed(error.message, error)));
  // Nothing but its limit of memory ends it before it has sent the result.
  child.once("exit", (_, name) => {
    if (name === "SIGABRT" || name === "SIGTRAP") ended.resolve("memory");
    else ended.reject(jailFailed(`its process ended with ${name ?? "an error"}`));
  });
  const ignoreAbort = signal && onAbort(signal, () => ended.resolve("cancel"));
  const start: ShellStart = {
    script,
    cwd: `${jailRoot}/${cwd}`.replace(/\/$/, ""),
    env,
    outputBytes,
    timeoutMs,
  };
  child.send(start, () => {});
  try {
    const end = await ended.promise;
    if (end === undefined || typeof end === "string") {
      child.kill("SIGKILL");
      const created = end === "workspace" ? ledger.created : [];
      for (const path of created) await files.remove(path).catch(() => {}); // the command has removed it
      return { ...(end && { stoppedBy: end }), output: "", omittedBytes: 0, cwd };
    }
    const kept = capOutput(Buffer.from(end.output), outputBytes);
    onOutput?.(kept.output);
    const isInside = end.cwd === jailRoot || end.cwd.startsWith(`${jailRoot}/`);
    const now = isInside ? end.cwd.slice(jailRoot.length + 1) : cwd;
    return { exitCode: end.exitCode, ...kept, cwd: now };
  } finally {
    clearTimeout(timer);
    ignoreAbort?.();
    child.kill("SIGKILL");
  }
}

/** The files that a command has written. */
interface Ledger {
  readonly sizes: Map<string, number>;
  readonly created: Set<string>;
  readonly maxBytes: number;
}

/** Enters a write; returns whether all files that were written are within the limit. */
async function isWithin(ledger: Ledger, files: Filesystem, request: FileRequest): Promise<boolean> {
  const { sizes, created, maxBytes } = ledger;
  const { operation, path } = request;
  if (operation === "remove") sizes.delete(path);
  if (operation !== "write") return true;
  const isKnown = sizes.has(path);
  sizes.set(path, request.data.length);
  const total = [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
  if (total > maxBytes) return false;
  if (!isKnown && !(await files.stat(path).catch(() => undefined))) created.add(path);
  return true;
}

/** Error codes of files, as the programs of a shell know them. */
const systemCodes: Readonly<Record<string, string>> = {
  not_found: "ENOENT: no such file or directory",
  not_a_file: "EISDIR: illegal operation on a directory",
  not_a_directory: "ENOTDIR: not a directory",
  conflict: "EEXIST: file already exists",
  too_large: "EFBIG: file too large",
};

async function answer(files: Filesystem, request: FileRequest): Promise<FileResponse> {
  const { id } = request;
  try {
    return { id, value: await perform(files, request) };
  } catch (error) {
    if (!(error instanceof RivuletError)) return { id, problem: "EIO: input/output error" };
    const known = systemCodes[error.code];
    return { id, problem: known ?? `EACCES: permission denied (${error.message})` };
  }
}

async function perform(files: Filesystem, request: FileRequest): Promise<unknown> {
  const { path } = request;
  switch (request.operation) {
    case "stat":
      return files.stat(path);
    case "read":
      return (await files.read(path)).data;
    case "write":
      await files.write(path, request.data);
      return undefined;
    case "remove":
      return files.remove(path);
    case "rename":
      return files.rename(path, request.to);
    case "list":
      return (await files.list(path)).entries;
    case "mkdir": {
      // A directory exists once a file was in it.
      const first = `${path}/.directory`;
      await files.write(first, "");
      return files.remove(first);
    }
  }
}
