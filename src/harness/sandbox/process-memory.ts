import { readdir, readFile, stat } from "node:fs/promises";

const blockBytes = 512;

/** The memory that a process and its descendants hold: private pages, and their share of pages without a file. */
export async function memoryOf(pid: number): Promise<number> {
  const each = await Promise.all((await descendantsOf(pid)).map(memoryOfOne));
  return each.reduce((sum, bytes) => sum + bytes, 0);
}

async function memoryOfOne(pid: number): Promise<number> {
  const text = (name: string) => readFile(`/proc/${pid}/${name}`, "utf8").catch(() => "");
  // A page that several processes share counts once. Pages of files belong to the system, which can drop them.
  const shares = fields(await text("smaps_rollup"), "Pss_Anon", "Pss_Shmem");
  return shares ?? fields(await text("status"), "RssAnon", "RssShmem") ?? 0;
}

/** The sum of fields in kB; undefined if one is missing. */
function fields(text: string, ...names: readonly string[]): number | undefined {
  const found = names.map((name) => new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1]);
  if (found.includes(undefined)) return undefined;
  return found.reduce((sum, kib) => sum + Number(kib) * 1024, 0);
}

async function descendantsOf(pid: number): Promise<readonly number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
  const children = text.split(" ").filter((child) => child !== "");
  const below = await Promise.all(children.map((child) => descendantsOf(Number(child))));
  return [pid, ...below.flat()];
}

/** The size of the files of a device that a process or a descendant has open, and that have no name any more. */
export async function namelessBytes(pid: number, device: number): Promise<number> {
  const sizes = new Map<number, number>();
  for (const process of await descendantsOf(pid)) {
    const directory = `/proc/${process}/fd`;
    for (const fd of await readdir(directory).catch(() => [])) {
      const stats = await stat(`${directory}/${fd}`).catch(() => undefined);
      if (!stats?.isFile() || stats.nlink > 0 || stats.dev !== device) continue;
      sizes.set(stats.ino, stats.blocks * blockBytes);
    }
  }
  return [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
}
