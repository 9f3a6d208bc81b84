import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { FlushMs, Store } from "../../../src/contract/store.ts";
import { sqliteStore } from "../../../src/index.ts";
import { checkStream } from "../../../src/protocol/check/check.ts";
import type { TaskEvent } from "../../../src/protocol/event.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { createFolder, removeFolder } from "../../store/support/folder.ts";
import { nodeCommand } from "../../store/support/run-writer.ts";
import { seededRandom } from "../../support/random.ts";
import { seed } from "../../support/seed.ts";
import { expectLawful, readLog } from "../support/laws.ts";
import { sessionId } from "./support/crash-cast.ts";
import { newFolder } from "./support/whole.ts";
import { pieces } from "./support/window-text.ts";

const windows: readonly FlushMs[] = isDeep ? [0, 5, 50, 200, "adaptive"] : [50, "adaptive"];
const kills = isDeep ? 20 : 1;
const program = fileURLToPath(new URL("./support/window-agent.ts", import.meta.url));
const random = seededRandom(seed);

let folder: string;
beforeAll(() => {
  folder = createFolder();
});
afterAll(() => removeFolder(folder));

function start(own: string, window: FlushMs) {
  const [file = "", ...args] = [...nodeCommand, program, own, JSON.stringify(window)];
  const child = spawn(file, args, { stdio: ["ignore", "inherit", "inherit"] });
  return { child, ended: once(child, "exit") };
}

function textIn(events: readonly TaskEvent[]): string {
  const deltas = events.filter((event) => event.type === "task.text.delta");
  return deltas.map(({ delta }) => delta).join("");
}

/** The events of the conversation, once there is text. */
async function untilText(store: Store): Promise<readonly TaskEvent[]> {
  for (;;) {
    const [root] = await store.tasks({ sessionId });
    const events = root ? await readLog(store, root.taskId) : [];
    if (textIn(events) !== "") return events;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

describe.each(windows)(
  "a process killed between the deltas of a block, with a window of %s",
  (window) => {
    it(
      "loses nothing that a reader has seen, and the next process says the whole text",
      async () => {
        for (let kill = 0; kill < kills; kill++) {
          const own = newFolder(folder, `${window}-${kill}`);
          const store = sqliteStore(join(own, "store.db"));
          const doomed = start(own, window);
          await untilText(store);
          await new Promise((resolve) => setTimeout(resolve, random.int(0, 150)));
          const seen = await untilText(store);
          doomed.child.kill("SIGKILL");
          await doomed.ended;
          const [root] = await store.tasks({ sessionId });
          const taskId = root?.taskId ?? "";
          const left = await readLog(store, taskId);
          expect(left.slice(0, seen.length)).toEqual(seen);
          expect(checkStream(left, { partial: true })).toEqual([]);
          expect(pieces.join("").startsWith(textIn(left))).toBe(true);
          expect(textIn(left).length).toBeLessThan(pieces.join("").length);
          expect((await start(own, window).ended)[0]).toBe(0);
          await expectLawful(store, taskId, `RIVULET_SEED=${seed}`);
          const [, reply] = await store.session(sessionId);
          expect(reply?.content).toEqual([{ type: "text", text: pieces.join("") }]);
          await store.close();
        }
      },
      isDeep ? 600_000 : 60_000,
    );
  },
);
