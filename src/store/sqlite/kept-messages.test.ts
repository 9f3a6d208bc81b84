import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { afterAll, afterEach, expect, it, vi } from "vitest";
import type { Message } from "../../contract/message.ts";
import type { Store } from "../../contract/store.ts";
import { commitOnce, message, range } from "../../testing/store-contract/samples.ts";
import { sqliteStore } from "../sqlite.ts";
import { KeptMessages } from "./kept-messages.ts";

const folder = mkdtempSync(join(tmpdir(), "rivulet-kept-"));
let files = 0;
const newPath = () => join(folder, `${++files}.db`);
// A clock that stands still: nothing but the number of its row tells a session from its successor.
const clock = { now: () => 1_000 };

afterEach(() => vi.restoreAllMocks());
afterAll(() => rmSync(folder, { recursive: true }));

async function append(store: Store, sessionId: string, messages: readonly Message[]) {
  const [session] = await store.sessions({ sessionId, limit: 1 });
  const at = session?.messages ?? 0;
  await commitOnce(store, { log: sessionId, appends: [{ sessionId, at, messages }] }, sessionId);
}

/** How many messages a store parses while `work` runs. */
async function parsedBy(work: () => Promise<unknown>): Promise<number> {
  const parse = vi.spyOn(JSON, "parse");
  await work();
  const count = parse.mock.calls.filter(([text]) => text.includes('"role"')).length;
  parse.mockRestore();
  return count;
}

it("parses only the messages that were appended since the last read", async () => {
  const path = newPath();
  const [store, other] = [sqliteStore(path), sqliteStore(path)];
  await append(
    store,
    "s",
    range(0, 100).map((i) => message(String(i))),
  );
  expect(await parsedBy(() => store.session("s"))).toBe(100);
  expect(await parsedBy(() => store.session("s"))).toBe(0);
  await append(other, "s", [message("a"), message("b")]);
  expect(await parsedBy(() => store.session("s"))).toBe(2);
  await append(store, "s", [message("c")]);
  expect(await parsedBy(() => store.session("s"))).toBe(0);
  expect(await parsedBy(() => other.session("s", 60))).toBe(43);
  expect(await parsedBy(() => other.session("s", 50))).toBe(10);
  await Promise.all([store.close(), other.close()]);
});

it("reads a session anew that another process deleted and created again", async () => {
  const path = newPath();
  const [store, other] = [sqliteStore(path, { clock }), sqliteStore(path, { clock })];
  const rest = range(1, 50).map((i) => message(String(i)));
  await append(store, "s", [message("a"), ...rest]);
  await store.session("s");
  await other.deleteSession("s");
  await append(other, "s", [message("b"), ...rest]);
  expect(await store.session("s")).toEqual([message("b"), ...rest]);
  await store.deleteSession("s");
  await append(store, "s", [message("c"), ...rest]);
  expect(await parsedBy(() => store.session("s"))).toBe(50);
  await Promise.all([store.close(), other.close()]);
});

it("returns the frozen objects that this process committed, and copies of others", async () => {
  const store = sqliteStore(newPath());
  await append(
    store,
    "s",
    range(0, 50).map((i) => message(String(i))),
  );
  await store.session("s");
  const [block] = message("frozen").content;
  const frozen: Message = Object.freeze({
    ...message("frozen"),
    content: Object.freeze([Object.freeze({ ...block })]) as Message["content"],
  });
  const loose = message("loose");
  const undefinedField = Object.freeze({ ...frozen, name: undefined as unknown as string });
  await append(store, "s", [frozen, loose, undefinedField]);
  const read = await store.session("s");
  expect(read[50]).toBe(frozen);
  expect(read[51]).not.toBe(loose);
  expect(Object.isFrozen(read[51]?.content[0])).toBe(true);
  expect(Object.keys(read[52] ?? {})).not.toContain("name");
  await store.close();
});

it("keeps at most the given size, and the session that was used last", () => {
  const kept = new KeptMessages(100, 2);
  const parse = vi.fn((start: number, end: number) =>
    range(start, end).map((i) => ({ message: message(String(i)), length: 10 })),
  );
  const read = (sessionId: string, messages: number) => {
    parse.mockClear();
    kept.read({ sessionId, number: 1, messages }, 0, messages, parse);
    expect(kept.length).toBeLessThanOrEqual(100);
    return parse.mock.results.flatMap(({ value }) => value).length;
  };
  expect(read("a", 4)).toBe(4);
  expect(read("b", 4)).toBe(4);
  expect(read("a", 4)).toBe(0);
  expect(read("c", 4)).toBe(4);
  expect(read("a", 4)).toBe(0);
  expect(read("b", 4)).toBe(4);
  expect(read("too long", 11)).toBe(11);
  expect(read("too long", 11)).toBe(11);
  expect(read("too short", 1)).toBe(1);
  expect(read("too short", 1)).toBe(1);
  kept.delete("a");
  kept.delete("b");
  kept.delete("c");
  expect(kept.length).toBe(0);
});

const store = fc.nat(1);
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      // A session that was deleted and created again must not look like its predecessor.
      type: fc.constantFrom("append" as const, "append" as const, "replace" as const),
      store,
      // Few texts, so that a session often gets the messages of its predecessor again.
      texts: fc.array(fc.constantFrom("a", "b", "keep 0", "keep 1", "keep 9"), {
        minLength: 1,
        maxLength: 3,
      }),
      isFrozen: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("delete" as const), store }) },
  {
    weight: 4,
    arbitrary: fc.record({
      type: fc.constant("read" as const),
      store,
      from: fc.constantFrom(0, 0, 1, 40),
      limit: fc.option(fc.nat(50), { freq: 2 }),
    }),
  },
);

function toMessage(text: string): Message {
  const keepFrom = /^keep (\d)$/.exec(text)?.[1];
  if (keepFrom === undefined) return message(text);
  const block = { type: "compaction", summary: "…", keepFrom: Number(keepFrom) } as const;
  return { ...message(text), content: [block] };
}

it("returns what is in the file, however two processes append and delete", async () => {
  const property = fc.asyncProperty(fc.array(step, { minLength: 8, maxLength: 20 }), checkSteps);
  await fc.assert(property, { numRuns: 25 });
});

type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

async function checkSteps(steps: readonly Step[]): Promise<void> {
  const path = newPath();
  const stores = [sqliteStore(path, { clock }), sqliteStore(path, { clock })] as const;
  const file = new DatabaseSync(path, { readOnly: true });
  const stored = file.prepare("SELECT message FROM messages ORDER BY position");
  for (const one of steps) {
    const used = stores[one.store] as Store;
    if (one.type === "delete" || one.type === "replace") await used.deleteSession("s");
    if (one.type === "append" || one.type === "replace") {
      // Short sessions are not kept.
      const texts = [...one.texts, ...Array.from({ length: 40 }, () => "filler")];
      const messages = texts.map(toMessage);
      if (one.isFrozen) messages.forEach(freeze);
      await append(used, "s", messages);
    }
    if (one.type !== "read") continue;
    const { from, limit } = one;
    const whole = stored.all().map(({ message }): Message => JSON.parse(String(message)));
    const read = await used.session("s", from, limit ?? Number.POSITIVE_INFINITY);
    expect(read).toEqual(whole.slice(from, from + (limit ?? whole.length)));
    const at = whole.findLastIndex(({ content: [block] }) => block?.type === "compaction");
    const [block] = whole[at]?.content ?? [];
    const [session] = await used.sessions({ sessionId: "s", limit: 1 });
    const visible = block?.type === "compaction" ? Math.min(block.keepFrom, at) : 0;
    expect(session?.visibleFrom ?? 0).toBe(visible);
  }
  file.close();
  await Promise.all(stores.map((one) => one.close()));
}

function freeze(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  Object.values(value).forEach(freeze);
  Object.freeze(value);
}
