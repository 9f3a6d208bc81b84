import { expect, it } from "vitest";
import { RivuletError } from "../base/error.ts";
import { ManualClock } from "../testing/clock.ts";
import type { FileStat, Filesystem } from "./filesystem/filesystem.ts";
import { FileCache } from "./workspace.ts";

/** A filesystem with one file that counts reads. */
function fileWith(text: string, modifiedAt: number) {
  const file = { text, modifiedAt, isThere: true, reads: 0 };
  const files = {
    async stat(path: string): Promise<FileStat | undefined> {
      const { text, modifiedAt } = file;
      return { path, type: "file", size: text.length, modifiedAt };
    },
    async read(path: string) {
      if (!file.isThere) throw new RivuletError("not_found", "Gone.");
      file.reads += 1;
      return { path, data: Buffer.from(file.text), version: "" };
    },
  } as unknown as Filesystem;
  return { file, files };
}

const now = 1_000_000;
const cacheOf = (clock = new ManualClock(now)) =>
  new FileCache(clock, ({ data }) => Buffer.from(data).toString());

it("reads a file again only when it has changed", async () => {
  const { file, files } = fileWith("one", now - 10_000);
  const cache = cacheOf();
  const view = { key: "", files };
  expect(await cache.get(view, "a")).toBe("one");
  expect(await cache.get(view, "a")).toBe("one");
  expect(file.reads).toBe(1);
  file.text = "two";
  file.modifiedAt = now - 5_000;
  expect(await cache.get(view, "a")).toBe("two");
  expect(file.reads).toBe(2);
  expect(await cache.get({ key: "other", files }, "a")).toBe("two");
  expect(file.reads).toBe(3);
});

it.each([
  ["was written just now", now - 1_000],
  ["has a date in the future", now + 60_000],
  ["has no date", 0],
])("does not cache a file that %s", async (_, modifiedAt) => {
  const { file, files } = fileWith("one", modifiedAt);
  const cache = cacheOf();
  await cache.get({ key: "", files }, "a");
  file.text = "two";
  expect(await cache.get({ key: "", files }, "a")).toBe("two");
});

it("returns undefined for a file that is removed after the stat", async () => {
  const { file, files } = fileWith("one", now - 10_000);
  file.isThere = false;
  expect(await cacheOf().get({ key: "", files }, "a")).toBeUndefined();
});

it("drops the oldest of more than 500 entries", async () => {
  const { file, files } = fileWith("one", now - 10_000);
  const cache = cacheOf();
  for (let n = 0; n <= 500; n++) await cache.get({ key: `${n}`, files }, "a");
  await cache.get({ key: "500", files }, "a");
  expect(file.reads).toBe(501);
  await cache.get({ key: "0", files }, "a");
  expect(file.reads).toBe(502);
});
