import { describe, expect, it } from "vitest";
import { RivuletError } from "../base/error.ts";
import type { StreamFrame, TaskCreated, TaskSnapshot, TextDelta } from "./event.ts";
import type { Source } from "./source.ts";
import { decodeSse, encodeComment, encodeRetry, encodeSse, SseDecoder } from "./sse.ts";

const delta: TextDelta = {
  type: "task.text.delta",
  task_id: "task_r",
  sequence_number: 44,
  task_seq: 19,
  created_at: 1763236803210,
  item_id: "msg_r1",
  output_index: 3,
  block_index: 0,
  delta: "The weather in P",
};
const snapshot: TaskSnapshot = {
  type: "task.snapshot",
  task_id: "task_r",
  through_sequence_number: 61,
  through_task_seq: 31,
  created_at: 1763236804000,
  task: { id: "task_r", object: "task", status: "in_progress", output: [] },
};
const source: Source = {
  agentKey: "agent:WeatherAgent:550e8400",
  agentId: "WeatherAgent",
  agentName: "WeatherAgent",
  sessionId: "sub-a1b2",
  parentSessionId: "sess-main-001",
  depth: 1,
  path: "sess-main-001/WeatherAgent",
  taskId: "call_r1",
};
const created: TaskCreated = {
  type: "task.created",
  task_id: "call_r1",
  sequence_number: 15,
  task_seq: 0,
  created_at: 1763236801000,
  source,
  task: { id: "call_r1", object: "task", status: "queued" },
};

/** A value that the types do not allow, as a careless or hostile caller may pass it. */
function untyped(value: unknown): StreamFrame {
  return value as StreamFrame;
}

function codeOf(act: () => unknown): string | undefined {
  try {
    act();
  } catch (error) {
    return error instanceof RivuletError ? error.code : `not typed: ${error}`;
  }
  return undefined;
}

describe("encodeSse", () => {
  it("writes an event of a log with its number, its type and one line of data", () => {
    expect(encodeSse(delta)).toBe(
      'id: 44\nevent: task.text.delta\ndata: {"type":"task.text.delta","task_id":"task_r",' +
        '"sequence_number":44,"task_seq":19,"created_at":1763236803210,"item_id":"msg_r1",' +
        '"output_index":3,"block_index":0,"delta":"The weather in P"}\n\n',
    );
    expect(encodeSse({ ...delta, sequence_number: 0 })).toMatch(/^id: 0\n/);
  });

  it("leaves out the event name with `eventNames: false`", () => {
    expect(encodeSse(delta, { eventNames: false })).toMatch(/^id: 44\ndata: \{.*\}\n\n$/);
  });

  it("writes no id for control frames and errors, and the given id for a snapshot", () => {
    const control: StreamFrame = {
      type: "stream.closed",
      reason: "terminal",
      final: true,
      last_sequence_number: 50,
    };
    const error: StreamFrame = { type: "error", code: "x", message: "y", retryable: true };
    for (const frame of [control, error]) {
      expect(encodeSse(frame, { id: 7 })).toMatch(/^event: /);
      expect(encodeSse(untyped({ ...frame, sequence_number: 7 }))).toMatch(/^event: /);
    }
    expect(encodeSse(snapshot)).toMatch(/^event: task.snapshot\n/);
    expect(encodeSse(snapshot, { id: 61 })).toMatch(/^id: 61\nevent: task.snapshot\n/);
    expect(encodeSse(delta, { id: 7 })).toMatch(/^id: 44\n/);
  });

  it("sends the complete source on task.created and a short one on other events", () => {
    expect(decodeSse(encodeSse(created))).toEqual([created]);
    const short = { agentId: "WeatherAgent", depth: 1, path: "sess-main-001/WeatherAgent" };
    const child = { ...delta, task_id: "call_r1", source };
    expect(decodeSse(encodeSse(child))).toEqual([{ ...child, source: short }]);
    expect(decodeSse(encodeSse({ ...snapshot, source }))).toEqual([{ ...snapshot, source }]);
    expect(child.source).toBe(source);
  });

  it("keeps a delta within the protocol's 320 bytes around its text and its source", () => {
    const long = "x".repeat(32);
    const ulid = (prefix: string) => `${prefix}_01JCS4B3VJ8Q4M0N5T6W7X8Y9Z`;
    const child: TextDelta = {
      ...delta,
      task_id: ulid("call"),
      item_id: ulid("msg"),
      sequence_number: 9_999_999,
      task_seq: 9_999_999,
      output_index: 9_999,
      block_index: 9_999,
      source: { ...source, agentId: long, path: `${long}/${long}` },
    };
    const shortSource = JSON.stringify({ agentId: long, depth: 1, path: `${long}/${long}` });
    expect(shortSource.length - 3 * long.length - 1).toBeLessThanOrEqual(64);
    const around = encodeSse(child).length - JSON.stringify(child.delta).length;
    expect(around - shortSource.length).toBeLessThanOrEqual(320);
  });

  it("refuses type names with line breaks and values that are not JSON", () => {
    const cyclic: Record<string, unknown> = {};
    cyclic.self = cyclic;
    const bad = [
      { ...delta, type: "x\ndata: {}" },
      { ...delta, type: "x\r" },
      { ...delta, type: "x\n" },
      { ...delta, type: "" },
      { ...delta, type: " x" },
      { ...delta, type: "x\0" },
      { ...delta, type: "\u2028" },
      { ...delta, type: 1 },
      { task_id: "task_r" },
      { ...delta, sequence_number: "1\ndata: {}" },
      { ...delta, sequence_number: -1 },
      { ...delta, sequence_number: 1.5 },
      { ...delta, sequence_number: Number.NaN },
      { ...delta, value: 1n },
      { ...delta, value: cyclic },
      { ...delta, toJSON: () => undefined },
      { ...delta, toJSON: () => "text" },
      Object.assign([], delta),
      ...[null, undefined, "task.text.delta", 1],
    ];
    for (const frame of bad) expect(codeOf(() => encodeSse(untyped(frame)))).toBe("invalid_event");
    expect(codeOf(() => encodeSse(snapshot, { id: -1 }))).toBe("invalid_event");
  });
});

describe("encodeComment and encodeRetry", () => {
  it("open a stream as in the protocol", () => {
    expect(encodeRetry(1500) + encodeComment("stream-open")).toBe("retry: 1500\n: stream-open\n\n");
    expect(encodeComment("hb 1763236815000")).toBe(": hb 1763236815000\n\n");
  });

  it("cannot forge a frame", () => {
    const decoder = new SseDecoder();
    const forged = encodeComment('a\n\ndata: {"type":"x"}\r\rid: 1\r\n\r\nretry: 1\n');
    expect(decoder.push(forged)).toEqual([]);
    expect(decoder).toMatchObject({ lastEventId: "", retry: undefined, comments: 1 });
    for (const ms of [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(codeOf(() => encodeRetry(ms))).toBe("invalid_event");
    }
  });
});

describe("SseDecoder", () => {
  const frame = { type: "x" };

  it("returns frames with id and name, and keeps the last id, retry and comments", () => {
    const decoder = new SseDecoder();
    const stream =
      encodeRetry(1500) +
      encodeComment("stream-open") +
      encodeSse(delta) +
      encodeSse(snapshot) +
      encodeComment("hb 1");
    expect(decoder.push(stream)).toEqual([
      { id: "44", event: "task.text.delta", frame: delta },
      { event: "task.snapshot", frame: snapshot },
    ]);
    expect(decoder).toMatchObject({ lastEventId: "44", retry: 1500, comments: 2 });
  });

  it.each([
    ["LF", 'data: {"type":"x"}\n\n'],
    ["CR", 'data: {"type":"x"}\r\r'],
    ["CRLF", 'data: {"type":"x"}\r\n\r\n'],
    ["mixed line ends", 'id: 1\rdata: {"type":"x"}\n\r\n'],
    ["a byte order mark", '\uFEFFdata: {"type":"x"}\n\n'],
    ["no space", 'data:{"type":"x"}\n\n'],
    ["several lines of data", 'data: {"type":\ndata:\ndata: "x"}\n\n'],
    ["unknown fields and comments", 'foo: 1\nbar\n:\n: data: {}\ndata: {"type":"x"}\n Data: 1\n\n'],
    ["blank lines", '\n\n\ndata: {"type":"x"}\n\n\n\n'],
  ])("reads %s", (_, stream) => {
    expect(decodeSse(stream)).toEqual([frame]);
    expect(decodeSse(new TextEncoder().encode(stream))).toEqual([frame]);
    const decoder = new SseDecoder();
    const messages = [...stream].flatMap((character) => decoder.push(character));
    expect(messages.map((message) => message.frame)).toEqual([frame]);
  });

  it("returns a frame with the carriage return that completes it", () => {
    const decoder = new SseDecoder();
    expect(decoder.push('data: {"type":"x"}\r\r')).toEqual([{ frame }]);
    expect(decoder.push('\ndata: {"type":"x"}\r\n\r')).toEqual([{ frame }]);
    expect(decoder.push("\n")).toEqual([]);
  });

  it("accepts an id at the blank line, and ignores an id with NUL", () => {
    const decoder = new SseDecoder();
    decoder.push("id: 5\n");
    expect(decoder.lastEventId).toBe("");
    decoder.push("\n");
    expect(decoder.lastEventId).toBe("5");
    decoder.push('id: 6\0\ndata: {"type":"x"}\n\n');
    expect(decoder.lastEventId).toBe("5");
  });

  it("accepts only digits as retry", () => {
    const decoder = new SseDecoder();
    decoder.push(`retry: 20\nretry: -1\nretry: 1e3\nretry:\nretry: ${"9".repeat(400)}\n`);
    expect(decoder.retry).toBe(20);
  });

  it("reports a malformed frame in order and continues", () => {
    const stream = [
      "id: 1\nevent: a\ndata: {\n\n",
      "id: 2\ndata: [DONE]\n\n",
      "data:\n\n",
      'id: 3\ndata: "text"\n\n',
      "data: null\n\n",
      "data: []\n\n",
      'data: {"type":1}\n\n',
      encodeSse(delta),
    ].join("");
    const decoder = new SseDecoder();
    const messages = decoder.push(stream);
    expect(messages.map((message) => message.error?.code)).toEqual([
      ...["invalid_json", "invalid_json", "invalid_json"],
      ...["invalid_event", "invalid_event", "invalid_event", "invalid_event"],
      undefined,
    ]);
    expect(messages[0]).toMatchObject({ id: "1", event: "a", error: { retryable: false } });
    expect(messages[0]?.error?.hint).toMatch(/JSON/);
    expect(messages[7]?.frame).toEqual(delta);
    expect(() => decodeSse(stream)).toThrow(messages[0]?.error?.message);
  });

  it("does not change a prototype", () => {
    const [decoded] = decodeSse('data: {"type":"x","__proto__":{"polluted":true}}\n\n');
    expect(Object.getPrototypeOf(decoded)).toBe(Object.prototype);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
    expect(codeOf(() => decodeSse('data: {"__proto__":{"type":"x"}}\n\n'))).toBe("invalid_event");
  });

  it("reports an event over the limit once, drops it and continues", () => {
    const decoder = new SseDecoder({ maxEventChars: 100 });
    expect(decoder.push(`id: 1\ndata: ${"x".repeat(94)}`)).toEqual([]);
    const [message, ...rest] = decoder.push("y");
    expect(rest).toEqual([]);
    expect(message).toMatchObject({ id: "1", error: { code: "event_too_large" } });
    for (let i = 0; i < 1000; i++) expect(decoder.push("z".repeat(100))).toEqual([]);
    expect(decoder.push('\ndata: {"type":"y"}\nid: 2\n\n')).toEqual([]);
    expect(decoder.lastEventId).toBe("1");
    expect(decoder.push('data: {"type":"x"}\n\n')).toEqual([{ frame }]);
  });

  it("counts all data lines of an event, but not comments and earlier events", () => {
    const decoder = new SseDecoder({ maxEventChars: 100 });
    const line = `data: ${"x".repeat(40)}\n`;
    expect(decoder.push(line + line)).toEqual([]);
    expect(decoder.push(line)).toMatchObject([{ error: { code: "event_too_large" } }]);
    expect(decoder.push("\n")).toEqual([]);
    expect(decoder.push("data\n".repeat(200))).toMatchObject([
      { error: { code: "event_too_large" } },
    ]);
    expect(decoder.push(`\n${": hb\n".repeat(100)}data: {"type":"x"}\n\n`)).toEqual([{ frame }]);
  });

  it("refuses 10 MB by default and accepts 7 MB", () => {
    const decoder = new SseDecoder();
    const big = (size: number) => encodeSse({ ...delta, delta: "x".repeat(size) });
    expect(decoder.push(big(7_000_000))).toHaveLength(1);
    expect(decoder.push(big(10_000_000))).toMatchObject([{ error: { code: "event_too_large" } }]);
    expect(decoder.push(encodeSse(delta))).toMatchObject([{ frame: delta }]);
  });

  it("drops an incomplete frame at the end and reads the next connection from its start", () => {
    const decoder = new SseDecoder();
    const bytes = new TextEncoder().encode('id: 9\ndata: {"type":"x"}\ndata: 🌦');
    expect(decoder.push(bytes.subarray(0, -2))).toEqual([]);
    decoder.end();
    expect(decoder.push("\n\n")).toEqual([]);
    expect(decoder.lastEventId).toBe("");
    decoder.push("x\r");
    decoder.end();
    expect(decoder.push(new TextEncoder().encode('\uFEFFdata: {"type":"x"}\n\n'))).toEqual([
      { frame },
    ]);
  });
});

describe("decodeSse", () => {
  const stream = encodeSse(created) + encodeSse(delta);
  const bytes = new TextEncoder().encode(stream);

  async function collect(frames: AsyncIterable<StreamFrame>): Promise<StreamFrame[]> {
    const all: StreamFrame[] = [];
    for await (const frame of frames) all.push(frame);
    return all;
  }

  it("reads a string, bytes, an async iterable and a stream", async () => {
    async function* chunks() {
      for (const byte of bytes) yield Uint8Array.of(byte);
    }
    expect(decodeSse(stream)).toEqual([created, delta]);
    expect(decodeSse(bytes)).toEqual([created, delta]);
    expect(await collect(decodeSse(chunks()))).toEqual([created, delta]);
    const { body } = new Response(bytes);
    if (body === null) throw new Error("a response with bytes has a body");
    expect(await collect(decodeSse(body))).toEqual([created, delta]);
  });

  it("yields the frames before a malformed frame, then throws", async () => {
    const seen: StreamFrame[] = [];
    const read = async () => {
      const { body } = new Response(`${stream}data: {\n\n${stream}`);
      for await (const frame of decodeSse(body as ReadableStream<Uint8Array>)) seen.push(frame);
    };
    await expect(read()).rejects.toMatchObject({ code: "invalid_json" });
    expect(seen).toEqual([created, delta]);
  });

  it("releases the stream when the reader stops, and passes errors on", async () => {
    let cancelled = false;
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(bytes),
      cancel: () => {
        cancelled = true;
      },
    });
    for await (const _ of decodeSse(endless)) break;
    expect(cancelled).toBe(true);
    expect(endless.locked).toBe(false);

    const failure = new Error("connection reset");
    const broken = new ReadableStream<Uint8Array>({ start: (c) => c.error(failure) });
    await expect(collect(decodeSse(broken))).rejects.toBe(failure);
  });
});
