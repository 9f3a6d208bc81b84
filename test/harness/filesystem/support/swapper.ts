// A program that gets pairs of paths: it keeps replacing the first with a link to the second and back, as fast as it can.
// It removes files that a concurrent write leaves in the way.
import { renameSync, rmSync, symlinkSync, unlinkSync, writeSync } from "node:fs";

const [, , ...pairs] = process.argv;

function remove(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    try {
      rmSync(path, { recursive: true, force: true });
    } catch {
      // A concurrent write is in the way; the next attempt may succeed.
    }
  }
}

function insist(work: () => void, inTheWay: string): void {
  for (let isDone = false; !isDone; ) {
    try {
      work();
      isDone = true;
    } catch {
      remove(inTheWay);
    }
  }
}

const parent = process.ppid;
// The parent may have been killed, so the program ends by itself.
for (let cycle = 1; process.ppid === parent; cycle++) {
  for (let i = 0; i < pairs.length; i += 2) {
    const [path, target] = pairs.slice(i, i + 2) as [string, string];
    const away = `${path}.away`;
    insist(() => renameSync(path, away), away);
    insist(() => symlinkSync(target, path), path);
    remove(path);
    insist(() => renameSync(away, path), path);
  }
  if (cycle === 1) writeSync(1, "started\n");
}
