import type { Client } from "pg";
import { RivuletError } from "../../base/error.ts";
import { functions, functionsOfVersion2 } from "./functions/index.ts";
import type { Settings } from "./options.ts";
import { runOn } from "./pg-connection.ts";
import { inSchema, processTables, schemaVersion, tables } from "./schema.ts";

/** The statements that lead to each version from the one before. They only add, because older processes may still run. */
const migrations: readonly string[] = [
  `${tables}${functions} INSERT INTO rivulet.meta (version) VALUES (1);`,
  `${processTables}${functionsOfVersion2} UPDATE rivulet.meta SET version = 2;`,
];

/** The statements that lead from a version to a later one; "" if there are none. */
export function migrationSql(schema: string, from: number, to = schemaVersion): string {
  return inSchema(migrations.slice(from, to).join(""), schema);
}

/** Creates or checks the tables. One process at a time: the others wait for its lock and find nothing to do. */
export async function migrate(client: Client, settings: Settings): Promise<void> {
  const { schema, migrate: isAllowed = true } = settings;
  if ((await versionOf(client, schema)) === schemaVersion) return;
  if (!isAllowed) {
    throw new RivuletError("store_too_old", `The schema ${schema} has no tables of this version.`, {
      hint: "Run rivulet migrate <url> with a role that may create tables, or open the store without `migrate: false`.",
    });
  }
  await client.query("BEGIN");
  try {
    await client.query(`SELECT pg_advisory_xact_lock(hashtextextended('rivulet:${schema}', 0))`);
    // Read again under the lock, because another process may have migrated the database.
    const version = await versionOf(client, schema);
    if (version === 0) await client.query(`CREATE SCHEMA IF NOT EXISTS "${schema}"`);
    await client.query(migrationSql(schema, version));
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK").catch(() => {});
    throw error;
  }
}

/** The version of the tables; 0 if there are none. Throws when they are newer or belong to another program. */
export async function versionOf(client: Client, schema: string): Promise<number> {
  const [found] = await runOn<[hasMeta: boolean, hasTables: boolean]>(
    client,
    {
      name: "tables",
      text: `SELECT count(*) FILTER (WHERE table_name = 'meta') = 1, count(*) > 0
        FROM information_schema.tables WHERE table_schema = $1`,
    },
    [schema],
  );
  const [hasMeta, hasTables] = found ?? [false, false];
  if (!hasTables) return 0;
  const read = { name: "version", text: inSchema("SELECT version FROM rivulet.meta", schema) };
  const [row] = hasMeta ? await runOn<[number]>(client, read, []) : [];
  if (typeof row?.[0] !== "number") {
    throw new RivuletError("not_a_store", `The schema ${schema} belongs to another program.`, {
      hint: "Pass another `schema`.",
    });
  }
  const [version] = row;
  if (version > schemaVersion) {
    throw new RivuletError(
      "store_too_new",
      `The tables have version ${version}; this version of Rivulet supports up to ${schemaVersion}.`,
      { hint: "A newer version of Rivulet wrote them. Update Rivulet, or pass another `schema`." },
    );
  }
  return version;
}
