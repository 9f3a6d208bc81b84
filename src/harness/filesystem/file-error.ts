import { RivuletError } from "../../protocol/error.ts";

/** Why a file operation was refused. */
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
  | "file_failed";

/** A refusal, in words for a model: they name the path as the model wrote it and nothing of the machine. */
export function fileError(
  code: FileErrorCode,
  message: string,
  hint?: string,
): RivuletError<FileErrorCode> {
  return new RivuletError(code, message, hint === undefined ? {} : { hint });
}

/** There is nothing at the path. */
export function notFound(path: string): RivuletError<FileErrorCode> {
  return fileError("not_found", `There is no ${shown(path)}.`, "list_files shows what there is.");
}

/** A file is wanted where a directory is. */
export function notAFile(path: string): RivuletError<FileErrorCode> {
  return fileError(
    "not_a_file",
    `${shown(path)} is a directory.`,
    "list_files shows what is in it.",
  );
}

/** A directory is wanted where a file is. */
export function notADirectory(path: string): RivuletError<FileErrorCode> {
  return fileError("not_a_directory", `${shown(path)} is a file, not a directory.`);
}

/** Something is neither a file nor a directory. */
export function notRegular(path: string, isLink: boolean): RivuletError<FileErrorCode> {
  return fileError(
    "not_regular",
    isLink
      ? `${shown(path)} is a symbolic link, and links are not followed.`
      : `${shown(path)} is not a regular file.`,
    "Only regular files and directories can be used.",
  );
}

/** More bytes than are read or written. */
export function tooLarge(path: string, limit: number): RivuletError<FileErrorCode> {
  return fileError(
    "too_large",
    `${shown(path)} is larger than ${limit} bytes.`,
    "Work with smaller files.",
  );
}

/** The file is not what the writer has seen. */
export function changed(path: string): RivuletError<FileErrorCode> {
  return fileError(
    "conflict",
    `${shown(path)} is not at the version that was expected: somebody else has written it.`,
    "Read it again, then decide.",
  );
}

/** A path as it stands in a sentence. */
export function shown(path: string): string {
  if (path === "") return "The root";
  return JSON.stringify(path.length > 200 ? `${path.slice(0, 200)}…`.toWellFormed() : path);
}
