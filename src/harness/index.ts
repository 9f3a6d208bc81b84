export type {
  FileContent,
  FileLimits,
  FileStat,
  Filesystem,
  GlobResult,
  GrepMatch,
  GrepQuery,
  GrepResult,
  Listing,
  WrittenFile,
} from "./filesystem/filesystem.ts";
export { type LocalFilesystemOptions, localFilesystem } from "./filesystem/local.ts";
export { type IsolationScope, namespaceOf } from "./filesystem/namespace.ts";
export { type StoreFilesystemOptions, storeFilesystem } from "./filesystem/store.ts";
export { fileTools } from "./tools/files.ts";
