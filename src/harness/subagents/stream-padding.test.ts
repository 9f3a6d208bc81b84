import { expect, it } from "vitest";
import { StreamPadding } from "./stream-padding.ts";

const chunkBytes = 65_536;
const mebibyte = 1024 * 1024;

/** Counts text in chunks until a stream has too much padding or `most` bytes; returns how many bytes it took. */
function bytesTaken(text: string, most: number, msPerChunk = 0): number {
  let now = 0;
  const padding = new StreamPadding(() => now);
  const chunk = Buffer.from(text.repeat(Math.ceil(chunkBytes / text.length)));
  let taken = 0;
  while (taken < most) {
    now += msPerChunk;
    taken += chunk.length;
    try {
      padding.count(chunk);
    } catch (error) {
      expect(error).toMatchObject({ code: "disconnected", retryable: true });
      expect((error as { hint?: string }).hint).toContain("Check");
      return taken;
    }
  }
  return taken;
}

it.each([
  ["line feeds", "\n"],
  ["carriage returns", "\r"],
  ["comments", ": still here\r\n\r\n"],
  ["comments that speak of data", ": data: x\n"],
  ["ids", "id: 1\n\n"],
  ["fields that nobody knows", "dato: x\n"],
])("refuses a stream of %s after 1 MiB", (_, text) => {
  expect(bytesTaken(text, 4 * mebibyte)).toBeLessThanOrEqual(mebibyte + 2 * chunkBytes);
});

it("refuses padding before each event", () => {
  const text = `${"\n".repeat(60_000)}data: {}\n\n`;
  expect(bytesTaken(text, 4 * mebibyte)).toBeLessThanOrEqual(mebibyte + 2 * chunkBytes);
});

it("accepts any number of events, with ids and names, and the comments of one", () => {
  const text = 'id: 123456789\nevent: task.text.delta\ndata: {"type":"x"}\n\n: next\n\n';
  expect(bytesTaken(text, 32 * mebibyte)).toBeGreaterThanOrEqual(32 * mebibyte);
});

it("accepts a year of keep-alive comments, and one each millisecond", () => {
  let now = 0;
  const padding = new StreamPadding(() => now);
  const comment = Buffer.from(": hb 1767225600000\n\n");
  for (const everyMs of [15_000, 1]) {
    for (let n = 0; n < 2_000_000; n++) {
      now += everyMs;
      padding.count(comment);
    }
  }
});

it("counts a line across chunks, and no byte of a line of data", () => {
  const padding = new StreamPadding(() => 0);
  const count = (text: string) => padding.count(Buffer.from(text));
  for (const piece of ["da", "ta", ": "]) count(piece);
  for (let n = 0; n < 64; n++) count("x".repeat(chunkBytes));
  count("\n\n:");
  for (let n = 0; n < 17; n++) count("x".repeat(chunkBytes)); // a reader of events limits the length of a line
  expect(() => count("\n")).toThrow("more than 1048576 bytes of comments and blank lines");
});
