import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";

/** Returns the content of all files and the targets of all links in a directory, by path. */
export async function snapshot(
  directory: string,
  isLeftOut: (path: string) => boolean = () => false,
  path = "",
): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  for (const name of await readdir(join(directory, path))) {
    const below = path === "" ? name : `${path}/${name}`;
    if (isLeftOut(below)) continue;
    const stats = await lstat(join(directory, below));
    if (stats.isDirectory()) {
      found[below] = "directory";
      Object.assign(found, await snapshot(directory, isLeftOut, below));
    } else if (stats.isFile()) found[below] = await readFile(join(directory, below), "utf8");
    else if (stats.isSymbolicLink())
      found[below] = `link to ${await readlink(join(directory, below))}`;
    else found[below] = "special";
  }
  return found;
}
