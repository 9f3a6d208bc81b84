import type { FileInfo, StoredFile } from "../../protocol/store.ts";
import { conflict } from "../store-error.ts";
import type { Database } from "./database.ts";

interface FileRow {
  readonly path: string;
  readonly size: number;
  readonly version: number;
  readonly modified_at: number;
}

/** A file with its bytes. */
export function readFile(database: Database, path: string): StoredFile | undefined {
  const row = database.get<FileRow & { data: Uint8Array }>(
    "SELECT path, size, version, modified_at, data FROM files WHERE path = ?",
    path,
  );
  return row && { ...infoOf(row), data: row.data };
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
  const row = database.get<{ version: number }>(
    `INSERT OR REPLACE INTO files (path, size, modified_at, data) VALUES (?, ?, ?, ?)
     RETURNING version`,
    path,
    data.byteLength,
    now,
    data,
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
): FileInfo[] {
  const found: FileInfo[] = [];
  if (limit <= 0) return found;
  const rows = database.each<FileRow>(
    `SELECT path, size, version, modified_at FROM files
     WHERE path >= max(?, ?) AND path IS NOT ? ORDER BY path`,
    prefix,
    after ?? prefix,
    after ?? null,
  );
  for (const row of rows) {
    if (!row.path.startsWith(prefix) || found.push(infoOf(row)) >= limit) break;
  }
  return found;
}

function infoOf(row: FileRow): FileInfo {
  return {
    path: row.path,
    size: row.size,
    version: row.version,
    modifiedAt: row.modified_at,
  };
}
