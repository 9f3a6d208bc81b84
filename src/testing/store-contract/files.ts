import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import { assertMatches } from "../contract.ts";
import type { StoreSuite } from "./fixture.ts";
import { range } from "./samples.ts";

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function paths(files: readonly { readonly path: string }[]): string[] {
  return files.map((file) => file.path);
}

/** Files with versions. */
export function fileCases({ describe, it }: StoreSuite): void {
  describe("files", () => {
    it("is empty in an empty store", async ({ store }) => {
      equal(await store.files.get("a"), undefined);
      deepEqual(await store.files.list(""), []);
    });

    it("returns a file with its size, version and time", async ({ store, clock }) => {
      const version = await store.files.put("a/b.txt", bytes("hello"));
      const info = { path: "a/b.txt", size: 5, version, modifiedAt: clock.now() };
      deepEqual(await store.files.get("a/b.txt"), { ...info, data: bytes("hello") });
      deepEqual(await store.files.list(""), [info]);
    });

    it("keeps every byte, an empty file and a megabyte", async ({ store }) => {
      const every = Uint8Array.from({ length: 256 }, (_, i) => i);
      const large = Uint8Array.from({ length: 1_000_000 }, (_, i) => (i * 31) % 251);
      for (const [path, data] of Object.entries({ every, large, none: new Uint8Array() })) {
        await store.files.put(path, data);
        const file = await store.files.get(path);
        equal(file?.size, data.byteLength);
        ok(file && Buffer.from(file.data).equals(data));
      }
    });

    it("stores only the visible part of a view", async ({ store }) => {
      const buffer = bytes("0123456789");
      await store.files.put("a", buffer.subarray(2, 5));
      deepEqual((await store.files.get("a"))?.data, bytes("234"));
    });

    it("copies bytes on put and on get", async ({ store }) => {
      const data = Buffer.from("hello");
      await store.files.put("a", data);
      data.fill(0);
      (await store.files.get("a"))?.data.fill(0);
      deepEqual((await store.files.get("a"))?.data, bytes("hello"));
    });

    it("replaces a file and increases its version", async ({ store }) => {
      const first = await store.files.put("a", bytes("one"));
      const second = await store.files.put("a", bytes("two, longer"));
      ok(first > 0);
      ok(second > first);
      assertMatches(await store.files.get("a"), { version: second, size: 11 });
      equal((await store.files.list("")).length, 1);
    });

    it("rejects a put on another version", async ({ store }) => {
      const first = await store.files.put("a", bytes("one"));
      const second = await store.files.put("a", bytes("two"), { ifVersion: first });
      for (const ifVersion of [0, first, second + 1]) {
        await rejects(store.files.put("a", bytes("x"), { ifVersion }), {
          name: "RivuletError",
          code: "conflict",
        });
      }
      assertMatches(await store.files.get("a"), { version: second, data: bytes("two") });
    });

    it("rejects a put with version 0 when the file exists", async ({ store }) => {
      await store.files.put("a", bytes("one"), { ifVersion: 0 });
      await rejects(store.files.put("a", bytes("x"), { ifVersion: 0 }), {
        code: "conflict",
      });
      await rejects(store.files.put("b", bytes("x"), { ifVersion: 1 }), {
        code: "conflict",
      });
      deepEqual(paths(await store.files.list("")), ["a"]);
    });

    it("accepts one of many puts on the same version", async ({ store }) => {
      const ifVersion = await store.files.put("a", bytes("0"));
      const tries = await Promise.allSettled(
        range(1, 20).map((i) => store.files.put("a", bytes(String(i)), { ifVersion })),
      );
      equal(tries.filter((result) => result.status === "fulfilled").length, 1);
    });

    it("loses no concurrent conditional update", async ({ store }) => {
      await store.files.put("count", bytes("0"));
      const increment = async () => {
        for (;;) {
          const file = await store.files.get("count");
          const next = Number(new TextDecoder().decode(file?.data)) + 1;
          const options = { ifVersion: file?.version ?? 0 };
          const done = await store.files.put("count", bytes(String(next)), options).catch(() => 0);
          if (done > 0) return;
        }
      };
      await Promise.all(range(0, 10).map(increment));
      deepEqual((await store.files.get("count"))?.data, bytes("10"));
    });

    it("returns false when it deletes a file that does not exist", async ({ store }) => {
      await store.files.put("a", bytes("one"));
      ok(await store.files.delete("a"));
      equal(await store.files.delete("a"), false);
      equal(await store.files.get("a"), undefined);
      deepEqual(await store.files.list(""), []);
    });

    it("never repeats a version after a delete", async ({ store }) => {
      const first = await store.files.put("a", bytes("one"));
      await store.files.delete("a");
      await rejects(store.files.put("a", bytes("x"), { ifVersion: first }), {
        code: "conflict",
      });
      const again = await store.files.put("a", bytes("one"), { ifVersion: 0 });
      ok(again > first);
    });

    it("lists by prefix in byte order", async ({ store }) => {
      const all = ["a", "a/1", "a/10", "a/2", "a0", "b", "ä", "\uffee", "😀"];
      for (const path of [...all].reverse()) await store.files.put(path, bytes(path));
      deepEqual(paths(await store.files.list("")), all);
      deepEqual(paths(await store.files.list("a")), ["a", "a/1", "a/10", "a/2", "a0"]);
      deepEqual(paths(await store.files.list("a/")), ["a/1", "a/10", "a/2"]);
      deepEqual(paths(await store.files.list("😀")), ["😀"]);
      deepEqual(await store.files.list("c"), []);
    });

    it("takes wildcard characters in a prefix literally", async ({ store }) => {
      const all = ["%", "%a", "*", "A/1", "[a]", "_", "a/1", "aXb"];
      for (const path of all) await store.files.put(path, bytes(path));
      deepEqual(paths(await store.files.list("%")), ["%", "%a"]);
      deepEqual(paths(await store.files.list("_")), ["_"]);
      deepEqual(paths(await store.files.list("*")), ["*"]);
      deepEqual(paths(await store.files.list("a/")), ["a/1"]);
      deepEqual(paths(await store.files.list("a_")), []);
    });

    it("lists page by page", async ({ store }) => {
      const all = range(10, 35).map((i) => `p/${i}`);
      for (const path of ["a", ...all, "z"]) await store.files.put(path, bytes(path));
      const pages: string[] = [];
      for (let after: string | undefined; ; ) {
        const options = { limit: 4, ...(after !== undefined && { after }) };
        const page = await store.files.list("p/", options);
        if (page.length === 0) break;
        pages.push(...paths(page));
        after = pages.at(-1);
      }
      deepEqual(pages, all);
      deepEqual(await store.files.list("p/", { limit: 0 }), []);
    });

    it("lists after a path that does not exist or precedes the prefix", async ({ store }) => {
      for (const path of ["b", "p/1", "p/3", "p/5"]) await store.files.put(path, bytes(path));
      deepEqual(paths(await store.files.list("p/", { after: "p/2" })), ["p/3", "p/5"]);
      equal(paths(await store.files.list("p/", { after: "a" })).length, 3);
      deepEqual(await store.files.list("p/", { after: "z" }), []);
    });

    it("lists current files only", async ({ store }) => {
      await store.files.put("b", bytes("b"));
      deepEqual(paths(await store.files.list("")), ["b"]);
      await store.files.put("a", bytes("a"));
      deepEqual(paths(await store.files.list("")), ["a", "b"]);
      await store.files.delete("b");
      deepEqual(paths(await store.files.list("")), ["a"]);
    });
  });
}
