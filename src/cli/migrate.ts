import { migrateTables } from "../store/index.ts";
import { type Arguments, usageError } from "./arguments.ts";
import type { Console } from "./console.ts";
import { openExisting } from "./stored.ts";

/** `rivulet migrate`: brings the tables of a store to the version of this program, or prints how. */
export async function migrateStore(
  { operands: [given], flags }: Arguments,
  console: Console,
): Promise<number> {
  const { schema } = flags;
  const url = given ?? console.env.DATABASE_URL;
  if (url === undefined) {
    if (flags.print || schema !== undefined)
      throw usageError(
        "--print and --schema need the URL of a database.",
        "Write rivulet migrate <url>, or set DATABASE_URL.",
      );
    const store = await openExisting(flags, console);
    await store.tasks({ limit: 1 }); // opening migrates
    await store.close();
    console.note("The tables of the store have the version of this program.");
    return 0;
  }
  const apply = flags.print !== true;
  const database = { url, ...(schema !== undefined && { schema }) };
  const { from, to, sql } = await migrateTables(database, { apply });
  if (!apply && sql !== "") console.print(sql);
  const isDone = from === to ? "is up to date" : apply ? "is done" : "is printed";
  console.note(`The migration from version ${from} to ${to} ${isDone}.`);
  return 0;
}
