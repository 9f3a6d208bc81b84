import { RivuletError } from "../../base/error.ts";

/** The codes of file errors. */
export type FileErrorCode =
  | "invalid_path"
  | "outside_workspace"
  | "read_only"
  | "not_found"
  | "not_a_file"
  | "not_a_directory"
  | "not_regular"
  | "not_text"
  | "too_large"
  | "conflict"
  | "edit_failed"
  | "invalid_pattern"
  | "invalid_namespace"
  | "denied"
  | "file_failed";

/** An error that a model reads. It names the path as the model wrote it and never a path of the machine. */
export type FileError = RivuletError<FileErrorCode>;

/** Creates a file error. */
export function fileError(
  code: FileErrorCode,
  message: string,
  hint = hints[code] ?? "Use another path.",
): FileError {
  return new RivuletError(code, message, { hint });
}

const hints: Partial<Readonly<Record<FileErrorCode, string>>> = {
  invalid_path: "Use a relative path with / between plain names.",
  invalid_pattern: "Use * and ? within a name, ** across directories, [a-z] and {a,b}.",
  invalid_namespace: "Use shorter ids.",
  edit_failed: "Read the file again.",
};

/** The path does not exist. */
export function notFound(path: string): FileError {
  const message = `There is no ${quotePath(path)}.`;
  return fileError("not_found", message, "Use list_files to see the files.");
}

/** The path is a directory, and the operation needs a file. */
export function notAFile(path: string): FileError {
  const message = `${quotePath(path)} is a directory.`;
  return fileError("not_a_file", message, "Use list_files to see its entries.");
}

/** The path is a file, and the operation needs a directory. */
export function notADirectory(path: string): FileError {
  return fileError("not_a_directory", `${quotePath(path)} is a file, not a directory.`);
}

/** The path is neither a regular file nor a directory. */
export function notRegular(path: string, isLink: boolean): FileError {
  const problem = isLink ? "a symbolic link, and links are not followed" : "not a regular file";
  const hint = "Use only regular files and directories.";
  return fileError("not_regular", `${quotePath(path)} is ${problem}.`, hint);
}

/** The file exceeds the size limit. */
export function tooLarge(path: string, limit: number): FileError {
  const message = `${quotePath(path)} is larger than ${limit} bytes.`;
  return fileError("too_large", message, "Work with smaller files.");
}

/** The file does not have the expected version. */
export function changed(path: string): FileError {
  const message = `${quotePath(path)} does not have the expected version: another writer changed it.`;
  return fileError("conflict", message, "Read the file again before you write.");
}

/** For `catch`: maps errors with one of these codes to a value. */
export function valueOnCodes<T>(value: T, ...codes: readonly string[]): (error: unknown) => T {
  return (error) => {
    if (error instanceof RivuletError && codes.includes(error.code)) return value;
    throw error;
  };
}

/** Quotes a path for a message, shortened if it is long. */
export function quotePath(path: string): string {
  if (path === "") return "The root";
  return JSON.stringify(path.length > 200 ? `${path.slice(0, 200)}…`.toWellFormed() : path);
}
