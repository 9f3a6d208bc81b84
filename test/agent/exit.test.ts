import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, it } from "vitest";
import { sqliteStore } from "../../src/index.ts";
import { createFolder, removeFolder } from "../store/support/folder.ts";
import { nodeCommand } from "../store/support/run-writer.ts";

const program = fileURLToPath(new URL("./support/exiting-agent.ts", import.meta.url));
const [node, ...flags] = nodeCommand;
const run = promisify(execFile);

let folder: string;
beforeEach(() => {
  folder = createFolder();
});
afterEach(() => removeFolder(folder));

it.each(["stream", "run", "call"])(
  "a process that exits in the last event of %s() leaves no lease behind",
  async (moment) => {
    const path = join(folder, "store.db");
    for (const _ of ["first", "second", "third"]) {
      const { stdout } = await run(node, [...flags, program, path, moment]);
      expect(stdout).toBe("");
    }
    const store = sqliteStore(path);
    expect(await store.owner("s")).toBeUndefined();
    await store.close();
  },
);
