export { type PostgresStoreOptions, postgresStore } from "./store/postgres/index.ts";
