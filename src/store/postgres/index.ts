export { type Migration, migrateDatabase } from "./migrate-database.ts";
export type { PostgresStoreOptions } from "./options.ts";
export { postgresStore } from "./store.ts";
