import { chmod, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import {
  type SandboxFilesystem,
  type SandboxFilesystemOptions,
  sandboxFilesystem,
} from "../../../../src/harness/filesystem/sandbox.ts";
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
