import { createHash } from "node:crypto";
import { type Directory, openFile } from "./directory.ts";
import { tooLarge } from "./file-error.ts";

/** Reads a whole file of a directory, as it was when it was opened. */
export async function readLocal(
  directory: Directory,
  name: string,
  path: string,
  maxBytes: number,
): Promise<Uint8Array> {
  const { handle, stats } = await openFile(directory, name, path);
  try {
    if (stats.size > BigInt(maxBytes)) throw tooLarge(path, maxBytes);
    const size = Number(stats.size);
    const parts: Uint8Array[] = [];
    let length = 0;
    // One byte more than it should have tells whether it has grown.
    for (let room = size + 1; ; room = Math.max(room, 65_536)) {
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(room), 0, room, length);
      parts.push(buffer.subarray(0, bytesRead));
      length += bytesRead;
      if (length > maxBytes) throw tooLarge(path, maxBytes);
      // Some disks give less than they have; only nothing is surely the end of what has become shorter.
      if (bytesRead === 0 || (bytesRead < room && length >= size)) break;
    }
    return parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts);
  } finally {
    await handle.close();
  }
}

/** The version of a content: the same bytes are the same version. */
export function contentVersion(data: Uint8Array): string {
  return createHash("sha256").update(data).digest("hex").slice(0, 32);
}
