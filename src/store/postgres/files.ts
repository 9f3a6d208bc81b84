import { RivuletError } from "../../base/error.ts";
import type { FileInfo, Files, StoredFile } from "../../contract/index.ts";
import { conflict } from "../store-error.ts";
import { converted, type Database } from "./database.ts";
import { assertStorable } from "./ids.ts";
import type { Value } from "./pg-connection.ts";
import { atMost } from "./records.ts";

/** A larger file takes eight times its size in the memory of the process. */
const maxBytes = 32 * 1024 * 1024;

const getStatement = {
  name: "file",
  text: "SELECT path, size, version, modified_at, data FROM rivulet.files WHERE path = $1",
};
const insert = `INSERT INTO rivulet.files AS f (path, size, modified_at, data)
  VALUES ($1, $2, rivulet.now_ms_1($3), $4) ON CONFLICT (path)`;
const newContent =
  "version = nextval('rivulet.file_versions'), size = $2, modified_at = rivulet.now_ms_1($3), data = $4";
const putStatement = {
  name: "put_file",
  text: `${insert} DO UPDATE SET ${newContent} RETURNING version`,
};
const createStatement = { name: "create_file", text: `${insert} DO NOTHING RETURNING version` };
const replaceStatement = {
  name: "replace_file",
  text: `UPDATE rivulet.files SET ${newContent} WHERE path = $1 AND version = $5::float8 RETURNING version`,
};
const deleteStatement = {
  name: "delete_file",
  text: "DELETE FROM rivulet.files WHERE path = $1 RETURNING 1",
};
const listStatement = {
  name: "files",
  text: `SELECT path, size, version, modified_at FROM rivulet.files
    WHERE path >= $1 AND path < $2 AND ($3::text IS NULL OR path > $3) ORDER BY path LIMIT $4`,
};
/** Follows every character, in the order of bytes. */
const afterAll = "\u{10ffff}".repeat(4);

type InfoRow = [path: string, size: number, version: number, modifiedAt: number];

/** The files of a store. */
export function postgresFiles(database: Database): Files {
  async function get(path: string): Promise<StoredFile | undefined> {
    assertStorable(path);
    const [row] = await database.read<[...InfoRow, Uint8Array]>(getStatement, [path]);
    return row && { ...infoOf(row), data: new Uint8Array(row[4]) };
  }

  async function put(path: string, data: Uint8Array, ifVersion?: number): Promise<number> {
    assertStorable(path);
    if (data.byteLength > maxBytes) throw fileTooLarge(path, data.byteLength);
    const values: Value[] = [path, data.byteLength, database.given, data];
    if (ifVersion !== undefined && ifVersion !== 0) values.push(ifVersion);
    const conditional = ifVersion === 0 ? createStatement : replaceStatement;
    const statement = ifVersion === undefined ? putStatement : conditional;
    const version = await database.repeat(async ({ mayBeDone }) => {
      const [row] = await database.readOnce<[number]>(statement, values);
      if (row || !mayBeDone) return row?.[0];
      // An earlier attempt may have written these bytes, and its answer was lost.
      const stored = await get(path);
      return stored && isSame(stored.data, data) ? stored.version : undefined;
    });
    if (version !== undefined) return version;
    const stored = await get(path);
    throw conflict(`${path} is at version ${stored?.version ?? 0}, not at version ${ifVersion}.`);
  }

  return {
    get: (path) => converted(get(path)),
    put: (path, data, { ifVersion } = {}) => converted(put(path, data.slice(), ifVersion)),
    async delete(path) {
      assertStorable(path);
      const deleted = await converted(
        database.repeat(async ({ mayBeDone }) => {
          const rows = await database.readOnce(deleteStatement, [path]);
          return rows.length > 0 || mayBeDone;
        }),
      );
      return deleted;
    },
    async list(prefix, { limit, after } = {}) {
      assertStorable(prefix, after);
      const values = [prefix, prefix + afterAll, after, atMost(limit)];
      const rows = await converted(database.read<InfoRow>(listStatement, values));
      return rows.map(infoOf);
    },
  };
}

function infoOf([path, size, version, modifiedAt]: readonly [...InfoRow, ...unknown[]]): FileInfo {
  return { path, size, version, modifiedAt };
}

function isSame(one: Uint8Array, two: Uint8Array): boolean {
  return Buffer.compare(one, two) === 0;
}

function fileTooLarge(path: string, size: number): RivuletError<"file_too_large"> {
  return new RivuletError(
    "file_too_large",
    `${path} has ${size} bytes; a file in PostgreSQL may have ${maxBytes}.`,
    { hint: "Keep large files in object storage, and store their addresses." },
  );
}
