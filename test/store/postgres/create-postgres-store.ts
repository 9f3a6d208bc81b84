import pg from "pg";
import { type PostgresStoreOptions, postgresStore } from "../../../src/postgres.ts";
import type { CreateStore } from "../../../src/testing.ts";

let schemas = 0;

/** A name that no other store of this test run uses. */
export function newSchema(): string {
  schemas += 1;
  return `test_${process.pid}_${schemas}`;
}

/** Opens stores for a contract, each in a schema of its own. Only a server that stays needs `dropped`. */
export function createPostgresStore(
  options: () => PostgresStoreOptions,
  { dropped = false } = {},
): CreateStore {
  return ({ clock }) => {
    const schema = newSchema();
    const open = () => postgresStore({ ...options(), schema, clock });
    const store = open();
    return {
      store,
      second: async () => open(),
      reopen: async () => {
        await store.close();
        return open();
      },
      ...(dropped && { dispose: () => dropSchema(options().url, schema) }),
    };
  };
}

/** Deletes the tables of a store. */
async function dropSchema(url: string, schema: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query(`SET client_min_messages = warning; DROP SCHEMA IF EXISTS ${schema} CASCADE`);
  await client.end();
}
