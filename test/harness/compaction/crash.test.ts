import { spawn } from "node:child_process";
import { join } from "node:path";
import { text as readText } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, expect, it } from "vitest";
import { sqliteStore } from "../../../src/index.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { expectLawful } from "../../agent/support/laws.ts";
import { createFolder, removeFolder } from "../../store/support/folder.ts";
import { nodeCommand } from "../../store/support/run-writer.ts";
import { crashReader, pages } from "./crash-cast.ts";
import { blocksOf } from "./support.ts";

const folders: string[] = [];
const newFolder = () => {
  const folder = createFolder();
  folders.push(folder);
  return folder;
};
afterAll(() => {
  for (const folder of folders) removeFolder(folder);
});
const program = fileURLToPath(new URL("./crash-reader.ts", import.meta.url));

/** Runs the reader in another process; returns the writes that it said, and how it ended. */
async function runReader(folder: string, ...args: readonly string[]) {
  const [command = "", ...options] = [...nodeCommand, program, folder, ...args];
  const child = spawn(command, options, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<NodeJS.Signals | null>((resolve) =>
    child.on("exit", (_, signal) => resolve(signal)),
  );
  const lines = (await readText(child.stdout)).trim().split("\n");
  return { lines, signal: await ended };
}

it("loses nothing when its process is killed before any write around a compaction", async () => {
  const { lines } = await runReader(newFolder());
  expect(lines.at(-1)).toBe("All read.");
  const isNear = (at: number) =>
    lines
      .slice(Math.max(0, at - 1), at + 2)
      .some((kind) => kind === "file" || kind === "compaction");
  const places = lines.flatMap((_, at) => (isNear(at) && at < lines.length - 1 ? [at] : []));
  expect(places.length).toBeGreaterThan(8);
  const chosen = isDeep
    ? places
    : places.filter((_, index) => index % Math.ceil(places.length / 8) === 0);
  for (const at of chosen) {
    const folder = newFolder();
    const { signal } = await runReader(folder, String(at));
    expect({ at, signal }).toEqual({ at, signal: "SIGKILL" });
    const store = sqliteStore(join(folder, "store.db"));
    const agent = crashReader(folder, store);
    const [record] = await store.tasks({ sessionId: "crash" });
    const { text, task } = await agent.call(record ? undefined : "Read.", { sessionId: "crash" });
    expect({ at, text }).toEqual({ at, text: "All read." });
    const messages = await store.session("crash");
    const read = messages
      .flatMap(({ content }) => content)
      .flatMap((block) => (block.type === "tool_result" ? block.output : []))
      .flatMap((block) =>
        block.type === "text" ? (/^page (\d+)/.exec(block.text)?.[1] ?? []) : [],
      );
    expect({ at, read }).toEqual({
      at,
      read: Array.from({ length: pages }, (_, n) => String(n + 1)),
    });
    expect(blocksOf(messages).length).toBeGreaterThan(0);
    await expectLawful(store, task.taskId);
    await store.close();
  }
});
