import { existsSync } from "node:fs";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

// Where it is there, memory spares the tests that write thousands of small files the wait for a disk.
const memory = "/dev/shm";

/** A directory that is there until the test has ended. */
export async function temporaryDirectory({ inMemory = false } = {}): Promise<string> {
  const parent = inMemory && existsSync(memory) ? memory : tmpdir();
  const directory = await realpath(await mkdtemp(join(parent, "rivulet-files-")));
  onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 3 }));
  return directory;
}

/** Whether the long variants run. */
export const deep = process.env.RIVULET_DEEP === "1";
