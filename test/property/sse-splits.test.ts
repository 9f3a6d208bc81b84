import { readFileSync } from "node:fs";
import { createParser } from "eventsource-parser";
import { describe, expect, it } from "vitest";
import type { StreamFrame } from "../../src/protocol/event.ts";
import { taskEventTypes } from "../../src/protocol/grammar/index.ts";
import { encodeComment, encodeRetry, encodeSse, SseDecoder } from "../../src/protocol/sse.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { seededRandom } from "../support/random.ts";
import { seed } from "../support/seed.ts";

const utf8 = new TextEncoder();
/** The distance between two ends of a middle chunk. */
const stride = isDeep ? 1 : 4;

const files = [
  "test/corpus/canonical.jsonl",
  "test/corpus/canonical.frames.jsonl",
  "docs/protocol/examples.jsonl",
];
const frames = files.flatMap((name) => {
  const lines = readFileSync(new URL(`../../${name}`, import.meta.url), "utf8").trimEnd();
  return lines.split("\n").map((line): StreamFrame => JSON.parse(line));
});
/** The shortest frame of each type. */
const ofEachType = [
  ...new Map(
    frames
      .toSorted((a, b) => encodeSse(b).length - encodeSse(a).length)
      .map((frame) => [frame.type, frame]),
  ).values(),
];

/** A stream, and what every reader must find in it. */
interface Written {
  readonly bytes: Uint8Array;
  readonly wanted: string;
}

function write(stream: readonly StreamFrame[], between = ""): Written {
  return {
    bytes: utf8.encode(stream.map((frame) => encodeSse(frame) + between).join("")),
    wanted: stream
      .map((frame) => {
        const { sequence_number: id } = frame as { sequence_number?: number };
        return `${id} ${frame.type} ${JSON.stringify(frame)}`;
      })
      .join("\n"),
  };
}

/**
 * Reads a stream that is cut at two places with our decoder and with another one, again and again with the same two:
 * what one reading leaves behind would show in the next.
 */
function cutter({ bytes, wanted }: Written): (first: number, second: number) => void {
  const ours = new SseDecoder();
  const text = new TextDecoder();
  const found: string[] = [];
  const other = createParser({
    onEvent: ({ id, event, data }) => found.push(`${id} ${event} ${data}`),
  });
  return (first, second) => {
    const pieces = [
      bytes.subarray(0, first),
      bytes.subarray(first, second),
      bytes.subarray(second),
    ];
    const read: string[] = [];
    found.length = 0;
    for (const piece of pieces) {
      for (const { id, event, frame } of ours.push(piece)) {
        read.push(`${id} ${event} ${JSON.stringify(frame)}`);
      }
      other.feed(text.decode(piece, { stream: true }));
    }
    const readings = [read.join("\n"), found.join("\n")];
    if (readings.every((reading) => reading === wanted)) return;
    const place = `cut after ${first} and ${second} of ${bytes.length} bytes; RIVULET_SEED=${seed}`;
    expect(readings, place).toEqual([wanted, wanted]);
  };
}

describe("a stream split into two or three chunks", () => {
  it("covers every type of frame", () => {
    const control = ["stream.opened", "stream.heartbeat", "stream.closed"];
    expect(ofEachType.map(({ type }) => type).sort()).toEqual(
      [...taskEventTypes, ...control].sort(),
    );
    expect(ofEachType).toHaveLength(42);
  });

  it.each(isDeep ? frames : ofEachType)("decodes $type from two and three chunks", (frame) => {
    const written = write([frame]);
    const { length } = written.bytes;
    const check = cutter(written);
    for (let first = 0; first <= length; first++) {
      for (let second = first; second <= length; second += stride) check(first, second);
    }
  });

  const all = write(ofEachType, encodeComment("🌦") + encodeRetry(1500));
  const { length } = all.bytes;

  it("decodes all types from two chunks", () => {
    const check = cutter(all);
    for (let first = 0; first <= length; first++) check(first, length);
  });

  it("decodes all types from three chunks", () => {
    const random = seededRandom(seed);
    const check = cutter(all);
    for (let run = 0; run < (isDeep ? 1_000_000 : 1_000); run++) {
      const first = random.int(0, length);
      check(first, random.int(first, length));
    }
  });
});
