import { afterEach, describe, expect, it, vi } from "vitest";
import { log } from "../../test/support/hand-log.ts";
import type { LogEvent, StreamFrame, TaskEvent } from "../protocol/event.ts";
import { encodeComment, encodeRetry, encodeSse } from "../protocol/sse.ts";
import { ManualClock } from "../testing.ts";
import { type Connection, type Reading, readLog } from "./reader.ts";
import { Server } from "./request.ts";

const task = (status: string) => ({ task: { id: "task_r", object: "task", status } });
const events = log(
  ["created", task("queued")],
  ["in_progress", task("in_progress")],
  ["hint.added", { hint: { id: "h1", text: "one" } }],
  ["hint.added", { hint: { id: "h2", text: "two" } }],
  ["completed", task("completed")],
) as unknown as readonly LogEvent[];

const opened = (more: object = {}) =>
  encodeSse({
    type: "stream.opened",
    protocol: "rivulet.task-stream/1",
    root_task_id: "task_r",
    oldest_sequence_number: 0,
    last_sequence_number: 4,
    heartbeat_ms: 15_000,
    ...more,
  } as StreamFrame);
const closed = (reason: string) =>
  encodeSse({ type: "stream.closed", reason, final: reason === "terminal" } as StreamFrame);
const frames = (from: number, to: number) =>
  events
    .slice(from, to)
    .map((event) => encodeSse(event))
    .join("");

/** A response of the fake server: a status, or what a stream sends before it ends; `open` streams stay open. */
interface Answer {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly body?: string;
  readonly isOpen?: true;
}

/** A server that answers with each of these in turn. */
function fakeServer(...answers: (Answer | Error)[]) {
  const clock = new ManualClock();
  const cursors: (string | null)[] = [];
  const controllers: ReadableStreamDefaultController<Uint8Array>[] = [];
  const fetch = async (url: string | URL | Request, init?: RequestInit) => {
    cursors.push(new URL(String(url)).searchParams.get("starting_after"));
    const answer = answers.shift();
    if (answer === undefined) throw new Error("no more answers");
    if (answer instanceof Error) throw answer;
    const { status = 200, headers = {}, body = "", isOpen } = answer;
    if (status !== 200) return new Response(status === 204 ? null : body, { status, headers });
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        controllers.push(controller);
        if (body !== "") controller.enqueue(new TextEncoder().encode(body));
        if (!isOpen) controller.close();
        init?.signal?.addEventListener("abort", () => {
          if (isOpen) controller.error(init.signal?.reason);
        });
      },
    });
    return new Response(stream, { headers: { "content-type": "text/event-stream", ...headers } });
  };
  const server = new Server("http://server.test", { fetch, clock, random: () => 0, token: "t" });
  const states: Connection[] = [];
  const read = (more: Partial<Reading> = {}) =>
    readLog({
      ...{ server, taskId: "task_r", after: -1 },
      onConnection: (state) => states.push(state),
      ...more,
    });
  return {
    clock,
    cursors,
    states,
    read,
    send: (text: string) => controllers.at(-1)?.enqueue(new TextEncoder().encode(text)),
  };
}

const numbers = (list: readonly TaskEvent[]) =>
  list.map((event) => (event as LogEvent).sequence_number);

async function collect(reading: AsyncIterable<TaskEvent>): Promise<TaskEvent[]> {
  const list: TaskEvent[] = [];
  for await (const event of reading) list.push(event);
  return list;
}

const whole = { body: opened() + frames(0, 5) + closed("terminal") };

afterEach(() => {
  vi.unstubAllGlobals();
});

describe("the end of a stream", () => {
  it("reads to the end that the server declares", async () => {
    const server = fakeServer(whole);
    expect(numbers(await collect(server.read()))).toEqual([0, 1, 2, 3, 4]);
    expect(server.states.map(({ status }) => status)).toEqual(["connecting", "open", "closed"]);
  });

  it("takes 204 as the end", async () => {
    const server = fakeServer({ status: 204 });
    expect(await collect(server.read({ after: 4 }))).toEqual([]);
    expect(server.cursors).toEqual(["4"]);
  });

  it.each([
    ["without a word", ""],
    ["because it shuts down", closed("server_shutdown")],
    ["because the reader is slow", closed("slow_consumer")],
    ["because it lasted too long", closed("max_duration")],
  ])("reconnects from the last event when a connection ends %s", async (_, end) => {
    const server = fakeServer(
      { body: opened() + frames(0, 2) + end },
      { body: opened() + frames(2, 5) + closed("terminal") },
    );
    const reading = collect(server.read());
    await server.clock.sleeping({ ms: 1_500 });
    await server.clock.advance(1_500);
    expect(numbers(await reading)).toEqual([0, 1, 2, 3, 4]);
    expect(server.cursors).toEqual([null, "1"]);
    expect(server.states.map(({ status }) => status)).toEqual(
      ["connecting", "open", "reconnecting", "open", "closed"], //
    );
  });
});

describe("delays", () => {
  it("doubles the delay up to 30 s while the server does not answer", async () => {
    const refused = Array.from({ length: 7 }, () => new Error("refused"));
    const server = fakeServer(...refused, whole);
    const reading = collect(server.read());
    for (const ms of [1_500, 3_000, 6_000, 12_000, 24_000, 30_000, 30_000]) {
      await server.clock.sleeping({ ms });
      await server.clock.advance(ms);
    }
    expect(await reading).toHaveLength(5);
    expect(server.states.at(1)).toMatchObject({
      status: "reconnecting",
      error: { code: "unreachable" },
    });
  });

  it("waits as long as `retry:` and Retry-After say, and begins anew after an event", async () => {
    const server = fakeServer(
      { body: encodeRetry(40) + opened() + frames(0, 1) },
      { status: 503, headers: { "retry-after": "7" } },
      { status: 429 },
      { body: opened() + frames(1, 2) },
      { body: opened() + frames(2, 5) + closed("terminal") },
    );
    const reading = collect(server.read());
    for (const ms of [40, 7_000, 160, 40]) {
      await server.clock.sleeping({ ms });
      await server.clock.advance(ms);
    }
    expect(await reading).toHaveLength(5);
  });

  it("spreads the delays of many clients", async () => {
    const { backoffMs } = await import("./request.ts");
    const delays = [0, 0.25, 1].map((random) => backoffMs(3, 1_000, () => random));
    expect(delays).toEqual([4_000, 3_500, 2_000]);
  });
});

describe("errors", () => {
  it.each([
    [404, "not_found"],
    [401, "unauthorized"],
    [400, "invalid_cursor"],
    [410, "cursor_expired"],
  ])("stops at %i with the error of the server", async (status, code) => {
    const error = { code, message: "No.", retryable: false, hint: "Look." };
    const server = fakeServer({ status, body: JSON.stringify({ error }) });
    await expect(collect(server.read())).rejects.toMatchObject(error);
    expect(server.states.at(-1)).toMatchObject({ status: "closed", error: { code } });
    expect(server.cursors).toHaveLength(1);
  });

  it("stops at a page that is not a stream", async () => {
    const server = fakeServer({ headers: { "content-type": "text/html" }, body: "<p>" });
    await expect(collect(server.read())).rejects.toMatchObject({ code: "invalid_response" });
  });

  it("reads again after a frame that is not JSON, and gives up when it stays", async () => {
    const bad = { body: `${opened()}${frames(0, 1)}id: 1\ndata: {"type"\n\n` };
    const again = { body: `${opened()}id: 1\ndata: {"type"\n\n` };
    const server = fakeServer(bad, again, again);
    const reading = collect(server.read());
    reading.catch(() => {});
    await server.clock.sleeping({ ms: 1_500 });
    await server.clock.advance(1_500);
    await server.clock.sleeping({ ms: 3_000 });
    await server.clock.advance(3_000);
    await expect(reading).rejects.toMatchObject({ code: "invalid_json" });
    expect(server.cursors).toEqual([null, "0", "0"]);
  });

  it("hands out the events before an error", async () => {
    const server = fakeServer(
      { body: opened() + frames(0, 2) },
      { status: 404, body: '{"error":{"code":"not_found","message":"Deleted."}}' },
    );
    const reading = server.read();
    expect(numbers([(await reading.next()).value, (await reading.next()).value])).toEqual([0, 1]);
    const next = reading.next();
    next.catch(() => {});
    await server.clock.sleeping({ ms: 1_500 });
    await server.clock.advance(1_500);
    await expect(next).rejects.toMatchObject({ code: "not_found" });
  });
});

describe("order", () => {
  it("drops duplicates", async () => {
    const server = fakeServer({
      body: opened() + frames(0, 3) + frames(1, 5) + frames(0, 5) + closed("terminal"),
    });
    expect(numbers(await collect(server.read()))).toEqual([0, 1, 2, 3, 4]);
  });

  it("reads again from the last event before a gap", async () => {
    const server = fakeServer(
      { body: opened() + frames(0, 2) + frames(3, 5) + closed("terminal") },
      { body: opened() + frames(2, 5) + closed("terminal") },
    );
    const reading = collect(server.read());
    await server.clock.sleeping({ ms: 1_500 });
    await server.clock.advance(1_500);
    expect(numbers(await reading)).toEqual([0, 1, 2, 3, 4]);
    expect(server.cursors).toEqual([null, "1"]);
  });

  it("gives up when the server never sends an event", async () => {
    const gap = { body: opened() + frames(3, 5) };
    const server = fakeServer(gap, gap, gap);
    const reading = collect(server.read());
    reading.catch(() => {});
    for (const ms of [1_500, 3_000]) {
      await server.clock.sleeping({ ms });
      await server.clock.advance(ms);
    }
    await expect(reading).rejects.toMatchObject({ code: "missing_event" });
  });

  it("accepts missing numbers in the stream of a subtree, but no missing event of a task", async () => {
    const [a, b] = [{ ...events[2] }, { ...events[3] }] as LogEvent[];
    const child = (event: LogEvent | undefined, more: object) =>
      encodeSse({ ...event, task_id: "call_1", ...more } as LogEvent);
    const head = opened({ root_task_id: "task_other" });
    const server = fakeServer(
      {
        body:
          head +
          child(a, { sequence_number: 3, task_seq: 4 }) +
          child(b, { sequence_number: 9, task_seq: 6 }),
      },
      {
        body:
          head +
          child(b, { sequence_number: 7, task_seq: 5 }) +
          child(b, { sequence_number: 9, task_seq: 6 }) +
          closed("terminal"),
      },
    );
    const reading = collect(server.read());
    await server.clock.sleeping({ ms: 1_500 });
    await server.clock.advance(1_500);
    expect(numbers(await reading)).toEqual([3, 7, 9]);
    expect(server.cursors).toEqual([null, "3"]);
  });

  it("reads snapshots for an expired cursor again until all have arrived", async () => {
    const snapshot = (task_id: string, final: boolean) =>
      encodeSse({
        ...{ type: "task.snapshot", task_id, through_sequence_number: 3, through_task_seq: 3 },
        ...{ created_at: 0, task: { id: task_id, object: "task", status: "in_progress" } },
        ...(final && { final }),
      } as StreamFrame);
    const server = fakeServer(
      { body: opened() + snapshot("task_r", false) },
      { body: opened() + snapshot("task_r", false) + snapshot("call_1", true) },
      { body: opened() + frames(4, 5) + closed("terminal") },
    );
    const reading = collect(server.read({ after: 1 }));
    for (const ms of [1_500, 1_500]) {
      await server.clock.sleeping({ ms });
      await server.clock.advance(ms);
    }
    const list = await reading;
    expect(list.map(({ type }) => type)).toEqual([
      ...Array.from({ length: 3 }, () => "task.snapshot"),
      "task.completed",
    ]);
    expect(server.cursors).toEqual(["1", "1", "3"]);
  });
});

describe("silence", () => {
  it("reconnects after three heartbeats without a byte", async () => {
    const server = fakeServer({ body: opened() + frames(0, 1), isOpen: true }, whole);
    const reading = server.read();
    await reading.next();
    const next = reading.next();
    await server.clock.sleeping({ ms: 15_000 });
    await server.clock.advance(44_999);
    expect(server.cursors).toHaveLength(1);
    await server.clock.advance(1);
    expect(numbers([(await next).value])).toEqual([1]);
    expect(server.cursors).toEqual([null, "0"]);
  });

  it("stays while heartbeats arrive, and takes their rate from the server", async () => {
    const server = fakeServer({ body: opened({ heartbeat_ms: 1_000 }), isOpen: true }, whole);
    const next = server.read().next();
    await server.clock.sleeping({ ms: 1_000 });
    for (let beat = 0; beat < 20; beat++) {
      await server.clock.advance(2_000);
      server.send(encodeComment("hb"));
    }
    await server.clock.advance(0);
    expect(server.cursors).toHaveLength(1);
    await server.clock.advance(4_000);
    expect(numbers([(await next).value])).toEqual([0]);
  });

  it("reconnects at the first look at the clock after the device has slept", async () => {
    const server = fakeServer({ body: opened() + frames(0, 1), isOpen: true }, whole);
    const reading = server.read();
    await reading.next();
    const next = reading.next();
    await server.clock.sleeping({ ms: 15_000 });
    // The clock of the device goes on while its timers stand still.
    const now = server.clock.now();
    vi.spyOn(server.clock, "now").mockReturnValue(now + 3_600_000);
    await server.clock.advance(15_000);
    expect(numbers([(await next).value])).toEqual([1]);
  });

  it("does not count the time in which the consumer is busy", async () => {
    const server = fakeServer({ body: opened() + frames(0, 2), isOpen: true });
    const reading = server.read();
    await reading.next();
    await server.clock.advance(600_000);
    await reading.next();
    const next = reading.next();
    await server.clock.advance(30_000);
    server.send(frames(2, 3));
    expect(numbers([(await next).value])).toEqual([2]);
    expect(server.cursors).toHaveLength(1);
    await reading.return?.();
  });
});

describe("the device", () => {
  function stubWindow() {
    const scope = new EventTarget();
    const page = Object.assign(new EventTarget(), { visibilityState: "visible" });
    vi.stubGlobal("addEventListener", scope.addEventListener.bind(scope));
    vi.stubGlobal("removeEventListener", scope.removeEventListener.bind(scope));
    vi.stubGlobal("document", page);
    return { scope, page };
  }

  it("reconnects when it comes online, without a delay", async () => {
    const { scope } = stubWindow();
    const server = fakeServer({ body: opened() + frames(0, 1), isOpen: true }, whole);
    const reading = server.read();
    await reading.next();
    const next = reading.next();
    await server.clock.sleeping({ ms: 15_000 });
    scope.dispatchEvent(new Event("online"));
    expect(numbers([(await next).value])).toEqual([1]);
  });

  it.each(["online", "visibilitychange"])("ends a delay at %s", async (name) => {
    const { scope, page } = stubWindow();
    const server = fakeServer(new Error("offline"), whole);
    const next = server.read().next();
    await server.clock.sleeping({ ms: 1_500 });
    (name === "online" ? scope : page).dispatchEvent(new Event(name));
    expect(numbers([(await next).value])).toEqual([0]);
  });
});

it("closes the connection when the consumer leaves, and stops listening and waiting", async () => {
  const server = fakeServer({ body: opened() + frames(0, 2), isOpen: true });
  const reading = server.read();
  await reading.next();
  const pending = reading.next().then(() => reading.next());
  await reading.return?.();
  await pending;
  expect(await reading.next()).toEqual({ value: undefined, done: true });
  expect(server.clock.pending).toBe(0);
  expect(server.states.at(-1)).toEqual({ status: "closed" });
});
