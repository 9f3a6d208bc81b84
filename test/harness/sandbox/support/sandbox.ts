import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import {
  type SandboxFilesystem,
  type SandboxFilesystemOptions,
  sandboxFilesystem,
} from "../../../../src/harness/filesystem/sandbox.ts";
import { storeFilesystem } from "../../../../src/harness/filesystem/store.ts";
import type { JailKind } from "../../../../src/harness/sandbox/jail.ts";
import { memoryStore, type Store } from "../../../../src/index.ts";
import { requires } from "../../../support/requires.ts";

/** Whether this machine has the program for the strong jail; prints a notice if not. */
export const hasBubblewrap = requires("bubblewrap");

/** Creates an empty workspace that every user of this machine can reach, as the jail of a root process needs. */
export async function workspaceDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "rivulet-sandbox-"));
  await chmod(directory, 0o755);
  const root = join(directory, "root");
  await mkdir(root);
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  return root;
}

/** Creates a sandbox in an empty workspace. */
export async function createSandbox(
  options: SandboxFilesystemOptions = { jail: "bubblewrap" },
): Promise<SandboxFilesystem & { readonly root: string }> {
  const root = await workspaceDirectory();
  return Object.assign(sandboxFilesystem(root, { onWarning: () => {}, ...options }), { root });
}

/** Creates files in a store, where commands run on copies. */
export function createStoreSandbox(
  jail: JailKind,
  store: Pick<Store, "files"> = memoryStore(),
): SandboxFilesystem {
  return storeFilesystem(store, { sandbox: { jail, onWarning: () => {} } }) as SandboxFilesystem;
}

/** An empty workspace with commands, and its files as an operator sees them. */
export interface SandboxedWorkspace {
  readonly files: SandboxFilesystem;
  put(path: string, text: string): Promise<void>;
  text(path: string): Promise<string | undefined>;
  /** The files in it and in the layers of users. */
  paths(): Promise<readonly string[]>;
}

/** Creates a workspace in a directory. */
export async function workspaceOnDisk(jail: JailKind): Promise<SandboxedWorkspace> {
  const files = await createSandbox({ jail });
  return {
    files,
    async put(path, text) {
      await mkdir(dirname(join(files.root, path)), { recursive: true });
      await writeFile(join(files.root, path), text);
    },
    text: (path) => readFile(join(files.root, path), "utf8").catch(() => undefined),
    async paths() {
      const entries = await readdir(files.root, { recursive: true, withFileTypes: true });
      const found = entries.filter((entry) => !entry.isDirectory());
      return found
        .map(({ parentPath, name }) => join(parentPath, name).slice(files.root.length + 1))
        .filter((path) => path !== ".rivulet/files.lock")
        .sort();
    },
  };
}

async function workspaceInStore(jail: JailKind): Promise<SandboxedWorkspace> {
  const store = memoryStore();
  return {
    files: createStoreSandbox(jail, store),
    put: async (path, text) => void (await store.files.put(`workspace/${path}`, Buffer.from(text))),
    async text(path) {
      const file = await store.files.get(`workspace/${path}`);
      return file && Buffer.from(file.data).toString();
    },
    async paths() {
      const found = await store.files.list("workspace/");
      return found.map(({ path }) => path.slice("workspace/".length));
    },
  };
}

/** Each jail with files in a directory and with files in a store. */
export function workspacesIn(jails: readonly JailKind[]) {
  return jails.flatMap((jail) => [
    { name: jail, jail, create: () => workspaceOnDisk(jail) },
    { name: `${jail}, on files of a store`, jail, create: () => workspaceInStore(jail) },
  ]);
}
