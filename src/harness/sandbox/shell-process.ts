import type { FsStat, IFileSystem } from "just-bash";
import type { FileStat } from "../filesystem/filesystem.ts";

/** The first message to the process of a command. */
export interface ShellStart {
  readonly script: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly outputBytes: number;
  readonly timeoutMs: number;
}

/** An operation on the files of the workspace, which only the parent can reach. */
export type FileRequest = { readonly id: number; readonly path: string } & (
  | { readonly operation: "stat" | "read" | "remove" | "list" | "mkdir" }
  | { readonly operation: "write"; readonly data: Uint8Array }
  | { readonly operation: "rename"; readonly to: string }
);
type Operation = FileRequest extends infer R
  ? R extends FileRequest
    ? Omit<R, "id">
    : never
  : never;

/** The result of an operation, or its error as a shell prints it. */
export type FileResponse = { readonly id: number } & (
  | { readonly value: unknown; readonly problem?: undefined }
  | { readonly problem: string }
);

/** The end of a command. */
export interface ShellEnd {
  readonly exitCode: number;
  readonly output: string;
  readonly cwd: string;
}

const pending = new Map<number, PromiseWithResolvers<unknown>>();
let lastId = 0;

function ask(operation: Operation): Promise<unknown> {
  const id = ++lastId;
  const result = Promise.withResolvers<unknown>();
  pending.set(id, result);
  process.send?.({ ...operation, id } as FileRequest);
  return result.promise;
}

function receive(response: FileResponse): void {
  const result = pending.get(response.id);
  pending.delete(response.id);
  if (response.problem === undefined) result?.resolve(response.value);
  else result?.reject(new Error(response.problem));
}

const inside = (path: string) => path.replace(/^\/+/, "");
const bytesOf = (content: string | Uint8Array, encoding?: unknown): Uint8Array => {
  if (typeof content !== "string") return content;
  const isBinary = encoding === "binary" || encoding === "latin1";
  return Buffer.from(content, isBinary ? "latin1" : "utf8");
};
const encodingOf = (options: unknown) =>
  typeof options === "string" ? options : (options as { encoding?: string } | undefined)?.encoding;

async function find(path: string): Promise<FileStat | undefined> {
  return (await ask({ operation: "stat", path: inside(path) })) as FileStat | undefined;
}

async function statOf(path: string): Promise<FsStat> {
  const stat = await find(path);
  if (!stat) throw new Error(`ENOENT: no such file or directory, stat '${path}'`);
  const isDirectory = stat.type === "directory";
  return {
    isFile: stat.type === "file",
    isDirectory,
    isSymbolicLink: false,
    mode: 0o755,
    size: stat.size,
    mtime: new Date(stat.modifiedAt),
  };
}

async function readBytes(path: string): Promise<Uint8Array> {
  return (await ask({ operation: "read", path: inside(path) })) as Uint8Array;
}

async function entriesOf(path: string): Promise<readonly FileStat[]> {
  return (await ask({ operation: "list", path: inside(path) })) as readonly FileStat[];
}

const nameOf = ({ path }: FileStat) => path.slice(path.lastIndexOf("/") + 1);

async function copy(from: string, to: string, isRecursive: boolean): Promise<void> {
  const stat = await statOf(from);
  if (!stat.isDirectory) return write(to, await readBytes(from));
  if (!isRecursive) throw new Error(`EISDIR: is a directory, cp '${from}'`);
  if (!(await find(to))) await ask({ operation: "mkdir", path: inside(to) });
  for (const entry of await entriesOf(from)) {
    await copy(`${from}/${nameOf(entry)}`, `${to}/${nameOf(entry)}`, true);
  }
}

async function write(path: string, data: Uint8Array): Promise<void> {
  await ask({ operation: "write", path: inside(path), data });
}

const unsupported = (name: string) => async (): Promise<never> => {
  throw new Error(`EPERM: operation not permitted, ${name}`);
};
const exists = async (path: string) => void (await statOf(path));

/** The workspace, with the rules of the file tools. It has no links and no permissions. */
const workspace: IFileSystem = {
  async readFile(path, options) {
    const encoding = encodingOf(options);
    const isBinary = encoding === "binary" || encoding === "latin1";
    return Buffer.from(await readBytes(path)).toString(isBinary ? "latin1" : "utf8");
  },
  readFileBuffer: readBytes,
  writeFile: (path, content, options) => write(path, bytesOf(content, encodingOf(options))),
  async appendFile(path, content, options) {
    const old = (await find(path)) ? await readBytes(path) : new Uint8Array();
    await write(path, Buffer.concat([old, bytesOf(content, encodingOf(options))]));
  },
  exists: async (path) => (await find(path).catch(() => undefined)) !== undefined,
  stat: statOf,
  lstat: statOf,
  async mkdir(path, { recursive = false } = {}) {
    const found = await find(path);
    if (found?.type === "directory" && recursive) return;
    if (found) throw new Error(`EEXIST: file already exists, mkdir '${path}'`);
    await ask({ operation: "mkdir", path: inside(path) });
  },
  readdir: async (path) => (await entriesOf(path)).map(nameOf),
  async rm(path, { recursive = false, force = false } = {}) {
    const found = await find(path);
    if (!found && force) return;
    const isFull = found?.type === "directory" && !recursive && (await entriesOf(path)).length > 0;
    if (isFull) throw new Error(`ENOTEMPTY: directory not empty, rm '${path}'`);
    await ask({ operation: "remove", path: inside(path) });
  },
  cp: (from, to, { recursive = false } = {}) => copy(from, to, recursive),
  async mv(from, to) {
    const source = await statOf(from);
    if (source.isFile && (await find(to))?.type === "file") {
      await write(to, await readBytes(from));
      await ask({ operation: "remove", path: inside(from) });
      return;
    }
    await ask({ operation: "rename", path: inside(from), to: inside(to) });
    if (source.isDirectory && !(await find(to)))
      await ask({ operation: "mkdir", path: inside(to) });
  },
  resolvePath: (base, path) => new URL(path, `file://${base.replace(/\/?$/, "/")}`).pathname,
  getAllPaths: () => [],
  chmod: exists,
  utimes: exists,
  async realpath(path) {
    await statOf(path);
    return path;
  },
  symlink: unsupported("symlink"),
  link: (from, to) => copy(from, to, false),
  readlink: unsupported("readlink"),
};

async function run({ script, cwd, env, outputBytes, timeoutMs }: ShellStart): Promise<ShellEnd> {
  const { Bash, decodeBytesToUtf8, InMemoryFs, MountableFs, stdoutAsBytes } = await import(
    "just-bash"
  );
  const fs = new MountableFs({
    base: new InMemoryFs(),
    mounts: [{ mountPoint: "/workspace", filesystem: workspace }],
  });
  const bash = new Bash({
    fs,
    cwd,
    env: { HOME: "/tmp", ...env },
    // Its parent ends it first, unless the parent is gone.
    executionLimits: { maxOutputSize: 16 * outputBytes, maxExecutionTimeMs: timeoutMs },
  });
  try {
    const result = await bash.exec(script, { rawScript: true });
    const output = decodeBytesToUtf8(stdoutAsBytes(result)) + result.stderr;
    return { exitCode: result.exitCode, output, cwd: result.env.PWD ?? cwd };
  } catch (error) {
    // A redirection to a path that cannot be written ends the whole script.
    const message = error instanceof Error ? error.message : "it failed";
    return { exitCode: 1, output: `bash: ${message}\n`, cwd };
  }
}

process.once("message", async (start: ShellStart) => {
  process.on("message", receive);
  process.send?.(await run(start));
});
process.on("disconnect", () => process.exit());
