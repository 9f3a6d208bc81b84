import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { FlushMs, Store } from "../../src/contract/store.ts";
import { memoryStore, ReActAgent, sqliteStore } from "../../src/index.ts";
import { checkStream } from "../../src/protocol/check/check.ts";
import type { StreamFrame } from "../../src/protocol/event.ts";
import { materialize } from "../../src/protocol/materialize.ts";
import { emptyTree, reduce } from "../../src/protocol/reduce.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { pacedModel, pieces } from "../agent/crash/support/window-text.ts";
import { readLog } from "../agent/support/laws.ts";
import { createFolder, removeFolder } from "../store/support/folder.ts";
import { seededRandom } from "../support/random.ts";
import { seed } from "../support/seed.ts";
import { unlimited } from "../support/unlimited.ts";
import { eventsOf, nested, startServer, tokens, treeOf } from "./support/server.ts";

const windows: readonly FlushMs[] = [0, 5, 50, 200, "adaptive"];
const rounds = isDeep ? 50 : 1;
const { int } = seededRandom(seed);

let folder: string;
let stores: Store[];
beforeEach(() => {
  folder = createFolder();
  stores = [];
});
afterEach(async () => {
  await Promise.all(stores.map((store) => store.close()));
  removeFolder(folder);
});

function open(kind: "memory" | "sqlite", flushMs: FlushMs): Store {
  const path = join(folder, `${stores.length}.db`);
  const store = kind === "memory" ? memoryStore({ flushMs }) : sqliteStore(path, { flushMs });
  stores.push(store);
  return store;
}

const numbers = (frames: readonly StreamFrame[]) =>
  frames.flatMap((frame) => ("sequence_number" in frame ? [frame.sequence_number] : []));

/** An agent that says one long text, in pieces that end anywhere. */
const talker = (store: Store) => new ReActAgent({ name: "talker", model: pacedModel(2), store });

const kinds = isDeep ? (["memory", "sqlite"] as const) : (["memory"] as const);

describe.each(kinds.flatMap((kind) => windows.map((window) => ({ kind, window }))))(
  "a run on the $kind store with a flush window of $window",
  ({ kind, window }) => {
    it("is the same for a reader from the start, one that joins in a block, and one that was cut", async () => {
      for (let round = 0; round < rounds; round++) {
        const store = open(kind, window);
        const server = await startServer({ agents: [talker(store)], limits: unlimited });
        const ann = server.as(tokens.ann);
        const { body } = await ann.post("/v1/tasks", { agent: "talker", input: "Go." });
        const path = `/v1/tasks/${body.id}/events`;
        const first = ann.frames(path);
        await new Promise((resolve) => setTimeout(resolve, int(10, 120)));
        const joined = ann.frames(`${path}?from=now`);
        const last = await store.last(body.id);
        const cursor = int(0, Math.max(0, last));
        const resumed = ann.frames(`${path}?starting_after=${cursor}`);
        const log = await first.then(() => readLog(store, body.id));
        expect(checkStream(log)).toEqual([]);
        const deltas = log.filter((event) => event.type === "task.text.delta");
        expect(deltas.map(({ delta }) => delta).join("")).toBe(pieces.join(""));
        expect(deltas.every(({ delta }) => delta.isWellFormed())).toBe(true);
        if (window === 0) expect(deltas.length).toBeGreaterThan(pieces.length * 0.7);
        if (window === 50 || window === 200) expect(deltas.length).toBeLessThan(40);
        expect(eventsOf(await first)).toEqual(log);
        expect(eventsOf(await resumed)).toEqual(log.slice(cursor + 1));
        const [whole, fromNow] = [treeOf(await first), treeOf(await joined)];
        expect(materialize(fromNow)).toEqual(materialize(whole));
        const shown = numbers(await joined);
        expect(shown).toEqual(shown.map((_, at) => (shown[0] ?? 0) + at));
        await server.close();
      }
    });

    it("folds to the same tree from any place in the log, at every depth", async () => {
      const store = open(kind, window);
      const server = await startServer({ agents: [nested(store, 3)], limits: unlimited });
      const ann = server.as(tokens.ann);
      const { body } = await ann.post("/v1/tasks", { agent: "lead", input: "Go." });
      const path = `/v1/tasks/${body.id}/events`;
      // Not the events of the store: frames leave out what a reader knows of a source.
      const log = eventsOf(await ann.frames(path));
      const stored = await readLog(store, body.id);
      expect(numbers(log)).toEqual(numbers(stored));
      expect(checkStream(stored)).toEqual([]);
      const tree = JSON.stringify(reduce(emptyTree(), log));
      for (let cut = 0; cut < log.length; cut += isDeep ? 1 : 7) {
        const before = reduce(emptyTree(), log.slice(0, cut + 1));
        const rest = await ann.send("GET", `${path}?starting_after=${cut}`);
        const events =
          rest.status === 204 ? [] : eventsOf(await ann.frames(`${path}?starting_after=${cut}`));
        await rest.body?.cancel();
        expect(JSON.stringify(reduce(before, events))).toBe(tree);
      }
    });
  },
);
