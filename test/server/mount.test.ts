import { globSync, readFileSync } from "node:fs";
import { Hono } from "hono";
import { expect, it } from "vitest";

import { memoryStore } from "../../src/index.ts";
import { decodeSse } from "../../src/protocol/sse.ts";
import { createApp, serve } from "../../src/server.ts";
import { collect } from "../agent/support/collect.ts";
import { eventsOf, nested, scripted, tokens, treeOf } from "./support/server.ts";

const headers = { authorization: `Bearer ${tokens.ann}`, "content-type": "application/json" };
const log = false;

it("works as a plain fetch function, mounted below another path", async () => {
  const store = memoryStore();
  const app = new Hono();
  app.route("/api", createApp({ agents: [nested(store)], token: tokens.ann, log }));
  const send = (path: string, init = {}) =>
    Promise.resolve(app.fetch(new Request(`http://localhost/api${path}`, { headers, ...init })));
  const body = JSON.stringify({ agent: "lead", input: "Go.", session_id: "s" });
  const started = await send("/v1/tasks", { method: "POST", body });
  expect(started.status).toBe(201);
  const { id } = await started.json();
  expect(started.headers.get("location")).toBe(`/api/v1/tasks/${id}`);
  const streamed = await send(`/v1/tasks/${id}/events`);
  expect(streamed.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  const frames = await collect(decodeSse(streamed.body as ReadableStream<Uint8Array>));
  expect(frames.at(-1)).toMatchObject({ type: "stream.closed", final: true });
  const tree = treeOf(frames);
  for (const after of [0, 20, 60]) {
    const rest = await send(`/v1/tasks/${id}/events?starting_after=${after}`);
    const more = decodeSse(await rest.text());
    const before = treeOf(frames.slice(0, after + 2));
    expect(JSON.stringify(treeOf(more, before))).toBe(JSON.stringify(tree));
  }
  expect((await send("/v1/agents", { headers: {} })).status).toBe(401);
  expect((await send("/v1/sessions/s/files/none")).status).toBe(404);
  const elsewhere = new Request("http://evil.test/api/v1/agents", { headers });
  expect((await app.fetch(elsewhere)).status).toBe(403);
});

it("a reader that leaves a web stream frees it, and one that does not read is closed at its limit", async () => {
  const text = Array.from({ length: 500 }, () => "x".repeat(1_000));
  const { agent, store } = scripted([{ text }]);
  const limits = { bufferBytes: 50_000, streams: 2 };
  const app = createApp({ agents: [agent], token: tokens.ann, log, limits });
  const send = (path: string, init = {}) =>
    Promise.resolve(app.fetch(new Request(`http://localhost${path}`, { headers, ...init })));
  const start = { agent: "lead", input: "Go.", task_id: "task_1", stream: true };
  const stuck = await send("/v1/tasks", { method: "POST", body: JSON.stringify(start) });
  const left = await send("/v1/tasks/task_1/events");
  await left.body?.cancel();
  while ((await store.task("task_1"))?.status !== "completed")
    await new Promise((resolve) => setTimeout(resolve, 5));
  const whole = await send("/v1/tasks/task_1/events");
  const events = eventsOf(decodeSse(await whole.text()));
  expect(events.at(-1)).toMatchObject({ type: "task.completed" });
  const frames = decodeSse(await stuck.text());
  const last = frames.at(-1);
  // The reader has a beginning of the log, and continues from there.
  const cursor = eventsOf(frames).length - 1;
  expect(eventsOf(frames)).toEqual(events.slice(0, cursor + 1));
  if (last?.type === "stream.closed" && last.reason === "slow_consumer") {
    const rest = decodeSse(
      await (await send(`/v1/tasks/task_1/events?starting_after=${cursor}`)).text(),
    );
    expect(eventsOf(rest)).toEqual(events.slice(cursor + 1));
  }
});

it("only src/server and src/app import the packages of the server", () => {
  const importing = globSync("src/**/*.ts").filter((path) =>
    /from "(hono|jose|@hono\/[\w/-]+)"|import\("(hono|jose|@hono\/[\w/-]+)"\)/.test(
      readFileSync(path, "utf8"),
    ),
  );
  expect(importing.length).toBeGreaterThan(0);
  expect(importing.filter((path) => !/^src.(server|app)./.test(path))).toEqual([]);
});

it("says which port is in use, and what to do", async () => {
  const options = { agents: [nested(memoryStore())], log, port: 0 } as const;
  const first = await serve(options);
  const port = Number(new URL(first.url).port);
  await expect(serve({ ...options, port })).rejects.toMatchObject({
    code: "cannot_listen",
    message: `The server cannot listen on 127.0.0.1:${port}: the port is in use.`,
    hint: "Stop the other server, or pass another `port` (0: any).",
  });
  await first.close();
});
