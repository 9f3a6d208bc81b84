import { it } from "vitest";
import type { FilesystemOptions } from "../fenced.ts";
import type { Filesystem } from "../filesystem.ts";

/** A filesystem to test. */
export interface FilesystemUnderTest {
  readonly filesystem: Filesystem;
  /** Another one on the same files, as a second process has. */
  readonly second: () => Filesystem;
  /** Removes the files. */
  readonly dispose?: () => Promise<void>;
}

/** Makes an empty filesystem with the given options. */
export type CreateFilesystem = (options: FilesystemOptions) => Promise<FilesystemUnderTest>;

/** What a case may ask for by name. */
export interface ContractFixtures {
  options: FilesystemOptions;
  opened: FilesystemUnderTest;
  files: Filesystem;
  second: Filesystem;
}

/** Searches that take long on a busy machine are not what most cases are about. */
export const patient = { globMs: 60_000, grepMs: 60_000 };

/** `it` with an empty filesystem for each case, removed after it. */
export function contractTest(create: CreateFilesystem) {
  return it.extend<ContractFixtures>({
    options: { limits: patient },
    opened: async ({ options }, use) => {
      const opened = await create(options);
      await use(opened);
      await opened.dispose?.();
    },
    files: async ({ opened }, use) => use(opened.filesystem),
    second: async ({ opened }, use) => use(opened.second()),
  });
}

/** The `it` of a contract's cases. */
export type ContractTest = ReturnType<typeof contractTest>;

/** A file's text. */
export async function textOf(files: Filesystem, path: string): Promise<string> {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode((await files.read(path)).data);
}

/** The paths of a list of things that have one. */
export function pathsOf(list: readonly { readonly path: string }[]): readonly string[] {
  return list.map(({ path }) => path);
}

/** Writes several files. */
export async function writeAll(
  files: Filesystem,
  texts: Readonly<Record<string, string>>,
): Promise<void> {
  for (const [path, text] of Object.entries(texts)) await files.write(path, text);
}

/** What an operation was refused with. */
export async function refusal(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => "nothing",
    (error: { name?: string; code?: string }) =>
      error.name === "RivuletError" ? String(error.code) : `not a RivuletError: ${error}`,
  );
}
