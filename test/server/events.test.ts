import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { createGunzip } from "node:zlib";
import { describe, expect, it, vi } from "vitest";
import { memoryStore, type Store } from "../../src/index.ts";
import { checkStream } from "../../src/protocol/check/check.ts";
import type { LogEvent, StreamFrame, TaskEvent } from "../../src/protocol/event.ts";
import { materialize } from "../../src/protocol/materialize.ts";
import { decodeSse } from "../../src/protocol/sse.ts";
import type { Tree } from "../../src/protocol/task.ts";
import { acquire, delta, record } from "../../src/testing/store-contract/samples.ts";
import { collect } from "../agent/support/collect.ts";
import { lens } from "../support/lens.ts";
import {
  eventsOf,
  nested,
  scripted,
  startServer,
  stored,
  tokens,
  treeOf,
} from "./support/server.ts";

const start = { agent: "lead", input: "Go.", session_id: "sess" };

/** A finished run of three levels, with its server and its log. */
async function finished(options = {}) {
  const store = memoryStore();
  const server = await startServer({ agents: [nested(store)], ...options });
  const ann = server.as(tokens.ann);
  const { body } = await ann.post("/v1/tasks", start);
  const path = `/v1/tasks/${body.id}/events`;
  const frames = await ann.frames(path);
  const events = eventsOf(frames) as LogEvent[];
  return { store, server, ann, path, id: body.id as string, frames, events };
}

/** A run that waits for an answer. */
async function waiting(options = {}, ownStore = memoryStore()) {
  const script = [{ call: "remove", input: { path: "a" } }, "Done."];
  const { agent, store } = scripted(script, { store: ownStore });
  const server = await startServer({ agents: [agent], ...options });
  const ann = server.as(tokens.ann);
  const { body } = await ann.post("/v1/tasks", start);
  const path = `/v1/tasks/${body.id}/events`;
  await ann.frames(`${path}?until=idle`);
  const { approvals } = (await ann.get("/v1/sessions/sess/approvals")).body;
  const approve = () =>
    ann.post(`/v1/tasks/${body.id}/approvals/${approvals[0].approval_id}`, { decision: "approve" });
  return { server, store, ann, path, id: body.id as string, approve };
}

const numbers = (frames: readonly StreamFrame[]) =>
  eventsOf(frames).map((event) => (event as LogEvent).sequence_number);
const closed = (frames: readonly StreamFrame[]) => frames.at(-1);

describe("the stream of a run", () => {
  it("has every event of the log, between stream.opened and stream.closed", async () => {
    const { frames, events, id, store } = await finished();
    expect(frames[0]).toMatchObject({
      type: "stream.opened",
      protocol: "rivulet.task-stream/1",
      root_task_id: id,
      oldest_sequence_number: 0,
      heartbeat_ms: 15_000,
    });
    expect(closed(frames)).toMatchObject({
      reason: "terminal",
      final: true,
      last_sequence_number: events.length - 1,
    });
    expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, index) => index));
    expect(checkStream(events)).toEqual([]);
    const stored = await store.read(id, -1, 10_000);
    expect(JSON.stringify(materialize(treeOf(events)))).toBe(
      JSON.stringify(materialize(treeOf(stored))),
    );
  });

  it("resumes after every event, by header and by query; the header wins", async () => {
    const { ann, path, events } = await finished();
    const whole = JSON.stringify(treeOf(events));
    for (const [index] of events.entries()) {
      if (index === events.length - 1) break;
      const before = treeOf(events.slice(0, index + 1));
      const rest = await ann.frames(`${path}?starting_after=2`, { "last-event-id": String(index) });
      expect(numbers(rest)[0]).toBe(index + 1);
      expect(JSON.stringify(treeOf(rest, before))).toBe(whole);
    }
    expect(numbers(await ann.frames(`${path}?starting_after=4`))[0]).toBe(5);
  });

  it("answers 204 after the last event, and 400 for a cursor that is ahead or no number", async () => {
    const { ann, path, events } = await finished();
    const last = events.length - 1;
    expect((await ann.get(`${path}?starting_after=${last}`)).status).toBe(204);
    expect((await ann.get(path, { "last-event-id": String(last) })).status).toBe(204);
    for (const query of [
      `starting_after=${last + 1}`,
      "starting_after=x",
      "starting_after=-2",
      "nope=1",
    ])
      expect((await ann.get(`${path}?${query}`)).status, query).toBe(400);
    for (const header of ["x", "1e3", "-1", "9".repeat(30)])
      expect((await ann.get(path, { "last-event-id": header })).status, header).toBe(400);
    expect((await ann.get(`${path}?until=never`)).body.error.message).toContain("`until` must be");
  });

  it("leaves out the event names when it is asked to", async () => {
    const { ann, path, events } = await finished();
    const { text } = await ann.get(`${path}?event_names=off`);
    expect(text).not.toContain("event:");
    expect(numbers(decodeSse(text))).toEqual(events.map((event) => event.sequence_number));
  });
});

describe("a selective stream", () => {
  const selections = [
    { depth: 0 },
    { depth: 1 },
    { include: ["message"] },
    { exclude: ["reasoning", "tool_call"] },
    { path: `${stored("sess")}/helper` },
    { path: `${stored("sess")}/helper/worker`, include: ["reasoning"] },
    { depth: 1, exclude: ["tool_result"] },
  ] as const;
  const selectedTree = (frames: readonly StreamFrame[], before?: Tree) =>
    treeOf(frames, before, { filtered: true });

  it.each(selections)(
    "with %j is what the filter leaves, from the start and from every cursor",
    async (selection) => {
      const { ann, path, events } = await finished();
      const query = new URLSearchParams(
        Object.entries(selection).map(([key, value]) => [key, String(value)]),
      );
      const wanted = lens(events, selection);
      const sent = await ann.frames(`${path}?${query}`);
      expect(sent[0]).toMatchObject({ filter: selection });
      expect(eventsOf(sent)).toEqual(
        JSON.parse(JSON.stringify(wanted)).map((event: LogEvent) => event),
      );
      const tree = selectedTree(wanted);
      expect(tree).toMatchObject({ gaps: [], ignored: 0, unknown: 0 });
      for (let cursor = 0; cursor < events.length - 1; cursor += 3) {
        const before = selectedTree(wanted.filter((event) => event.sequence_number <= cursor));
        const rest = wanted.filter((event) => event.sequence_number > cursor);
        const response = await ann.send("GET", `${path}?${query}&starting_after=${cursor}`);
        if (rest.length === 0) {
          expect(response.status).toBe(204);
          continue;
        }
        const frames = decodeSse(await response.text());
        expect(JSON.stringify(selectedTree(frames, before).tasks)).toBe(JSON.stringify(tree.tasks));
      }
    },
  );

  it.each(selections)("with %j has no other items in its snapshots", async (selection) => {
    const { ann, path, events } = await finished();
    const query = new URLSearchParams(
      Object.entries(selection).map(([key, value]) => [key, String(value)]),
    );
    // The tasks of the view; their parents also name children outside of it.
    const outputs = ({ tasks }: Tree) =>
      Object.values(tasks).flatMap(({ id, appliedSeq, output }) =>
        appliedSeq < 0 ? [] : [{ id, output }],
      );
    const expected = outputs(selectedTree(lens(events, selection)));
    expect(expected.length).toBeGreaterThan(0);
    const frames = await ann.frames(`${path}?${query}&from=now`);
    expect(outputs(selectedTree(frames))).toEqual(expected);
  });

  it("until=root ends with the task, and answers 204 after it", async () => {
    const { ann, path, events, id } = await finished();
    const end = events.findIndex(
      ({ type, task_id }) => type === "task.completed" && task_id === id,
    );
    const frames = await ann.frames(`${path}?until=root`);
    expect(numbers(frames).at(-1)).toBe(end);
    expect(closed(frames)).toMatchObject({ reason: "terminal", final: true });
    expect((await ann.get(`${path}?until=root&starting_after=${end}`)).status).toBe(204);
    const child = events.find(({ task_id }) => task_id !== id)?.task_id;
    const below = await ann.frames(`/v1/tasks/${child}/events?until=root&depth=0`);
    expect(new Set(eventsOf(below).map((event) => (event as LogEvent).task_id))).toEqual(
      new Set([child]),
    );
  });

  it("until=idle ends when only answers can move the run; the next one continues there", async () => {
    const { ann, path, approve } = await waiting();
    const idle = await ann.frames(`${path}?until=idle`);
    expect(closed(idle)).toMatchObject({ reason: "idle", final: false });
    const last = numbers(idle).at(-1);
    await approve();
    const rest = await ann.frames(`${path}?starting_after=${last}`);
    expect(numbers(rest)[0]).toBe((last ?? 0) + 1);
    expect(closed(rest)).toMatchObject({ reason: "terminal", final: true });
  });
});

it("a stream does not end before events that the server has not heard of yet", async () => {
  const base = memoryStore();
  let isDeaf = false;
  let end: (() => Promise<void>) | undefined;
  const store: Store = {
    ...base,
    watch: (key, wake) => base.watch(key, () => ("log" in key && isDeaf) || wake()),
    // The run ends while the server reads the records of its tasks.
    async tasks(query) {
      const first = query.rootTaskId === undefined ? undefined : end;
      if (first) end = undefined;
      await first?.();
      return base.tasks(query);
    },
  };
  const { ann, path, id, approve } = await waiting({}, store);
  const last = await base.last(id);
  end = async () => {
    isDeaf = true;
    await approve();
    while ((await base.task(id))?.status !== "completed")
      await new Promise((resolve) => setTimeout(resolve, 5));
  };
  const rest = await ann.frames(`${path}?starting_after=${last}`);
  expect(numbers(rest)[0]).toBe(last + 1);
  expect(numbers(rest).at(-1)).toBe(await base.last(id));
});

describe("snapshots", () => {
  it("replace trimmed events; with on_expired=error the answer is 410", async () => {
    // Without merged deltas, so that the log is trimmed after the starts of all children.
    const store = memoryStore({ maxLogBytes: 6_000, flushMs: 0 });
    const server = await startServer({ agents: [nested(store)] });
    const ann = server.as(tokens.ann);
    const { body } = await ann.post("/v1/tasks", start);
    const path = `/v1/tasks/${body.id}/events`;
    await ann.frames(path);
    const through = (await store.snapshot(body.id))?.through ?? -1;
    expect(through).toBeGreaterThan(5);
    const shown = (await ann.get(`/v1/tasks/${body.id}`)).body;
    expect(JSON.stringify(shown.output)).toContain("The lead sums up");
    const { text } = await ann.get(`${path}?starting_after=2`);
    const frames = decodeSse(text);
    expect(frames[0]).toMatchObject({ oldest_sequence_number: through + 1 });
    const tree = treeOf(frames);
    expect(Object.keys(tree.tasks)).toHaveLength(5);
    expect(tree.safeCursor).toBe(await store.last(body.id));
    expect(text).toContain(`id: ${through}\nevent: task.snapshot`);
    expect(JSON.stringify(materialize(tree))).toBe(
      JSON.stringify((await ann.get(`/v1/tasks/${body.id}/document`)).body),
    );
    expect((await ann.get(`${path}?starting_after=2&on_expired=error`)).status).toBe(410);
    const top = treeOf(await ann.frames(`${path}?depth=0&starting_after=2`));
    expect(Object.keys(top.tasks)).toEqual([body.id]);
    expect(top.gaps).toEqual([]);
  });

  it("come first with from=now, then new events", async () => {
    const { ann, path, approve, id } = await waiting();
    const response = await ann.send("GET", `${path}?from=now`);
    const reading = collect(decodeSse(response.body as ReadableStream<Uint8Array>));
    await approve();
    const frames = await reading;
    expect(eventsOf(frames)[0]).toMatchObject({ type: "task.snapshot", final: true });
    const all = await ann.frames(path);
    expect(JSON.stringify(materialize(treeOf(frames)))).toBe(
      JSON.stringify(materialize(treeOf(all))),
    );
    expect(treeOf(frames).tasks[id]?.status).toBe("completed");
  });
});

describe("a live stream", () => {
  it("sends comments while nothing happens", async () => {
    const { ann, path, approve } = await waiting({ heartbeatMs: 20 });
    const response = await ann.send("GET", path);
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of response.body as ReadableStream<Uint8Array>) {
      text += decoder.decode(chunk, { stream: true });
      if ((text.match(/: hb \d+\n\n/g) ?? []).length === 3) await approve();
    }
    expect(text).toMatch(/"reason":"terminal","final":true/);
  });

  it("loses and doubles nothing however the attach falls into the run", async () => {
    const store = memoryStore();
    const server = await startServer({ agents: [nested(store)] });
    const ann = server.as(tokens.ann);
    for (let n = 0; n < 30; n++) {
      const task_id = `task_${n}`;
      const starting = ann.post("/v1/tasks", { ...start, session_id: `s${n}`, task_id });
      while ((await store.task(stored(task_id))) === undefined)
        await new Promise((resolve) => setImmediate(resolve));
      for (let turn = 0; turn < n; turn++) await new Promise((resolve) => setImmediate(resolve));
      const events = eventsOf(await ann.frames(`/v1/tasks/${task_id}/events`)) as LogEvent[];
      expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, index) => index));
      await starting;
    }
  });

  it("is compressed batch by batch when the reader takes gzip", async () => {
    const { ann, path, approve, server } = await waiting();
    for (const coding of ["gzip", "br, gzip;q=0.5", "identity", "gzip;q=0, br"]) {
      const raw = await rawStream(`${server.url}${path}`, coding);
      const wanted = /^gzip$|q=0.5/.test(coding) ? "gzip" : undefined;
      expect(raw.encoding, coding).toBe(wanted);
      // The run waits, so all of this has come without the end of the stream.
      expect(raw.text, coding).toContain("task.approval.requested");
    }
    await approve();
    const plain = await ann.frames(path, { "accept-encoding": "identity" });
    const packed = await ann.frames(path, { "accept-encoding": "gzip" });
    expect(eventsOf(packed)).toEqual(eventsOf(plain));
  });

  it("has the same tree for a follower that is slow, one that comes back and one that is late", async () => {
    const store = memoryStore();
    const server = await startServer({ agents: [nested(store, 20)] });
    const ann = server.as(tokens.ann);
    const { body } = await ann.post("/v1/tasks", start);
    const path = `/v1/tasks/${body.id}/events`;
    const steady = ann.frames(path);
    const slow = (async () => {
      const frames: StreamFrame[] = [];
      const response = await ann.send("GET", path);
      for await (const frame of decodeSse(response.body as ReadableStream<Uint8Array>)) {
        frames.push(frame);
        if (frames.length % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
      }
      return frames;
    })();
    const returning = (async () => {
      const frames: StreamFrame[] = [];
      for (let last = -1; ; ) {
        const response = await ann.send("GET", `${path}?starting_after=${last}`);
        if (response.status === 204) return frames;
        for await (const frame of decodeSse(response.body as ReadableStream<Uint8Array>)) {
          if (!("sequence_number" in frame)) continue;
          frames.push(frame);
          last = frame.sequence_number;
          if (frames.length % 7 === 0) break;
        }
      }
    })();
    const [one, two, three] = await Promise.all([steady, slow, returning]);
    const late = await ann.frames(path);
    const trees = [one, two, three, late].map((frames) => JSON.stringify(treeOf(frames)));
    expect(new Set(trees).size).toBe(1);
  });

  it("closes a reader that does not read at its limit; the run goes on and the reader resumes", async () => {
    const { agent, store } = scripted([]);
    const bufferBytes = 100_000;
    const server = await startServer({ agents: [agent], limits: { bufferBytes } });
    const ann = server.as(tokens.ann);
    const lease = await acquire(store, "sess_1");
    const log = "task_1";
    const write = (status: "in_progress" | "completed", events: readonly TaskEvent[]) =>
      store.commit({ lease, log, events, tasks: [record({ userId: "ann", status })] });
    const words = (count: number) => Array.from({ length: count }, () => delta("x".repeat(1_000)));
    await write("in_progress", words(1));
    const path = `/v1/tasks/${log}/events`;
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
    const lines = [`GET ${path} HTTP/1.1`, "host: localhost", "connection: close"];
    socket.write([...lines, `authorization: Bearer ${tokens.ann}`, "", ""].join("\r\n"));
    const ended = once(socket, "close");
    await once(socket, "readable");
    const steady = ann.frames(path);
    const isClosed = () => server.lines.some(({ route }) => route?.endsWith("/events"));
    let written = 1;
    // More than the sockets of a machine take; a reader within its limit may be silent for 45 seconds.
    for (; !isClosed() && written < 60_000; written += 50) {
      await write("in_progress", words(50));
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await vi.waitFor(() => expect(isClosed()).toBe(true), { timeout: 20_000 });
    const { delta: _, ...envelope } = delta("");
    const task = { id: log, object: "task", status: "completed" } as const;
    await write("completed", [{ ...envelope, type: "task.completed", task }]);
    expect(numbers(await steady)).toEqual(Array.from({ length: written + 1 }, (_, n) => n));
    const received: Buffer[] = [];
    socket.on("data", (chunk: Buffer) => received.push(chunk));
    socket.resume();
    await ended;
    const got = Buffer.concat(received).toString();
    const ids = [...got.matchAll(/\nid: (\d+)\n/g)].map(([, id]) => Number(id));
    expect(ids).toEqual(ids.map((_, index) => index));
    expect(got).not.toContain('"reason":"terminal"');
    expect(ids.length).toBeLessThan(written);
    const rest = await ann.frames(`${path}?starting_after=${ids.at(-1)}`);
    expect(numbers(rest)[0]).toBe((ids.at(-1) ?? 0) + 1);
  });
});

it("closes all streams at shutdown with a delay to come back, and refuses new requests", async () => {
  const { ann, path, server, store } = await waiting();
  const response = await ann.send("GET", path);
  const reading = response.text();
  await server.close();
  const text = await reading;
  expect(text).toMatch(
    /retry: \d+\n\nevent: stream\.closed\ndata: .*"reason":"server_shutdown","final":false/,
  );
  await expect(ann.get("/healthz")).rejects.toThrow();
  expect(await store.owner("sess")).toBeUndefined();
});

/** The bytes of a stream so far, decoded, as soon as they tell that the task waits. */
async function rawStream(url: string, coding: string) {
  const headers = { authorization: `Bearer ${tokens.ann}`, "accept-encoding": coding };
  const sent = request(url, { headers, agent: false });
  sent.end();
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  const encoding = response.headers["content-encoding"];
  const decoder = encoding === "gzip" ? createGunzip() : undefined;
  let text = "";
  const decoded: AsyncIterable<Buffer> = decoder ? response.pipe(decoder) : response;
  for await (const chunk of decoded) {
    text += chunk;
    if (text.includes("task.suspended")) break;
  }
  sent.destroy();
  return { encoding, text };
}
