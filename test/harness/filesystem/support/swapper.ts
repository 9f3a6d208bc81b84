// Run as a program with pairs of paths: puts a link to the second in the place of the first, and takes it away again, as
// fast as it can. Whoever writes there meanwhile may leave something in the way, which is removed.
import { renameSync, rmSync, symlinkSync, unlinkSync, writeSync } from "node:fs";

const [, , ...pairs] = process.argv;

function remove(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    try {
      rmSync(path, { recursive: true, force: true });
    } catch {
      // Somebody writes into it just now; the next try will do.
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
// Who started it may have been killed, and nobody would ever stop it.
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
