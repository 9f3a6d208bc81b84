import { describe, expect } from "vitest";
import type { ContractTest } from "./fixture.ts";
import { range } from "./samples.ts";

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function paths(files: readonly { readonly path: string }[]): string[] {
  return files.map((file) => file.path);
}

/** Versioned blobs. */
export function fileCases(it: ContractTest): void {
  describe("files", () => {
    it("are none at first", async ({ store }) => {
      expect(await store.files.get("a")).toBeUndefined();
      expect(await store.files.list("")).toEqual([]);
    });

    it("come back as they went in", async ({ store, clock }) => {
      const version = await store.files.put("a/b.txt", bytes("hello"));
      const info = { path: "a/b.txt", size: 5, version, modifiedAt: clock.now() };
      expect(await store.files.get("a/b.txt")).toEqual({ ...info, data: bytes("hello") });
      expect(await store.files.list("")).toEqual([info]);
    });

    it("keep every byte, none and a megabyte of them", async ({ store }) => {
      const every = Uint8Array.from({ length: 256 }, (_, i) => i);
      const large = Uint8Array.from({ length: 1_000_000 }, (_, i) => (i * 31) % 251);
      for (const [path, data] of Object.entries({ every, large, none: new Uint8Array() })) {
        await store.files.put(path, data);
        const file = await store.files.get(path);
        expect(file?.size).toBe(data.byteLength);
        expect(file && Buffer.from(file.data).equals(data)).toBe(true);
      }
    });

    it("keep the part that a view shows, not the buffer behind it", async ({ store }) => {
      const buffer = bytes("0123456789");
      await store.files.put("a", buffer.subarray(2, 5));
      expect((await store.files.get("a"))?.data).toEqual(bytes("234"));
    });

    it("do not change with the bytes that went in and came out", async ({ store }) => {
      const data = Buffer.from("hello");
      await store.files.put("a", data);
      data.fill(0);
      (await store.files.get("a"))?.data.fill(0);
      expect((await store.files.get("a"))?.data).toEqual(bytes("hello"));
    });

    it("are replaced by the next put, with a higher version", async ({ store }) => {
      const first = await store.files.put("a", bytes("one"));
      const second = await store.files.put("a", bytes("two, longer"));
      expect(first).toBeGreaterThan(0);
      expect(second).toBeGreaterThan(first);
      expect(await store.files.get("a")).toMatchObject({ version: second, size: 11 });
      expect(await store.files.list("")).toHaveLength(1);
    });

    it("are written only on the version that was asked for", async ({ store }) => {
      const first = await store.files.put("a", bytes("one"));
      const second = await store.files.put("a", bytes("two"), { ifVersion: first });
      for (const ifVersion of [0, first, second + 1]) {
        await expect(store.files.put("a", bytes("x"), { ifVersion })).rejects.toMatchObject({
          name: "RivuletError",
          code: "conflict",
        });
      }
      expect(await store.files.get("a")).toMatchObject({ version: second, data: bytes("two") });
    });

    it("are created only if absent with version 0", async ({ store }) => {
      await store.files.put("a", bytes("one"), { ifVersion: 0 });
      await expect(store.files.put("a", bytes("x"), { ifVersion: 0 })).rejects.toMatchObject({
        code: "conflict",
      });
      await expect(store.files.put("b", bytes("x"), { ifVersion: 1 })).rejects.toMatchObject({
        code: "conflict",
      });
      expect(paths(await store.files.list(""))).toEqual(["a"]);
    });

    it("have one winner of many that write on the same version", async ({ store }) => {
      const ifVersion = await store.files.put("a", bytes("0"));
      const tries = await Promise.allSettled(
        range(1, 20).map((i) => store.files.put("a", bytes(String(i)), { ifVersion })),
      );
      expect(tries.filter((result) => result.status === "fulfilled")).toHaveLength(1);
    });

    it("lose no update of many that read, change and write on condition", async ({ store }) => {
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
      expect((await store.files.get("count"))?.data).toEqual(bytes("10"));
    });

    it("are deleted once", async ({ store }) => {
      await store.files.put("a", bytes("one"));
      expect(await store.files.delete("a")).toBe(true);
      expect(await store.files.delete("a")).toBe(false);
      expect(await store.files.get("a")).toBeUndefined();
      expect(await store.files.list("")).toEqual([]);
    });

    it("never have the same version again after they were deleted", async ({ store }) => {
      const first = await store.files.put("a", bytes("one"));
      await store.files.delete("a");
      await expect(store.files.put("a", bytes("x"), { ifVersion: first })).rejects.toMatchObject({
        code: "conflict",
      });
      const again = await store.files.put("a", bytes("one"), { ifVersion: 0 });
      expect(again).toBeGreaterThan(first);
    });

    it("are listed by prefix, in the order of their bytes", async ({ store }) => {
      const all = ["a", "a/1", "a/10", "a/2", "a0", "b", "ä", "\uffee", "😀"];
      for (const path of [...all].reverse()) await store.files.put(path, bytes(path));
      expect(paths(await store.files.list(""))).toEqual(all);
      expect(paths(await store.files.list("a"))).toEqual(["a", "a/1", "a/10", "a/2", "a0"]);
      expect(paths(await store.files.list("a/"))).toEqual(["a/1", "a/10", "a/2"]);
      expect(paths(await store.files.list("😀"))).toEqual(["😀"]);
      expect(await store.files.list("c")).toEqual([]);
    });

    it("take a prefix by the letter", async ({ store }) => {
      const all = ["%", "%a", "*", "A/1", "[a]", "_", "a/1", "aXb"];
      for (const path of all) await store.files.put(path, bytes(path));
      expect(paths(await store.files.list("%"))).toEqual(["%", "%a"]);
      expect(paths(await store.files.list("_"))).toEqual(["_"]);
      expect(paths(await store.files.list("*"))).toEqual(["*"]);
      expect(paths(await store.files.list("a/"))).toEqual(["a/1"]);
      expect(paths(await store.files.list("a_"))).toEqual([]);
    });

    it("are listed page by page", async ({ store }) => {
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
      expect(pages).toEqual(all);
      expect(await store.files.list("p/", { limit: 0 })).toEqual([]);
    });

    it("are listed after a path that is not there, or before the prefix", async ({ store }) => {
      for (const path of ["b", "p/1", "p/3", "p/5"]) await store.files.put(path, bytes(path));
      expect(paths(await store.files.list("p/", { after: "p/2" }))).toEqual(["p/3", "p/5"]);
      expect(paths(await store.files.list("p/", { after: "a" }))).toHaveLength(3);
      expect(await store.files.list("p/", { after: "z" })).toEqual([]);
    });

    it("are listed as they are now", async ({ store }) => {
      await store.files.put("b", bytes("b"));
      expect(paths(await store.files.list(""))).toEqual(["b"]);
      await store.files.put("a", bytes("a"));
      expect(paths(await store.files.list(""))).toEqual(["a", "b"]);
      await store.files.delete("b");
      expect(paths(await store.files.list(""))).toEqual(["a"]);
    });
  });
}
