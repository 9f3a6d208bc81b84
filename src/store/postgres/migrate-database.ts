import { migrate, migrationSql, versionOf } from "./migrate.ts";
import { checkServer } from "./open.ts";
import { type PostgresStoreOptions, readSettings } from "./options.ts";
import { connect } from "./pg-connection.ts";
import { schemaVersion } from "./schema.ts";

/** The changes between the tables of a database and those of this version. */
export interface Migration {
  /** The version of the tables before; 0 if there are none. */
  readonly from: number;
  readonly to: number;
  /** The statements, for a role that may create tables; "" if there is nothing to do. */
  readonly sql: string;
}

/** Reads which changes the tables of a database need; with `apply`, makes them. */
export async function migrateDatabase(
  options: Pick<PostgresStoreOptions, "url" | "schema">,
  { apply }: { readonly apply: boolean },
): Promise<Migration> {
  const settings = readSettings(options);
  const { schema } = settings;
  const client = await connect(settings);
  try {
    await checkServer(client, settings);
    const from = await versionOf(client, schema);
    const create = from === 0 ? `CREATE SCHEMA IF NOT EXISTS "${schema}";\n` : "";
    const isCurrent = from === schemaVersion;
    const sql = isCurrent ? "" : `BEGIN;\n${create}${migrationSql(schema, from)}\nCOMMIT;`;
    if (apply) await migrate(client, settings);
    return { from, to: schemaVersion, sql };
  } finally {
    await client.end().catch(() => {});
  }
}
