// Opens new databases on several threads, each in the same instant, and prints how many could not be opened.
// node openers.ts <folder> <count>
import { join } from "node:path";
import { isMainThread, Worker, workerData } from "node:worker_threads";
import { sqliteStore } from "../../../src/store/sqlite.ts";

const threads = 4;
const [arrived, failed] = [0, 1];

interface Work {
  readonly counts: Int32Array;
  readonly folder: string;
  readonly rounds: number;
}

async function openAll({ counts, folder, rounds }: Work): Promise<void> {
  for (let round = 1; round <= rounds; round++) {
    Atomics.add(counts, arrived, 1);
    while (Atomics.load(counts, arrived) < threads * round);
    try {
      await sqliteStore(join(folder, `${round}.db`)).close();
    } catch {
      Atomics.add(counts, failed, 1);
    }
  }
}

if (isMainThread) {
  const [folder = "", rounds = "0"] = process.argv.slice(2);
  const counts = new Int32Array(new SharedArrayBuffer(8));
  const work: Work = { counts, folder, rounds: Number(rounds) };
  for (let i = 0; i < threads; i++) new Worker(new URL(import.meta.url), { workerData: work });
  process.once("exit", () => console.log(counts[failed]));
} else {
  await openAll(workerData);
}
