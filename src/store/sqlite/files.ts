import type { FileInfo, StoredFile } from "../../contract/index.ts";
import { conflict } from "../store-error.ts";
import { assertIntact, type Checked, checksumOf, onlyIntact } from "./damage.ts";
import type { Database } from "./database.ts";

interface FileRow extends FileInfo {
  readonly dataChecksum: number;
}

const fileColumns =
  "path, size, version, modified_at AS modifiedAt, data_checksum AS dataChecksum, checksum";

/** A file with its bytes. */
export function readFile(database: Database, path: string): StoredFile | undefined {
  const row = database.get<FileRow & Checked & { data: Uint8Array }>(
    `SELECT ${fileColumns}, data FROM files WHERE path = ?`,
    path,
  );
  if (row === undefined) return undefined;
  const info = infoOf(row);
  assertIntact({ checksum: row.dataChecksum }, checksumOf([], row.data), () => `file ${path}`);
  return { ...info, data: row.data };
}

/** Writes a file and returns its version; throws when the file does not have version `ifVersion`. */
export function writeFile(
  database: Database,
  file: { readonly path: string; readonly data: Uint8Array; readonly ifVersion?: number },
  now: number,
): number {
  const { path, data, ifVersion } = file;
  if (ifVersion !== undefined) {
    const old = database.get<{ version: number }>("SELECT version FROM files WHERE path = ?", path);
    const version = old?.version ?? 0;
    if (version !== ifVersion) {
      throw conflict(`${path} is at version ${version}, not at version ${ifVersion}.`);
    }
  }
  const size = data.byteLength;
  const dataChecksum = checksumOf([], data);
  const row = database.get<{ version: number }>(
    `INSERT OR REPLACE INTO files (path, size, modified_at, data, data_checksum, checksum)
     VALUES (?, ?, ?, ?, ?, ?) RETURNING version`,
    path,
    size,
    now,
    data,
    dataChecksum,
    checksumOfFile({ path, size, modifiedAt: now, dataChecksum }),
  ) as { version: number };
  return row.version;
}

/** Returns false when the file does not exist. */
export function deleteFile(database: Database, path: string): boolean {
  return database.run("DELETE FROM files WHERE path = ?", path) === 1;
}

/** Files in the order of the bytes of their paths. */
export function listFiles(
  database: Database,
  prefix: string,
  { limit = Number.POSITIVE_INFINITY, after }: { limit?: number; after?: string },
): readonly FileInfo[] {
  const found: FileInfo[] = [];
  if (limit <= 0) return found;
  const rows = database.each<FileRow & Checked>(
    `SELECT ${fileColumns} FROM files
     WHERE path >= max(?, ?) AND path IS NOT ? ORDER BY path`,
    prefix,
    after ?? prefix,
    after ?? null,
  );
  for (const row of rows) {
    if (!row.path.startsWith(prefix)) break;
    if (found.push(...onlyIntact([row], infoOf)) >= limit) break;
  }
  return found;
}

function checksumOfFile(row: Omit<FileRow, "version">): number {
  return checksumOf([row.path, row.size, row.modifiedAt, row.dataChecksum]);
}

function infoOf(row: FileRow & Checked): FileInfo {
  const { path, size, version, modifiedAt } = row;
  assertIntact(row, checksumOfFile(row), () => `file ${path}`);
  return { path, size, version, modifiedAt };
}
