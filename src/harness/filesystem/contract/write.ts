import { describe, expect } from "vitest";
import { type ContractTest, refusal, textOf } from "./fixture.ts";

/** Whole files: written, read, compared and removed. */
export function writeCases(it: ContractTest): void {
  describe("a file", () => {
    it("comes back as it was written", async ({ files }) => {
      const written = await files.write("notes.md", "hello");
      expect(written).toEqual({ path: "notes.md", version: expect.any(String), created: true });
      const { data, ...rest } = await files.read("notes.md");
      expect(rest).toEqual({ path: "notes.md", version: written.version });
      expect(new TextDecoder().decode(data)).toBe("hello");
    });

    it("keeps every byte, none of them and a million", async ({ files }) => {
      const every = Uint8Array.from({ length: 256 }, (_, i) => i);
      const large = Uint8Array.from({ length: 1_000_000 }, (_, i) => (i * 31) % 251);
      for (const [path, bytes] of Object.entries({ every, large, none: new Uint8Array() })) {
        await files.write(path, bytes);
        expect(Buffer.from((await files.read(path)).data).equals(bytes), path).toBe(true);
      }
    });

    it("keeps its text whatever it is", async ({ files }) => {
      const text = "\ufeffé e\u0301 😀 \u2028 \0 \r\n";
      await files.write("text", text);
      expect(await textOf(files, "text")).toBe(text);
    });

    it("may have any usual name", async ({ files }) => {
      const names = [
        ".env",
        "a b.txt",
        "été.md",
        "日本：語.md",
        "a%b",
        "[x]{y}",
        "-rf",
        "$HOME",
        "..a",
      ];
      for (const name of names) await files.write(`dir/${name}`, name);
      for (const name of names) expect(await textOf(files, `dir/${name}`)).toBe(name);
      expect((await files.list("dir")).entries).toHaveLength(names.length);
    });

    it("gets the directories above it", async ({ files }) => {
      await files.write("a/b/c/d.txt", "deep");
      expect(await textOf(files, "./a//b/../b/c/d.txt")).toBe("deep");
    });

    it("is replaced as a whole, and its version changes with it", async ({ files }) => {
      const first = await files.write("a", "a longer text");
      const second = await files.write("a", "short");
      expect(second.created).toBe(false);
      expect(second.version).not.toBe(first.version);
      expect(await textOf(files, "a")).toBe("short");
    });

    it("is not there before it is written and after it is removed", async ({ files }) => {
      expect(await refusal(files.read("a"))).toBe("not_found");
      expect(await refusal(files.remove("a"))).toBe("not_found");
      await files.write("a", "1");
      await files.remove("a");
      expect(await files.stat("a")).toBeUndefined();
      expect(await refusal(files.read("dir/a"))).toBe("not_found");
    });

    it("cannot be where a directory is, nor below a file", async ({ files }) => {
      await files.write("dir/file", "1");
      expect(await refusal(files.write("dir", "x"))).toBe("not_a_file");
      expect(await refusal(files.read("dir"))).toBe("not_a_file");
      expect(await refusal(files.remove("dir"))).toBe("not_a_file");
      expect(await refusal(files.read(""))).toBe("not_a_file");
      expect(await refusal(files.write("", "x"))).toBe("not_a_file");
      expect(await refusal(files.write("dir/file/below", "x"))).toBe("not_a_directory");
      expect(await textOf(files, "dir/file")).toBe("1");
    });
  });

  describe("a write on condition", () => {
    it("happens on the version that was read", async ({ files }) => {
      const { version } = await files.write("a", "one");
      expect((await files.read("a")).version).toBe(version);
      const next = await files.write("a", "two", { ifVersion: version });
      expect(next.created).toBe(false);
      expect(await textOf(files, "a")).toBe("two");
    });

    it("is refused on any other, and changes nothing", async ({ files, second }) => {
      const { version } = await files.write("a", "one");
      await second.write("a", "two");
      for (const ifVersion of [version, null, "", "0", "nonsense", "NaN"]) {
        expect(await refusal(files.write("a", "three", { ifVersion }))).toBe("conflict");
      }
      expect(await textOf(files, "a")).toBe("two");
      expect((await files.list("")).entries).toHaveLength(1);
    });

    it("creates only what is not there", async ({ files }) => {
      await files.write("a", "one", { ifVersion: null });
      expect(await refusal(files.write("a", "two", { ifVersion: null }))).toBe("conflict");
      const { version } = await files.read("a");
      await files.remove("a");
      expect(await refusal(files.write("a", "two", { ifVersion: version }))).toBe("conflict");
      expect(await files.stat("a")).toBeUndefined();
    });

    it("has one winner among many", async ({ files, second }) => {
      const { version: ifVersion } = await files.write("a", "start");
      const tries = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          refusal((i % 2 ? files : second).write("a", `writer ${i}`, { ifVersion })),
        ),
      );
      expect(tries.filter((code) => code === "nothing")).toHaveLength(1);
      expect(tries.filter((code) => code === "conflict")).toHaveLength(19);
    });

    it("loses no update of many that read, change and write", async ({ files, second }) => {
      await files.write("count", "0");
      const increment = async (_: unknown, index: number) => {
        const mine = index % 2 ? files : second;
        for (;;) {
          const { data, version } = await mine.read("count");
          const next = String(Number(new TextDecoder().decode(data)) + 1);
          const code = await refusal(mine.write("count", next, { ifVersion: version }));
          if (code === "nothing") return;
          expect(code).toBe("conflict");
        }
      };
      await Promise.all(Array.from({ length: 10 }, increment));
      expect(await textOf(files, "count")).toBe("10");
    });
  });

  describe("a reader", () => {
    it("sees a whole file while it is replaced", async ({ files, second }) => {
      const texts = ["a".repeat(200_000), "b".repeat(100_000)];
      await files.write("a", texts[0] as string);
      let isDone = false;
      const writing = (async () => {
        for (let i = 0; i < 20; i++) await files.write("a", texts[i % 2] as string);
        isDone = true;
      })();
      while (!isDone) expect(texts).toContain(await textOf(second, "a"));
      await writing;
    });
  });

  describe("a large file", () => {
    const limited = it.extend({ options: { limits: { fileBytes: 100 } } });

    limited("may be as large as the limit, and not larger", async ({ files }) => {
      for (const size of [99, 100]) {
        await files.write("a", "x".repeat(size));
        expect((await files.read("a")).data).toHaveLength(size);
      }
      expect(await refusal(files.write("a", "x".repeat(101)))).toBe("too_large");
      expect(await refusal(files.write("a", "é".repeat(51)))).toBe("too_large");
      expect((await files.read("a")).data).toHaveLength(100);
    });
  });
}
