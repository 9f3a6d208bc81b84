export type { PostgresStoreOptions } from "./options.ts";
export { postgresStore } from "./store.ts";
