import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  acquire,
  commitOnce,
  message,
  range,
  record,
} from "../../testing/store-contract/samples.ts";
import { sqliteStore } from "../sqlite.ts";
import { createIndexer } from "./search-index.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rivulet-index-"));
  path = join(folder, "store.db");
});
afterEach(() => rmSync(folder, { recursive: true }));

/** The numbers of the messages, and of the last one that is indexed. */
function progress(): { readonly messages: number; readonly indexed: number } {
  const database = new DatabaseSync(path);
  const { n, through } = database
    .prepare("SELECT (SELECT max(number) FROM messages) AS n, through FROM indexed")
    .get() as { n: number; through: number };
  database.close();
  return { messages: n, indexed: through };
}

describe("the search index of a database", () => {
  it("is written after the commits, and before a search answers", async () => {
    const store = sqliteStore(path);
    const lease = await acquire(store);
    await store.commit({ lease, log: "task_1", tasks: [record({ userId: "ann" })] });
    // More than one transaction indexes.
    for (const at of range(0, 20)) {
      const messages = range(0, 60).map((n) => message(`word${at}x${n}`));
      const appends = [{ sessionId: "sess_1", at: at * 60, messages }];
      await store.commit({ lease, log: "task_1", appends });
    }
    expect(progress()).toEqual({ messages: 1_200, indexed: 0 });
    const found = await store.search({ text: "word19x59", userId: "ann", limit: 5 });
    expect(found.map(({ index }) => index)).toEqual([1_199]);
    expect(progress()).toEqual({ messages: 1_200, indexed: 1_200 });
    await store.close();
  });

  it("is completed in the background", async () => {
    const store = sqliteStore(path);
    await commitOnce(store, {
      appends: [{ sessionId: "sess_1", at: 0, messages: [message("a")] }],
    });
    await vi.waitFor(() => expect(progress()).toEqual({ messages: 1, indexed: 1 }), 5_000);
    await store.close();
  });

  it("is completed by the process after one that left it behind", async () => {
    const first = sqliteStore(path);
    await commitOnce(first, {
      appends: [{ sessionId: "sess_1", at: 0, messages: [message("a")] }],
    });
    await first.close();
    expect(progress()).toEqual({ messages: 1, indexed: 0 });
    const second = sqliteStore(path);
    await vi.waitFor(() => expect(progress()).toEqual({ messages: 1, indexed: 1 }), 5_000);
    await second.close();
  });
});

describe("an indexer", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("indexes once for many commits, until nothing is left", async () => {
    const index = vi.fn(async () => index.mock.calls.length < 3);
    const indexer = createIndexer(index);
    for (const _ of range(0, 10)) indexer.wake();
    expect(index).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(index).toHaveBeenCalledTimes(3);
    indexer.wake();
    indexer.stop();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(index).toHaveBeenCalledTimes(3);
  });

  it("continues after an error with the next commit", async () => {
    const index = vi.fn().mockRejectedValueOnce(new Error("disk full")).mockResolvedValue(false);
    const indexer = createIndexer(index);
    indexer.wake();
    await vi.advanceTimersByTimeAsync(1_000);
    indexer.wake();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(index).toHaveBeenCalledTimes(2);
  });
});
