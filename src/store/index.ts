export { openStoreField, storeField, withFilesField, withoutChecks } from "./arguments.ts";
export { type MemoryStoreOptions, memoryStore } from "./memory.ts";
export { openStore } from "./open.ts";
export { type Frames, readFrames, readPages, snapshotFrames } from "./read-frames.ts";
export type { LogRetention, Retention } from "./retention.ts";
export { type SqliteStoreOptions, sqliteStore } from "./sqlite.ts";
export { storeIdOf, viaOf } from "./store-id.ts";
export { exportConversations, type Imported, importConversations } from "./transfer.ts";
export { addLogReader, type LogReader, makeRoom, trimLog } from "./trim-log.ts";
