import { existsSync } from "node:fs";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

// A memory disk, if the system has one, is faster for tests that write thousands of small files.
const memory = "/dev/shm";

/** Creates a directory that is removed after the test. */
export async function temporaryDirectory({ inMemory = false } = {}): Promise<string> {
  const parent = inMemory && existsSync(memory) ? memory : tmpdir();
  const directory = await realpath(await mkdtemp(join(parent, "rivulet-files-")));
  onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 3 }));
  return directory;
}
