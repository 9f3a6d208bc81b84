import type { Filesystem, FilesystemOptions } from "../../harness/index.ts";
import type { Suite, WithFixture } from "../contract.ts";

/** An empty filesystem to test. */
export interface FilesystemUnderTest {
  readonly filesystem: Filesystem;
  /** Opens the same files a second time, as another process does. */
  readonly second: () => Filesystem;
  /** Deletes the files. */
  readonly dispose?: () => Promise<void>;
}

/** Opens an empty filesystem with the given options. */
export type CreateFilesystem = (
  options: FilesystemOptions,
) => FilesystemUnderTest | Promise<FilesystemUnderTest>;

/** The fixture of a case. */
export interface FilesystemFixture {
  readonly files: Filesystem;
  readonly second: Filesystem;
}

/** How the cases of the filesystem contract are written down. */
export type FilesystemSuite = Suite<FilesystemFixture, FilesystemOptions>;

/** Limits that no search reaches on a busy machine, for the cases that are not about time. */
export const patient = { globMs: 60_000, grepMs: 60_000 };

/** Opens a filesystem for each case, and deletes its files after the case. */
export function withFilesystem(
  create: CreateFilesystem,
): WithFixture<FilesystemFixture, FilesystemOptions> {
  return async (run, options = { limits: patient }) => {
    const { filesystem, second, dispose } = await create(options);
    try {
      await run({ files: filesystem, second: second() });
    } finally {
      await dispose?.();
    }
  };
}

/** A file's text. */
export async function textOf(files: Filesystem, path: string): Promise<string> {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode((await files.read(path)).data);
}

/** The paths of a list. */
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

/** The code of the error of an operation, or "nothing". */
export async function refusal(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => "nothing",
    (error: { name?: string; code?: string }) =>
      error.name === "RivuletError" ? String(error.code) : `not a RivuletError: ${error}`,
  );
}
