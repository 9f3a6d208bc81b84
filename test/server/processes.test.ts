import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { sqliteStore } from "../../src/index.ts";
import { checkStream } from "../../src/protocol/check/check.ts";
import type { LogEvent, TaskEvent } from "../../src/protocol/event.ts";
import { emptyTree, reduce } from "../../src/protocol/reduce.ts";
import { SseDecoder } from "../../src/protocol/sse.ts";
import type { Tree } from "../../src/protocol/task.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { seededRandom } from "../support/random.ts";
import { seed } from "../support/seed.ts";
import { tokens } from "./support/server.ts";

const directory = mkdtempSync(join(tmpdir(), "rivulet-servers-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const program = resolve("test/server/support/server-process.ts");
const headers = { authorization: `Bearer ${tokens.ann}`, "content-type": "application/json" };

const children = new Set<ChildProcess>();
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  children.clear();
});

/** Starts a server in a process of its own; resolves when it listens. */
async function startProcess(path: string, pauseMs: number, port = 0) {
  const args = [program, path, String(port), String(pauseMs), tokens.ann];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  children.add(child);
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  const url = line.toString().trim();
  return { child, url, port: Number(new URL(url).port) };
}

async function kill(child: ChildProcess): Promise<void> {
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
  children.delete(child);
}

/** Hands each connection to the next server that takes it. */
async function roundRobin(ports: number[]) {
  const sockets = new Set<Socket>();
  let turn = 0;
  const server = createServer((client) => {
    sockets.add(client);
    client.on("error", () => {});
    const attempt = (left: number): void => {
      const upstream = connect(ports[turn++ % ports.length] ?? 0, "127.0.0.1");
      upstream.once("connect", () => {
        client.pipe(upstream).pipe(client);
        client.on("close", () => upstream.destroy());
        upstream.on("close", () => client.destroy());
      });
      upstream.once("error", () => {
        if (left > 0 && upstream.bytesWritten === 0) attempt(left - 1);
        else client.destroy();
      });
    };
    attempt(3);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { url, close };
}

/** Repeats a request until a server answers it. */
async function insist(url: string, path: string, body?: unknown): Promise<Response> {
  const method = body === undefined ? "GET" : "POST";
  for (;;) {
    const sent = {
      method,
      headers: { ...headers, connection: "close" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    };
    const response = await fetch(`${url}${path}`, sent).catch(() => undefined);
    if (response && response.status < 500) return response;
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** Follows a task over any number of connections to its end; `onEvent` is called after each event. */
async function follow(
  url: string,
  id: string,
  onEvent: (event: TaskEvent, tree: Tree) => Promise<void> | void = () => {},
) {
  let tree: Tree = emptyTree();
  const events: TaskEvent[] = [];
  for (let connections = 1; ; connections++) {
    const response = await insist(url, `/v1/tasks/${id}/events?starting_after=${tree.safeCursor}`);
    if (response.status === 204) return { tree, events, connections };
    expect(response.status).toBe(200);
    const decoder = new SseDecoder();
    try {
      for await (const chunk of response.body as ReadableStream<Uint8Array>) {
        for (const { frame } of decoder.push(chunk)) {
          if (frame?.type === "stream.closed" && frame.final) return { tree, events, connections };
          if (!frame?.type.startsWith("task.")) continue;
          events.push(frame as TaskEvent);
          tree = reduce(tree, frame as TaskEvent);
          await onEvent(frame as TaskEvent, tree);
        }
      }
    } catch {
      // The connection broke: the next one continues.
    }
  }
}

/** Expects that a run that was read to its end is complete. */
function expectTruth(events: readonly TaskEvent[], tree: Tree, text: string): void {
  const numbers = events.map((event) => (event as LogEvent).sequence_number);
  expect(numbers).toEqual(numbers.map((_, index) => index));
  expect(checkStream(events)).toEqual([]);
  expect(tree.gaps).toEqual([]);
  const last = tree.tasks[tree.rootId ?? ""]?.output.at(-1);
  const blocks = last?.type === "message" ? last.block_list : [];
  expect(blocks.map((block) => "text" in block && block.text).join("")).toContain(text);
}

describe("two servers on one SQLite file", () => {
  it("start on one, read, answer and cancel on the other", async () => {
    const path = join(directory, "two.db");
    const [one, two] = await Promise.all([startProcess(path, 5), startProcess(path, 5)]);
    const { id } = await (
      await insist(one.url, "/v1/tasks", { agent: "lead", input: "Go." })
    ).json();
    const { events, tree } = await follow(two.url, id);
    expectTruth(events, tree, "both helpers");

    const asked = { agent: "asking", input: "Go.", session_id: "asks" };
    const { id: asking } = await (await insist(one.url, "/v1/tasks", asked)).json();
    const answered = await follow(two.url, asking, async ({ type }) => {
      if (type !== "task.suspended") return;
      const { approvals } = await (await insist(two.url, "/v1/sessions/asks/approvals")).json();
      const address = `/v1/tasks/${asking}/approvals/${approvals[0].approval_id}`;
      expect((await insist(two.url, address, { decision: "approve" })).status).toBe(202);
    });
    expectTruth(answered.events, answered.tree, "It is removed.");

    const { id: long } = await (
      await insist(one.url, "/v1/tasks", { agent: "asking", input: "Go." })
    ).json();
    expect((await insist(two.url, `/v1/tasks/${long}/cancel`, {})).status).toBe(202);
    const cancelled = await follow(two.url, long);
    expect(cancelled.tree.tasks[long]?.status).toBe("cancelled");
  });

  it("killed at random behind a round-robin proxy: every client ends with the truth", {
    timeout: 600_000,
  }, async () => {
    const path = join(directory, "killed.db");
    const { int } = seededRandom(seed);
    const servers = await Promise.all([startProcess(path, 40), startProcess(path, 40)]);
    const ports = servers.map(({ port }) => port);
    const proxy = await roundRobin(ports);
    const kills = isDeep ? 100 : 12;
    let isOver = false;
    const killing = (async () => {
      for (let n = 0; n < kills; n++) {
        await new Promise((done) => setTimeout(done, int(100, 700)));
        const index = int(0, 1);
        await kill((servers[index] as (typeof servers)[0]).child);
        const fresh = await startProcess(path, 40);
        servers[index] = fresh;
        ports[index] = fresh.port;
      }
      isOver = true;
    })();
    let runs = 0;
    let connections = 0;
    const clients = Array.from({ length: 4 }, async (_, client) => {
      for (let n = 0; !isOver || n === 0; n++) {
        const isAsking = (client + n) % 2 === 0;
        const session_id = `s-${client}-${n}`;
        const start = { agent: isAsking ? "asking" : "lead", input: "Go.", session_id };
        const response = await insist(proxy.url, "/v1/tasks", {
          ...start,
          idempotency_key: session_id,
        });
        const { id } = await response.json();
        const done = await follow(proxy.url, id, async ({ type }, tree) => {
          if (type !== "task.suspended") return;
          const [waiting] = tree.tasks[id]?.approvals ?? [];
          const address = `/v1/tasks/${id}/approvals/${waiting?.approval_id}`;
          const answer = await insist(proxy.url, address, { decision: "approve" });
          expect(answer.status).toBe(202);
        });
        expectTruth(done.events, done.tree, isAsking ? "It is removed." : "both helpers");
        connections += done.connections;
        runs += 1;
      }
    });
    await Promise.all([killing, ...clients]);
    proxy.close();
    console.log(`${kills} kills, ${runs} runs, ${connections} connections`);
    for (const { child } of servers) await kill(child);
    const store = sqliteStore(path);
    const roots = (await store.tasks({})).filter(({ depth }) => depth === 0);
    expect(roots).toHaveLength(runs); // no start was lost or doubled
    expect(roots.every(({ status }) => status === "completed")).toBe(true);
    await store.close();
  });
});

it("a server killed in the middle of 50 runs and started again: every client reconnects and sees its run end", {
  timeout: 300_000,
}, async () => {
  const path = join(directory, "fifty.db");
  const first = await startProcess(path, 500);
  const ids = await Promise.all(
    Array.from({ length: 50 }, async (_, n) => {
      const body = { agent: "lead", input: "Go.", idempotency_key: `run ${n}` };
      const { id } = await (await insist(first.url, "/v1/tasks", body)).json();
      return id as string;
    }),
  );
  const connected = new Set<string>();
  const { promise, resolve: allConnected } = Promise.withResolvers<void>();
  const following = ids.map((id) =>
    follow(first.url, id, () => {
      if (connected.add(id).size === ids.length) allConnected();
    }),
  );
  await promise;
  await kill(first.child);
  const store = sqliteStore(path);
  const unfinished = (await store.tasks({ status: ["in_progress", "queued"] })).length;
  expect(unfinished).toBeGreaterThan(0);
  await store.close();
  await startProcess(path, 5, first.port);
  const done = await Promise.all(following);
  for (const { events, tree } of done) expectTruth(events, tree, "both helpers");
  const resumed = done.filter(({ connections }) => connections > 1).length;
  console.log(`${unfinished} unfinished tasks at the kill, ${resumed} clients reconnected`);
  expect(resumed).toBe(50);
});
