import { createParser } from "eventsource-parser";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { StreamFrame, TextDelta } from "../../src/protocol/event.ts";
import { taskEventTypes } from "../../src/protocol/grammar/index.ts";
import { encodeComment, encodeRetry, encodeSse } from "../../src/protocol/sse.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { cut, read, readWithOracle, splitsInThree } from "../support/sse-readers.ts";

const utf8 = new TextEncoder();

const dangerous = [
  ...["\n", "\r", "\r\n", "\n\n", "\0", "\u2028", "\u2029", "\u0085", "\uFEFF", "\u007f", "\x1b"],
  ...["\ud800", "\udfff", "\udbff\ud800", "🌦", "é", "晴", '"', "\\", "\\n", "\\u000a", "/", " "],
  ...["\n\ndata:", '\n\ndata: {"type":"task.completed"}\n\n', "\r\rdata: x\r\r", "\nid: 999\n"],
  ...[
    "\nevent: x",
    "\nretry: 0\n",
    "\n: comment",
    "data: ",
    '"}\n\n',
    "a",
    "__proto__",
    "</script>",
  ],
];

/**
 * A key without backslashes. Some versions of V8 misread an escaped key after an object with a backslash in the same
 * place (https://github.com/nodejs/node/issues/63785): JSON.parse then gives another key, whoever reads the stream.
 */
function keyOf(text: string): string {
  return text.replaceAll("\\", "/");
}

describe("a stream in arbitrary chunks", () => {
  const ours =
    encodeRetry(1500) +
    encodeComment("hb 1") +
    encodeSse({ type: "error", code: "é", message: "🌦", retryable: true }) +
    encodeSse({
      type: "task.resumed",
      task_id: "t\n\ndata: 1\ud83c",
      sequence_number: 10,
      task_seq: 2,
      created_at: 3,
      reason: "\r\u2028晴",
    });
  const foreign =
    '\uFEFF: hb\r\nid: 7\r\nevent:a\r\ndata: {"type":\r\ndata:"🌦"}\r\n\r\n\rdata\rid\r\r' +
    'unknown: 1\nretry: 20\nretry: x\ndata: [DONE]\n\n:\nid: 8\n\nid:9\0\ndata: {"type":"é"}\n\nevent: lost\ndata: 1\n';

  it.each([
    ["our own", ours, 2],
    ["a foreign", foreign, 4],
  ])("reads the same from %s stream, split in two and three and byte by byte", (_, text, count) => {
    const bytes = utf8.encode(text);
    const whole = read([bytes]);
    expect(whole.messages).toHaveLength(count);
    expect(readWithOracle([bytes])).toEqual(whole);
    expect(read(cut(bytes, [1]))).toEqual(whole);
    expect(readWithOracle(cut(bytes, [1]))).toEqual(whole);
    const wanted = JSON.stringify(whole);
    for (const chunks of splitsInThree(bytes)) {
      for (const reader of [read, readWithOracle]) {
        if (JSON.stringify(reader(chunks)) === wanted) continue;
        expect(reader(chunks), `cut into ${chunks.map((chunk) => chunk.length)}`).toEqual(whole);
      }
    }
  });

  it("decodes every type of event from any chunks, like another parser", () => {
    const text = fc
      .array(fc.constantFrom(...dangerous), { maxLength: 6 })
      .map((all) => all.join(""));
    const types = [
      ...taskEventTypes,
      "stream.opened",
      "stream.heartbeat",
      "stream.closed",
      "a.new.one",
    ];
    const frame = fc.record(
      {
        type: fc.constantFrom(...types),
        task_id: text,
        sequence_number: fc.nat(),
        created_at: fc.nat(),
        delta: text,
        item: fc.dictionary(
          text.map(keyOf),
          fc.oneof(text, fc.double({ noNaN: true }), fc.constant(null)),
        ),
        source: fc.record({ agentId: text, depth: fc.nat(3), path: text }),
      },
      { requiredKeys: ["type"] },
    );
    const sizes = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 12 }), sizes, (frames, chunkSizes) => {
        const bytes = utf8.encode(frames.map((each) => encodeSse(each as StreamFrame)).join(""));
        const reading = read(cut(bytes, chunkSizes));
        const wanted = frames.map((each) => JSON.stringify(each));
        expect(reading.messages.map((message) => JSON.stringify(message.frame))).toEqual(wanted);
        expect(readWithOracle(cut(bytes, chunkSizes))).toEqual(reading);
      }),
      { numRuns: isDeep ? 50_000 : 400 },
    );
  });

  it("decodes malformed streams like another parser", () => {
    const line = fc.oneof(
      fc.constantFrom("", "", "", "data", "id", "event", "retry", ":", ": hb", "id: 1\0", "data:"),
      fc.constantFrom('data: {"type":"x"}', 'data: {"type":', 'data: "🌦"}', "data: 1", "data:  1"),
      fc.constantFrom("id: 5", "id:é", "event: a", "event:", "retry: 20", "retry: 2x", " data: 1"),
      fc.constantFrom("Data: 1", "datax: 1", "dat", "\0", "\uFEFFdata: 1", "data\u2028: 1", "🌦"),
    );
    const lines = fc.array(fc.tuple(line, fc.constantFrom("\n", "\r", "\r\n")), { maxLength: 30 });
    const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 9 });
    fc.assert(
      fc.property(fc.boolean(), lines, sizes, (mark, parts, chunkSizes) => {
        const bytes = utf8.encode((mark ? "\uFEFF" : "") + parts.flat().join(""));
        const whole = read([bytes]);
        expect(read(cut(bytes, chunkSizes))).toEqual(whole);
        expect(readWithOracle([bytes])).toEqual(whole);
        expect(readWithOracle(cut(bytes, chunkSizes))).toEqual(whole);
      }),
      { numRuns: isDeep ? 500_000 : 3_000 },
    );
  });

  it("never throws for arbitrary bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat(200), (bytes, at) => {
        expect(read([bytes.subarray(0, at), bytes.subarray(at)])).toEqual(read([bytes]));
      }),
      { numRuns: isDeep ? 500_000 : 2_000 },
    );
  });

  it("reads a frame of a million one-byte chunks in linear time", { timeout: 20_000 }, () => {
    const delta = "x".repeat(1_000_000);
    const bytes = utf8.encode(`data: {"type":"task.text.delta","delta":"${delta}"}\n\n`);
    expect(read(cut(bytes, [1])).messages).toEqual([{ frame: { type: "task.text.delta", delta } }]);
  });
});

describe("a payload", () => {
  /** A small generator of numbers below `limit`, the same for the same seed. */
  function randomFrom(seed: number): (limit: number) => number {
    let state = seed | 0;
    return (limit) => {
      state = (state + 0x6d2b79f5) | 0;
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * limit);
    };
  }

  function dangerousText(random: (limit: number) => number, length: number): string {
    const pieces: string[] = [];
    for (let size = 0; size < length; ) {
      const piece =
        random(4) > 0
          ? (dangerous[random(dangerous.length)] ?? "")
          : String.fromCharCode(random(random(2) === 0 ? 0x80 : 0x10000));
      pieces.push(piece);
      size += piece.length;
    }
    return pieces.join("").slice(0, length);
  }

  const envelope = { task_id: "task_r", task_seq: 0, created_at: 1 };
  const item = { ...envelope, item_id: "msg_1", output_index: 0, block_index: 0 };

  /** A frame with the text in one of its fields. */
  function frameWith(text: string, sequence_number: number, field: number): StreamFrame {
    const number = { sequence_number };
    const source = { agentId: "a", depth: 1, path: "s/a" };
    const frames: StreamFrame[] = [
      { type: "task.text.delta", ...item, ...number, delta: text },
      { type: "task.text.delta", ...item, ...number, item_id: text, delta: "" },
      { type: "task.text.delta", ...item, ...number, task_id: text, delta: "" },
      { type: "task.text.done", ...item, ...number, item: { type: "text", text } },
      {
        type: "task.resumed",
        ...envelope,
        ...number,
        source: { ...source, path: text },
        reason: "",
      },
      {
        type: "task.resumed",
        ...envelope,
        ...number,
        source: { ...source, agentId: text },
        reason: "",
      },
      { type: "task.custom", ...envelope, ...number, name: text, value: [{ [keyOf(text)]: text }] },
      { type: "task.tool_call_arguments.done", ...item, ...number, arguments: text },
      { type: "error", code: text, message: text, retryable: false },
    ];
    return frames[field % frames.length] as StreamFrame;
  }

  /** Writes the frames, and says what two readers find in the stream that nobody put there. */
  function forgeries(frames: readonly StreamFrame[], chunkSizes: readonly number[]): string[] {
    const wire = frames.map((frame) => encodeSse(frame));
    const shape = /^(id: \d+\n)?event: [a-z._]+\ndata: [^\r\n]*\n\n$/;
    const bytes = utf8.encode(wire.join(""));
    const readings = [read(cut(bytes, chunkSizes)), readWithOracle(cut(bytes, chunkSizes))];
    const wanted = frames.map((frame) => {
      const { sequence_number: number } = frame as { sequence_number?: number };
      const id = number === undefined ? {} : { id: `${number}` };
      return JSON.stringify({ ...id, event: frame.type, frame });
    });
    return [
      ...wire.filter((text) => !shape.test(text)),
      ...readings.flatMap(({ messages, comments, retry }) => {
        const found = messages.map((message) => JSON.stringify(message));
        const wrong = found.filter((message, i) => message !== wanted[i]);
        const odd = [found.length - wanted.length, comments, retry ?? 0].some((n) => n !== 0);
        return odd ? [...wrong, `${found.length} messages, ${comments} comments`] : wrong;
      }),
    ];
  }

  // fast-check picks and reports the seed; the strings themselves are made here, which is much faster.
  const seed = fc.noShrink(fc.integer());

  it("forges no frame from fuzzed strings", () => {
    fc.assert(
      fc.property(seed, (value) => {
        const random = randomFrom(value);
        const frames = Array.from({ length: 1_000 }, (_, i) =>
          frameWith(dangerousText(random, random(60)), i, random(1_000)),
        );
        const sizes = [1 + random(10), 1 + random(100), 1 + random(5_000)];
        expect(forgeries(frames, sizes)).toEqual([]);
      }),
      { numRuns: isDeep ? 10_000 : 30, endOnFailure: true },
    );
  });

  it("forges no frame from strings of 1 MB", () => {
    fc.assert(
      fc.property(seed, (value) => {
        const random = randomFrom(value);
        const text = dangerousText(random, 1_000_000);
        // One field that holds the text once, so that its escaped form stays below the decoder's limit.
        const frames = [frameWith(text, 0, random(6)), frameWith("", 1, 0)];
        expect(forgeries(frames, [1_000 + random(1 << 16)]).length).toBe(0);
      }),
      { numRuns: isDeep ? 500 : 15, endOnFailure: true },
    );
  });

  it("is decoded unchanged, with lone surrogates and separators", () => {
    const everyUnit = Array.from({ length: 0x10000 }, (_, unit) => String.fromCharCode(unit)).join(
      "",
    );
    const reversed = [...everyUnit].reverse().join("");
    for (const delta of [everyUnit, reversed, "\u2028\u2029\ud800", "\udfff\ud800"]) {
      const bytes = utf8.encode(
        encodeSse({ type: "task.text.delta", ...item, sequence_number: 0, delta }),
      );
      const deltas = read([bytes]).messages.map((message) => (message.frame as TextDelta).delta);
      expect(deltas.length === 1 && deltas[0] === delta).toBe(true);
    }
  });

  // The last test: it only reads the text, but makes objects with the keys that `keyOf` avoids.
  it("is decoded unchanged with any string as a key", () => {
    for (const key of dangerous.flatMap((first) => dangerous.map((second) => first + second))) {
      const value = { [key]: key };
      const frame: StreamFrame = {
        type: "task.custom",
        ...envelope,
        sequence_number: 0,
        name: "",
        value,
      };
      const received: string[] = [];
      const parser = createParser({ onEvent: ({ data }) => received.push(data) });
      parser.feed(new TextDecoder().decode(utf8.encode(encodeSse(frame))));
      expect(received).toEqual([JSON.stringify(frame)]);
    }
  });
});
