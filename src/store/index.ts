export { type MemoryStoreOptions, memoryStore } from "./memory.ts";
export { openStore } from "./open.ts";
