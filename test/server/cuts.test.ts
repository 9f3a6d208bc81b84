import { describe, expect, it } from "vitest";
import { memoryStore } from "../../src/index.ts";
import type { TaskEvent } from "../../src/protocol/event.ts";
import { emptyTree, reduce } from "../../src/protocol/reduce.ts";
import { SseDecoder } from "../../src/protocol/sse.ts";
import { isTerminal, type Tree } from "../../src/protocol/task.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { seededRandom } from "../support/random.ts";
import { seed } from "../support/seed.ts";
import { unlimited } from "../support/unlimited.ts";
import { type Fault, faultyProxy } from "./support/faulty-proxy.ts";
import { nested, startServer, tokens, treeOf } from "./support/server.ts";

const limits = unlimited;
const kinds: readonly Fault["kind"][] = ["cut", "half-close", "stall", "reset"];
/** A reader that hears nothing for this long connects again. */
const silenceMs = 150;

/** Follows a task through broken connections with fetch, the decoder and the fold; counts the connections. */
async function follow(url: string, path: string) {
  let tree: Tree = emptyTree();
  const seen: number[] = [];
  for (let connections = 1; ; connections++) {
    const isEnded = await readOnce();
    if (isEnded) return { tree, connections, seen };
  }

  async function readOnce(): Promise<boolean> {
    const abort = new AbortController();
    let timer = setTimeout(() => abort.abort(), silenceMs);
    try {
      const response = await fetch(`${url}${path}?starting_after=${tree.safeCursor}`, {
        headers: { authorization: `Bearer ${tokens.ann}`, "accept-encoding": "identity" },
        signal: abort.signal,
      });
      if (response.status === 204) return true;
      const decoder = new SseDecoder();
      for await (const chunk of response.body as ReadableStream<Uint8Array>) {
        clearTimeout(timer);
        timer = setTimeout(() => abort.abort(), silenceMs);
        for (const { frame, error } of decoder.push(chunk)) {
          if (error) throw error;
          if (frame.type === "stream.closed" && frame.final) return true;
          if (!frame.type.startsWith("task.")) continue;
          if ("sequence_number" in frame) seen.push(frame.sequence_number);
          tree = reduce(tree, frame as TaskEvent);
        }
      }
      return false; // ended without a terminal event: disconnected
    } catch (error) {
      if (error instanceof Error && "code" in error && error.name === "RivuletError") throw error;
      return false;
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
  }
}

/** The tree as it is compared: byte for byte. */
const text = (tree: Tree) => JSON.stringify(tree);

describe("a run that is read through broken connections", () => {
  it("cut at every event index, in every way: the same tree, no gap, each event in order", async () => {
    const store = memoryStore();
    const server = await startServer({ agents: [nested(store)], limits, heartbeatMs: 50 });
    const ann = server.as(tokens.ann);
    const { body } = await ann.post("/v1/tasks", { agent: "lead", input: "Go." });
    const path = `/v1/tasks/${body.id}/events`;
    const whole = treeOf(await ann.frames(path));
    const length = (await store.last(body.id)) + 1;
    let resumes = 0;
    const rounds = isDeep ? 40 : 2;
    for (let round = 0; round < rounds; round++) {
      for (let index = 0; index <= length; index++) {
        const offsets = round % 2 === 0 ? [0] : [1 + ((index * 37 + round * 11) % 150)];
        for (const kind of kinds) {
          // A stall costs the reader its patience, so it comes at some indexes only.
          if (kind === "stall" && index % 8 !== round % 8) continue;
          const faults = offsets.map((bytes): Fault => ({ kind, events: index, bytes }));
          const proxy = await faultyProxy(server.url, faults.values());
          const { tree, connections, seen } = await follow(proxy.url, path);
          await proxy.close();
          const place = `${kind} after event ${index} and ${offsets} bytes`;
          expect(tree.gaps, place).toEqual([]);
          expect(text(tree), place).toBe(text(whole));
          expect(seen, place).toEqual(seen.map((_, at) => at));
          resumes += connections - 1;
        }
      }
    }
    console.log(`${length} events, ${resumes} resumes`);
    expect(resumes).toBeGreaterThan(isDeep ? 9_000 : 300);
  });

  it("cut at random places while it runs, again and again: the same tree as the log", async () => {
    const { int, pick } = seededRandom(seed);
    const store = memoryStore();
    const server = await startServer({ agents: [nested(store, 10)], limits, heartbeatMs: 50 });
    const ann = server.as(tokens.ann);
    let resumes = 0;
    for (let n = 0; n < (isDeep ? 200 : 20); n++) {
      const { body } = await ann.post("/v1/tasks", { agent: "lead", input: "Go." });
      const path = `/v1/tasks/${body.id}/events`;
      const faults = Array.from({ length: 12 }, (): Fault => {
        const kind = pick(["cut", "half-close", "reset", "cut", "throttle"] as const);
        return { kind, events: int(0, 5), bytes: int(0, 200) };
      });
      const proxy = await faultyProxy(server.url, faults.values());
      const { tree, connections, seen } = await follow(proxy.url, path);
      await proxy.close();
      resumes += connections - 1;
      const whole = treeOf(await ann.frames(path));
      expect(text(tree)).toBe(text(whole));
      expect(seen).toEqual(seen.map((_, at) => at));
      expect(Object.values(tree.tasks).every(({ status }) => isTerminal(status as never))).toBe(
        true,
      );
    }
    console.log(`${resumes} resumes of live runs`);
    expect(resumes).toBeGreaterThan(50);
  });
});
