// The types that the author of a store needs besides `Store`.
export type {
  Claim,
  Commit,
  FileInfo,
  Files,
  Lease,
  LogSnapshot,
  Post,
  PostQuery,
  SearchQuery,
  SessionAppend,
  SessionQuery,
  StoredFile,
  StoreMemory,
  TaskQuery,
  TaskRecord,
  WatchKey,
} from "./contract/index.ts";
