import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createFolder, removeFolder } from "../../store/support/folder.ts";

const program = fileURLToPath(new URL("./support/flush-process.ts", import.meta.url));

interface Ended {
  readonly writes: number;
  readonly distill: number;
  readonly merge: number;
  readonly files: readonly (readonly [string, string])[];
}

let base: string;
beforeAll(async () => {
  base = createFolder();
  await run("prepared", "prepare");
});
afterAll(() => removeFolder(base));

/** Runs a process in a folder; undefined if it was killed. */
async function run(name: string, action: string, killAfter = 0): Promise<Ended | undefined> {
  const args = [program, join(base, name), action, String(killAfter)];
  const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, NODE_COMPILE_CACHE: join(base, "compiled") },
  });
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  const [code, signal] = await once(child, "close");
  const [stdout, stderr] = await output;
  expect({ stderr, signal }).toEqual({ stderr: "", signal: killAfter > 0 ? signal : null });
  return code === 0 ? (JSON.parse(stdout) as Ended) : undefined;
}

function copy(name: string): string {
  cpSync(join(base, "prepared"), join(base, name), { recursive: true });
  return name;
}

const count = (files: Ended["files"], isCounted: (path: string) => boolean, part: string) =>
  files.filter(([path]) => isCounted(path)).flatMap(([, content]) => content.split(part)).length -
  files.filter(([path]) => isCounted(path)).length;
const isDaily = (path: string) => /^memory\/\d/.test(path);
const isMemory = (path: string) => path === "MEMORY.md";
const isVersion = (path: string) => path.startsWith("memory/versions/");

describe("a kill between two writes", () => {
  it("of a distillation or a merge loses nothing and doubles nothing", async () => {
    const whole = await run(copy("whole"), "flush");
    expect(whole).toMatchObject({ distill: 2, merge: 1 });
    expect(whole?.writes).toBeGreaterThanOrEqual(10);
    for (let at = 1; at <= (whole?.writes ?? 0); at++) {
      const name = copy(`kill-${at}`);
      const killed = await run(name, "flush", at);
      const after = killed ?? (await run(name, "flush"));
      const files = after?.files ?? [];
      for (const fact of ["Fact A.", "Fact B.", "Fact C."]) {
        expect([at, fact, count(files, isDaily, `- ${fact}`)]).toEqual([at, fact, 1]);
        expect([at, fact, count(files, isMemory, `- ${fact}`)]).toEqual([at, fact, 1]);
      }
      expect(files.filter(([path]) => isVersion(path)).map(([, content]) => content)).toEqual([
        "# Facts\n\n- Fact A.\n",
      ]);
      // What the killed process had asked for and written is not asked for again.
      expect(after?.merge).toBeLessThanOrEqual(1);
      if (at >= 7) expect(after?.distill).toBe(0);
      removeFolder(join(base, name));
    }
  }, 120_000);

  it("of forget is repaired by repeating it", async () => {
    await run(copy("versions"), "flush");
    const whole = await run("versions", "forget");
    expect(whole?.writes).toBeGreaterThanOrEqual(5);
    for (let at = 1; at <= (whole?.writes ?? 0); at++) {
      const name = copy(`forget-${at}`);
      await run(name, "flush");
      await run(name, "forget", at);
      const { files = [] } = (await run(name, "forget")) ?? {};
      expect(files.map(([, content]) => content).join("\n")).not.toContain("Fact A");
      expect(count(files, isMemory, "- Fact B.")).toBe(1);
      expect(count(files, isDaily, "- Fact C.")).toBe(1);
      removeFolder(join(base, name));
    }
  }, 120_000);
});
