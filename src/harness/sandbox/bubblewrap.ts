import type { ChildProcess } from "node:child_process";
import {
  closeSync,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { lstat, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";
import type { Readable, Writable } from "node:stream";
import { errnoOf } from "../filesystem/directory.ts";
import { commandGroups } from "./cgroup.ts";
import {
  type Command,
  type CommandLimits,
  type Jail,
  type JailView,
  jailFailed,
  jailRoot,
  type OpenEntry,
  type Owner,
  type SandboxOptions,
  type StopReason,
} from "./jail.ts";
import { childProcess, runProcess } from "./process.ts";
import { memoryOf, namelessBytes } from "./process-memory.ts";
import { seccompProgram } from "./seccomp.ts";

const insideId = 1_000;
const nobody = { uid: 65_534, gid: 65_534 };
const probeMs = 10_000;
const maxCwd = 4_096;
/** The share of the disk, and at most this many bytes of it, that commands must leave free. */
const reserve = { share: 0.05, bytes: 1024 ** 3 };

// Descriptors that bubblewrap and the shell get; the directories follow.
const descriptor = { args: 3, info: 4, seccomp: 5, passwd: 6, group: 7, cwd: 8, view: 9 };

/** Files and directories of `/etc` that programs need and that hold no secret. */
const etc = [
  ...["alternatives", "ca-certificates", "ssl/certs", "ssl/openssl.cnf", "pki", "fonts"],
  ...["ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf"],
  ...["os-release", "debian_version", "profile.d", "python3", "perl", "java-17-openjdk"],
];
const networkFiles = ["resolv.conf", "hosts", "services", "protocols", "gai.conf"];

/** Finds a program in the usual directories; undefined when it is not installed. */
export function findProgram(name: string): string | undefined {
  const directories = ["/usr/bin", "/bin", "/usr/local/bin"];
  return directories.map((directory) => join(directory, name)).find((path) => existsSync(path));
}

/** Creates the bubblewrap jail for the workspace in `root`, or returns why this machine does not offer it. */
export function bubblewrapJail(
  root: string,
  options: SandboxOptions,
): { readonly jail: Jail; readonly warning?: string } | { readonly reason: string } {
  if (process.platform !== "linux") return { reason: "bubblewrap needs Linux" };
  const program = findProgram("bwrap");
  if (program === undefined) return { reason: "bubblewrap is not installed" };
  // As root, a command would be root of this machine: /proc/sys is writable for it whatever the namespaces.
  const owner = process.getuid?.() === 0 ? nobody : undefined;
  const filter = seccompProgram();
  const files = dataFiles({
    ...(filter && { seccomp: filter }),
    passwd: `user:x:${insideId}:${insideId}::/tmp:/bin/sh\n`,
    group: `user:x:${insideId}:\n`,
  });
  const base = baseArguments(options, filter !== undefined);
  const createGroup = commandGroups();
  const reason = probe(program, base, root, files, owner);
  if (reason !== undefined) return { reason };
  const jail: Jail = {
    kind: "bubblewrap",
    ...(owner && { owner }),
    run: (command, view, limits) =>
      run({ program, base, files, owner, createGroup }, command, view, limits),
  };
  const warning = `There is no system call filter for ${process.arch}.`;
  return filter ? { jail } : { jail, warning };
}

type DataFiles = Readonly<Record<"seccomp" | "passwd" | "group", () => number>>;

/** Keeps texts in deleted files; each function opens one of them at its beginning. */
function dataFiles(texts: Partial<Record<keyof DataFiles, string | Uint8Array>>): DataFiles {
  const directory = mkdtempSync(join(tmpdir(), "rivulet-jail-"));
  const opener = (name: keyof DataFiles) => {
    const path = join(directory, name);
    writeFileSync(path, texts[name] ?? "", { mode: 0o444 });
    const kept = openSync(path, "r");
    return () => openSync(`/proc/self/fd/${kept}`, "r");
  };
  try {
    return { seccomp: opener("seccomp"), passwd: opener("passwd"), group: opener("group") };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** The arguments that are the same for every command; the workspace and its limits follow. */
function baseArguments(
  { network = false, env = {}, systemPaths = [] }: SandboxOptions,
  hasFilter: boolean,
): readonly string[] {
  const variables = { ...defaultEnvironment, ...env };
  return [
    "--unshare-all",
    ...(network ? ["--share-net"] : []),
    ...["--unshare-user", "--disable-userns", "--uid", `${insideId}`, "--gid", `${insideId}`],
    ...["--cap-drop", "ALL", "--new-session", "--die-with-parent", "--as-pid-1"],
    ...["--hostname", "sandbox", "--clearenv"],
    ...Object.entries(variables).flatMap(([name, value]) => ["--setenv", name, value]),
    ...(hasFilter ? ["--seccomp", `${descriptor.seccomp}`] : []),
    ...["--ro-bind", "/usr", "/usr"],
    ...["bin", "sbin", "lib", "lib32", "lib64", "libx32"].flatMap(systemDirectory),
    ...[...etc, ...(network ? networkFiles : [])].flatMap((name) => {
      const path = posix.join("/etc", name);
      return ["--ro-bind-try", path, path];
    }),
    ...["--ro-bind-data", `${descriptor.passwd}`, "/etc/passwd"],
    ...["--ro-bind-data", `${descriptor.group}`, "/etc/group"],
    ...systemPaths.flatMap((path) => ["--ro-bind", path, path]),
    ...["--proc", "/proc", "--dev", "/dev"],
  ];
}

/** The environment of every command. */
export const defaultEnvironment = {
  PATH: "/usr/local/bin:/usr/bin:/bin",
  HOME: "/tmp",
  LANG: "C.UTF-8",
  TERM: "dumb",
  USER: "user",
};

/** Newer systems link these directories into /usr. */
function systemDirectory(name: string): readonly string[] {
  const path = `/${name}`;
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats?.isSymbolicLink()) return ["--symlink", readlinkSync(path), path];
  return stats ? ["--ro-bind", path, path] : [];
}

function viewArguments({ tmpBytes }: CommandLimits, view: JailView): readonly string[] {
  const inside = (path: string) => posix.join(jailRoot, path);
  const bind = (option: string, paths: readonly OpenEntry[], first: number) =>
    paths.flatMap(({ path }, index) => [option, `${first + index}`, inside(path)]);
  const firstPinned = descriptor.view + 1;
  const firstReadOnly = firstPinned + view.pinned.length;
  return [
    ...["--size", `${tmpBytes}`, "--tmpfs", "/tmp", "--size", `${tmpBytes}`, "--tmpfs", "/dev/shm"],
    ...["--bind-fd", `${descriptor.view}`, jailRoot],
    ...view.hidden.flatMap((path) => ["--size", "4096", "--tmpfs", inside(path)]),
    ...view.hidden.flatMap((path) => ["--remount-ro", inside(path)]),
    ...bind("--bind-fd", view.pinned, firstPinned),
    ...bind("--ro-bind-fd", view.readOnly, firstReadOnly),
    // The mount has no devices, so this one cannot be opened.
    ...view.masked.files.flatMap((path) => ["--ro-bind", "/dev/null", inside(path)]),
    ...view.masked.directories.flatMap((path) => ["--size", "4096", "--tmpfs", inside(path)]),
    ...view.masked.directories.flatMap((path) => ["--remount-ro", inside(path)]),
    ...["--remount-ro", "/dev", "--remount-ro", "/"],
  ];
}

function probe(
  program: string,
  base: readonly string[],
  root: string,
  files: DataFiles,
  owner: Owner | undefined,
): string | undefined {
  let directory: number;
  try {
    mkdirSync(root, { recursive: true });
    directory = openSync(root, "r");
  } catch (error) {
    return `the directory of the workspace cannot be used (${errnoOf(error)})`;
  }
  const open = [files.seccomp(), files.passwd(), files.group(), directory];
  const [seccomp, passwd, group, view] = open;
  try {
    const args = [...base, "--bind-fd", `${descriptor.view}`, jailRoot, "--", "/bin/sh", "-c", ":"];
    const { status, stderr, error } = childProcess().spawnSync(program, args, {
      cwd: "/",
      env: {},
      stdio: [
        "ignore",
        "ignore",
        "pipe",
        "ignore",
        "ignore",
        seccomp,
        passwd,
        group,
        "ignore",
        view,
      ],
      timeout: probeMs,
      killSignal: "SIGKILL",
      ...owner,
    });
    if (status === 0) return undefined;
    const said = error?.message ?? String(stderr).trim().split("\n")[0] ?? "";
    const why = owner ? ` as the user nobody, because this process runs as root` : "";
    return `bubblewrap does not start${why} (${said.slice(0, 200) || `status ${status}`})`;
  } finally {
    for (const fd of open) closeSync(fd);
  }
}

/**
 * Closes inherited descriptors, because those that this process got from its own parent would reach the jail. Ends the
 * whole group when this process dies: `--die-with-parent` does so only once bubblewrap has come that far.
 */
const supervise = `life=$1; shift
read -r -u "$life" || exit 1
for path in /proc/self/fd/*; do fd=\${path##*/}; if ((fd > life)); then eval "exec $fd>&-"; fi; done
eval '"$@"' "$life<&-" '&'
command=$!
(read -r -u "$life"; kill -KILL 0) &
wait "$command"`;

/** Sets the limits of a process, runs the command in the same shell, and reports where it ended. */
function shellScript(shell: string, limits: CommandLimits, timeoutMs: number): string {
  const isBash = shell.endsWith("bash");
  const { fileBytes, memoryBytes, processes } = limits;
  const kib = (bytes: number) => Math.ceil(bytes / 1024);
  return [
    "exec 2>&1",
    "ulimit -c 0; ulimit -n 1024",
    `ulimit -t ${Math.ceil(timeoutMs / 1000) + 1}`,
    `ulimit -d ${kib(memoryBytes)}`,
    `ulimit -f ${isBash ? kib(fileBytes) : 2 * kib(fileBytes)}`,
    `ulimit ${isBash ? "-u" : "-p"} ${processes}`,
    `trap 'pwd -P >&${descriptor.cwd}' EXIT`,
    `eval "$1" ${descriptor.cwd}>&-`,
  ].join("; "); // one line, so that messages of the shell count the lines of the command
}

interface Bubblewrap {
  readonly program: string;
  readonly base: readonly string[];
  readonly files: DataFiles;
  readonly owner: Owner | undefined;
  readonly createGroup: ReturnType<typeof commandGroups>;
}

async function run(
  { program, base, files, owner, createGroup }: Bubblewrap,
  command: Command,
  view: JailView,
  limits: CommandLimits,
) {
  const { script, timeoutMs } = command;
  const bash = findProgram("bash");
  const shell = bash ?? "/bin/sh";
  const args = [...base, ...viewArguments(limits, view)];
  args.push("--chdir", posix.join(jailRoot, command.cwd));
  const entries = [view.directory, ...view.pinned, ...view.readOnly].map(({ fd }) => fd);
  const opened: number[] = [];
  const open = (fd: number) => {
    opened.push(fd);
    return fd;
  };
  let cwd = "";
  let pid: number | undefined;
  const group = createGroup?.(limits);
  const isFull = await workspaceGuard(view, limits);
  const life = descriptor.view + entries.length;
  const onSpawn = ({ pid: spawned, stdio }: ChildProcess) => {
    // Both pipes hold the program until it is in its group.
    if (spawned !== undefined) group?.add(spawned);
    const started = stdio[life] as Writable | undefined;
    started?.on("error", () => {});
    started?.write("\n");
    const given = stdio[descriptor.args] as Writable;
    given.on("error", () => {});
    given.end(args.map((arg) => `${arg}\0`).join(""));
    collect(stdio[descriptor.info] as Readable, (text) => {
      pid = Number(/"child-pid":\s*(\d+)/.exec(text)?.[1]) || pid;
    });
    collect(stdio[descriptor.cwd] as Readable, (text) => {
      cwd = text;
    });
  };
  const inner = [
    program,
    ...["--args", `${descriptor.args}`, "--info-fd", `${descriptor.info}`, "--"],
    ...[shell, "-c", shellScript(shell, limits, timeoutMs), "sh", script],
  ];
  const sweepAgain = atIntervals(view.sweep);
  try {
    const supervisor = bash ? [bash, "-c", supervise, "bash", `${life}`] : [];
    const [file = program, ...rest] = [...supervisor, ...inner];
    const result = await runProcess({
      file,
      args: rest,
      cwd: "/",
      env: {},
      ...(owner && { owner }),
      descriptors: [
        ...["pipe" as const, "pipe" as const],
        ...[files.seccomp, files.passwd, files.group].map((reopen) => open(reopen())),
        "pipe",
        ...entries,
        ...(bash ? ["pipe" as const] : []),
      ],
      timeoutMs,
      outputBytes: limits.outputBytes,
      ...(command.signal && { signal: command.signal }),
      ...(command.onOutput && { onOutput: command.onOutput }),
      onSpawn,
      watch: async () => (await isFull(pid)) ?? (await watch(pid, view, limits, sweepAgain)),
    });
    // The shell writes to its standard output only, so this is bubblewrap's own.
    const { problem, ...ended } = result;
    if (problem !== "" && pid === undefined && !ended.stoppedBy) throw jailFailed(problem);
    const { output, omittedBytes } = ended;
    const kept = { output, omittedBytes, cwd: insidePath(cwd) ?? command.cwd };
    const isKilled = await group?.isOutOfMemory();
    const stoppedBy = ended.stoppedBy ?? (isKilled ? "memory" : await isFull());
    if (stoppedBy) return { ...kept, stoppedBy };
    return ended.exitCode === undefined ? kept : { ...kept, exitCode: ended.exitCode };
  } finally {
    await group?.close();
    for (const fd of opened) closeSync(fd);
  }
}

function collect(stream: Readable, onText: (text: string) => void): void {
  let text = "";
  stream.setEncoding("utf8");
  stream.on("error", () => {});
  stream.on("data", (chunk: string) => {
    text = (text + chunk).slice(0, maxCwd);
    onText(text);
  });
}

/** Returns the path below the workspace that a command reports; undefined when it reports none. */
function insidePath(reported: string): string | undefined {
  const path = reported.replace(/\n$/, "");
  if (path === jailRoot) return "";
  return path.startsWith(`${jailRoot}/`) ? path.slice(jailRoot.length + 1) : undefined;
}

/** What no rlimit and no mount covers: the memory of all processes together, the disk, and replaced control files. */
async function watch(
  pid: number | undefined,
  view: JailView,
  { memoryBytes }: CommandLimits,
  sweep: () => Promise<void>,
): Promise<StopReason | undefined> {
  if (await isReplaced(view)) return "control";
  await sweep();
  const disk = await statfs(view.directory.path);
  const minimum = Math.min(disk.blocks * reserve.share, reserve.bytes / disk.bsize);
  if (disk.bavail < minimum || (disk.files > 0 && disk.ffree < disk.files * reserve.share))
    return "disk";
  if (pid === undefined) return undefined;
  return (await memoryOf(pid)) > memoryBytes ? "memory" : undefined;
}

const minIntervalMs = 2_000;

/** Runs work at most every two seconds, and for a twentieth of the time at most. */
function atIntervals<T extends unknown[]>(
  work: (...given: T) => Promise<void>,
): (...given: T) => Promise<void> {
  let next = performance.now() + minIntervalMs;
  return async (...given) => {
    const start = performance.now();
    if (start < next) return;
    await work(...given);
    const end = performance.now();
    next = end + Math.max(minIntervalMs, 20 * (end - start));
  };
}

/** Whether an entry is no longer the one that the jail has read-only: replacing it ends that protection. */
async function isReplaced({ directory, readOnly }: JailView): Promise<boolean> {
  for (const { path, fd } of readOnly) {
    const now = await lstat(join(directory.path, path), { bigint: true }).catch(() => undefined);
    if (now?.ino !== fstatSync(fd, { bigint: true }).ino) return true;
  }
  return false;
}

/** Checks the limit of what a command writes: closely once the disk has lost that much, or at times. */
async function workspaceGuard(view: JailView, { workspaceBytes }: CommandLimits) {
  const freeBytes = async () => {
    const { bavail, bsize } = await statfs(view.directory.path);
    return bavail * bsize;
  };
  const before = await freeBytes();
  const { dev } = fstatSync(view.directory.fd);
  let isOver = false;
  const measure = async (pid?: number) => {
    const nameless = pid === undefined ? 0 : await namelessBytes(pid, dev);
    isOver = (await view.bytesWritten()) + nameless > workspaceBytes;
  };
  const measureAtTimes = atIntervals(measure);
  return async (pid?: number): Promise<"workspace" | undefined> => {
    const isLikely = before - (await freeBytes()) > workspaceBytes / 2;
    await (isLikely ? measure(pid) : measureAtTimes(pid));
    return isOver ? "workspace" : undefined;
  };
}
