import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isDeep } from "../../src/testing/deep.ts";
import { requires } from "../support/requires.ts";
import { checkDatabase } from "./support/check-database.ts";
import { createFolder, removeFolder } from "./support/folder.ts";
import { startWriter } from "./support/run-writer.ts";

const steps = 30;

let folder: string;
beforeEach(() => {
  folder = createFolder();
});
afterEach(() => removeFolder(folder));

/** The calls at which the disk starts to fail, and for how many calls it does. */
const failures = [
  {
    what: "is full",
    call: "pwrite64",
    error: "ENOSPC",
    first: [1, 4, 20, 60, 150, 900],
    count: 40,
  },
  { what: "cannot be written", call: "pwrite64", error: "EIO", first: [3, 60, 400], count: 40 },
  { what: "cannot be synced", call: "fsync,fdatasync", error: "EIO", first: [2, 8, 20], count: 6 },
];

describe.runIf(requires("strace"))("a temporary disk failure", () => {
  for (const { what, call, error, first, count } of failures) {
    it(`fails only the writes during the failure when the disk ${what}`, async () => {
      const places = isDeep ? Array.from({ length: 100 }, (_, i) => 1 + i * 7) : first;
      let failed = 0;
      for (const place of places) {
        const path = join(folder, `${place}.db`);
        const when = `${place}..${place + count - 1}`;
        const strace = [
          `--trace=${call}`,
          `--inject=${call}:error=${error}:when=${when}`,
          "--output=/dev/null",
        ];
        const { lines, code, problems } = await startWriter(path, { steps, strace }).ended;
        const where = `${error} at ${call} ${when}`;
        expect({ code, problems }, where).toEqual({ code: 0, problems: "" });
        const rejected = lines.filter((line) => line.startsWith("failed"));
        for (const line of rejected) expect(line, where).toMatch(/ store_failed$/);
        failed += rejected.length;
        // The store recovers: every step is there in the end.
        expect(await checkDatabase(path, lines), where).toBe(steps + 1);
      }
      expect(failed).toBeGreaterThan(0);
    });
  }

  it("loses no confirmed write when the process is killed afterwards", async () => {
    for (const kill of isDeep
      ? Array.from({ length: 50 }, (_, i) => 300 + i * 20)
      : [300, 600, 900]) {
      const path = join(folder, `${kill}.db`);
      const strace = [
        "--trace=pwrite64,fsync,fdatasync",
        "--inject=fsync,fdatasync:error=EIO:when=12+3",
        `--inject=pwrite64:signal=KILL:when=${kill}`,
        "--output=/dev/null",
      ];
      const { lines, signal } = await startWriter(path, { steps, strace }).ended;
      expect(signal).toBe("SIGKILL");
      expect(lines.some((line) => line.startsWith("failed"))).toBe(true);
      await checkDatabase(path, lines);
    }
  });
});
