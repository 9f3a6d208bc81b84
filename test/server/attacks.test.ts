import { once } from "node:events";
import { Agent, request } from "node:http";
import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { routes } from "../../src/app/app.ts";
import { memoryStore } from "../../src/index.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { seededRandom } from "../support/random.ts";
import { seed } from "../support/seed.ts";
import { unlimited } from "../support/unlimited.ts";
import { nested, scripted, startServer, tokens } from "./support/server.ts";

const count = isDeep ? 200_000 : 6_000;
const limits = unlimited;

/** A server with a finished run of ann, which has a canary of bob beside it. */
async function world() {
  const store = memoryStore();
  const { agent } = scripted(() => "Hello.", { store, name: "bobs" });
  const server = await startServer({ agents: [nested(store), agent], limits, heartbeatMs: 1_000 });
  const bob = await server
    .as(tokens.bob)
    .post("/v1/tasks", { agent: "bobs", input: "The canary of bob.", session_id: "bob-session" });
  await server.as(tokens.bob).frames(`/v1/tasks/${bob.body.id}/events`);
  const ann = await server
    .as(tokens.ann)
    .post("/v1/tasks", { agent: "lead", input: "Go.", session_id: "s" });
  await server.as(tokens.ann).frames(`/v1/tasks/${ann.body.id}/events`);
  return { server, store, annId: ann.body.id as string, bobId: bob.body.id as string };
}

/** Sends bytes on a socket and returns what comes back until the server closes it or is silent. */
async function sendRaw(url: string, bytes: string | Buffer, silenceMs = 1_000): Promise<string> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  let text = "";
  socket.setTimeout(silenceMs, () => socket.destroy());
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
  });
  socket.on("error", () => {});
  socket.write(bytes);
  await once(socket, "close").catch(() => {});
  return text;
}

const nasty = [
  ...[
    "\r\nx-evil: 1",
    "a\nb",
    "a\rb",
    "\u0000",
    "\u2028",
    "\ud800",
    "\u{1f600}",
    "é",
    "%0d%0a",
    "%00",
    "%",
  ],
  ...[
    "../../etc/passwd",
    "..\\..",
    "//",
    "a/b",
    "__proto__",
    "constructor",
    "toString",
    "null",
    "-1",
    "1e9",
  ],
  ...["<script>alert(1)</script>", "' OR 1=1 --", "$(id)", "x".repeat(200), "x".repeat(5_000), ""],
];

describe("strings with line ends and other traps", () => {
  it("never reach a header, a log line or another frame", async () => {
    const { server } = await world();
    const ann = server.as(tokens.ann);
    for (const trap of nasty) {
      const session_id = trap.slice(0, 100);
      const texts = {
        input: trap || "x",
        metadata: { [trap]: trap },
        idempotency_key: trap || "k",
      };
      const bodies = [
        { agent: "lead", ...texts, session_id },
        { agent: trap, input: "x" },
        { agent: "lead", input: [{ role: "user", content: trap, name: trap }], task_id: trap },
        { agent: "lead", input: "x", on_busy: trap },
        { agent: "lead", input: { role: trap, content: trap } },
      ];
      for (const body of bodies) {
        const answer = await ann.post("/v1/tasks", body);
        expect(answer.status, JSON.stringify(body).slice(0, 200)).not.toBe(500);
        expect(answer.headers.get("x-evil")).toBeNull();
        if (answer.status > 201) continue;
        const { text } = await ann.get(`/v1/tasks/${answer.body.id}/events`);
        for (const line of text.split("\n"))
          expect(line).toMatch(/^$|^(id: \d+|event: [\w.]+|data: \{.*\}|retry: \d+|: .*)$/s);
        expect(text).not.toContain("\r");
      }
      for (const { path, method } of routes) {
        const address = path.replace(/:\w+(\{\.\+\})?/g, () =>
          encodeURIComponent(trap.toWellFormed()),
        );
        const answer = await ann.send(method, address, method === "POST" ? {} : undefined);
        expect(answer.status, `${method} ${address}`).not.toBe(500);
        expect(answer.headers.get("x-evil")).toBeNull();
        await answer.body?.cancel();
      }
      const query = encodeURIComponent(trap.toWellFormed());
      for (const key of ["starting_after", "path", "include", "until", "from", "depth"]) {
        const answer = await ann.send("GET", `/v1/sessions?${key}=${query}`);
        expect(answer.status).toBe(400);
        await answer.body?.cancel();
      }
    }
    for (const line of server.lines) expect(JSON.stringify(line)).not.toMatch(/[\r\n]/);
  });
});

describe("bodies", () => {
  it("that are too large, too deep, broken, compressed or not what they say are refused", async () => {
    const { server, store } = await world();
    const ann = server.as(tokens.ann);
    const tasks = (await store.tasks({})).length;
    const deep = (levels: number) =>
      `{"agent":"lead","metadata":{"a":${"[".repeat(levels)}${"]".repeat(levels)}}}`;
    const cases: [string, number, Record<string, string>?][] = [
      [`{"agent":"lead","input":"${"x".repeat(1_100_000)}"}`, 413],
      [deep(70), 400],
      [deep(200_000), 400],
      ["", 400],
      ["{", 400],
      ["[]", 400],
      ["null", 400],
      ['"text"', 400],
      ['{"agent":"lead","__proto__":{"stream":true}}', 400],
      ['{"agent":"lead","input":"x","metadata":{"__proto__":{"a":1}}}', 400],
      ['{"agent":"lead","input":"x"}', 415, { "content-encoding": "gzip" }],
      ['{"agent":"lead","input":"x"}', 415, { "content-type": "text/plain" }],
    ];
    for (const [body, status, headers = {}] of cases) {
      const answer = await ann.post("/v1/tasks", body, headers);
      expect(answer.status, body.slice(0, 60)).toBe(status);
      expect(answer.body.error.code).not.toBe("internal");
    }
    const bytes = Buffer.from([0x7b, 0xff, 0xfe, 0x7d]);
    const broken = await fetch(`${server.url}/v1/tasks`, {
      method: "POST",
      headers: { authorization: `Bearer ${tokens.ann}`, "content-type": "application/json" },
      body: bytes,
    });
    expect(broken.status).toBe(400);
    expect(await store.tasks({})).toHaveLength(tasks);
    expect(({} as { stream?: unknown }).stream).toBeUndefined();
  });

  it("that are sent without a length and never end are cut at the limit", async () => {
    const { server } = await world();
    const head = [
      "POST /v1/tasks HTTP/1.1",
      "host: localhost",
      `authorization: Bearer ${tokens.ann}`,
    ];
    const lines = [...head, "content-type: application/json", "transfer-encoding: chunked", "", ""];
    const chunk = `10000\r\n${"x".repeat(65_536)}\r\n`;
    const answer = await sendRaw(server.url, lines.join("\r\n") + chunk.repeat(40));
    expect(answer).toMatch(/^HTTP\/1\.1 413 /);
  });
});

describe("raw sockets", () => {
  it("get an answer or are closed, whatever they send", async () => {
    const { server } = await world();
    const host = "host: localhost";
    const cases = [
      "\r\n\r\n",
      "GET",
      "GET / HTTP/9.9\r\n\r\n",
      `GET /../../etc/passwd HTTP/1.1\r\n${host}\r\nconnection: close\r\n\r\n`,
      `GET /v1\\..\\x HTTP/1.1\r\n${host}\r\nconnection: close\r\n\r\n`,
      `GET http://evil.test/v1/agents HTTP/1.1\r\n${host}\r\nconnection: close\r\n\r\n`,
      `GET * HTTP/1.1\r\n${host}\r\nconnection: close\r\n\r\n`,
      `CONNECT evil.test:80 HTTP/1.1\r\n${host}\r\n\r\n`,
      `GET /v1/agents HTTP/1.1\r\n${host}\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n`,
      `GET /v1/agents HTTP/1.1\r\n${host}\r\n${host}\r\nhost: evil.test\r\nconnection: close\r\n\r\n`,
      `GET /v1/agents HTTP/1.1\r\nconnection: close\r\n\r\n`,
      `GET /v1/agents HTTP/1.0\r\n\r\n`,
      `GET /v1/agents HTTP/1.1\r\n${host}\r\nx: ${"y".repeat(40_000)}\r\n\r\n`,
      `GET /v1/agents HTTP/1.1\r\n${host}\r\n${"x: y\r\n".repeat(10_000)}\r\n`,
      `POST /v1/tasks HTTP/1.1\r\n${host}\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/agents HTTP/1.1\r\n\r\n`,
      `POST /v1/tasks HTTP/1.1\r\n${host}\r\ncontent-length: -5\r\n\r\n`,
      `POST /v1/tasks HTTP/1.1\r\n${host}\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef`,
      `POST /v1/tasks HTTP/1.1\r\n${host}\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n`,
      Buffer.from(Array.from({ length: 5_000 }, (_, n) => (n * 7919) % 256)),
    ];
    for (const bytes of cases) {
      const answer = await sendRaw(server.url, bytes, 300);
      expect(answer, String(bytes).slice(0, 80)).not.toMatch(/^HTTP\/1\.1 (2|5\d\d)/);
    }
    expect((await server.as(tokens.ann).get("/healthz")).status).toBe(200);
  });

  it("that send slowly do not keep others waiting, and are closed", {
    timeout: 60_000,
  }, async () => {
    const { server } = await world();
    const { port } = new URL(server.url);
    const slow = Array.from({ length: 200 }, () => {
      const socket = connect(Number(port), "127.0.0.1");
      socket.on("error", () => {});
      socket.write("GET /v1/agents HTTP/1.1\r\nhost: localhost\r\n");
      return socket;
    });
    const closed = Promise.all(slow.map((socket) => once(socket.resume(), "close")));
    const drip = setInterval(() => {
      for (const socket of slow) if (!socket.destroyed) socket.write("x: y\r\n");
    }, 500);
    expect((await server.as(tokens.ann).get("/v1/agents")).status).toBe(200);
    await closed;
    clearInterval(drip);
    expect((await server.as(tokens.ann).get("/v1/agents")).status).toBe(200);
  });
});

it("takes no source, user or event from a request", async () => {
  const { server, store, annId } = await world();
  const ann = server.as(tokens.ann);
  const source = { agentId: "lead", depth: 0, path: "bob-session", taskId: annId };
  const forged = [
    { agent: "lead", input: { role: "user", content: "x", source, userId: "bob" } },
    { agent: "lead", input: { role: "user", content: "x", metadata: { taskId: annId, source } } },
    {
      agent: "lead",
      input: [{ type: "task.completed", task_id: annId, task: { status: "failed" } }],
    },
    { agent: "lead", input: "x", user_id: "bob" },
    { agent: "lead", input: "x", source },
    { agent: "lead", input: "x", parent_task_id: annId },
  ];
  for (const body of forged) {
    const { status, body: answer } = await ann.post("/v1/tasks", body);
    if (status !== 201) {
      expect(status).toBe(400);
      continue;
    }
    const record = await store.task(answer.id);
    expect(record).toMatchObject({ userId: "ann", depth: 0, rootTaskId: answer.id });
    const frames = await ann.frames(`/v1/tasks/${answer.id}/events`);
    const roots = frames.filter((frame) => "task_id" in frame && frame.task_id === answer.id);
    expect(roots.every((frame) => !("source" in frame))).toBe(true);
  }
});

it(`survives ${count} fuzzed requests: no crash, no 500, no leak`, {
  timeout: isDeep ? 3_600_000 : 300_000,
}, async () => {
  const { server, annId, bobId } = await world();
  console.log(`fuzz seed ${seed}`);
  const { next, pick } = seededRandom(seed);
  const { port } = new URL(server.url);
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const ids = [annId, bobId, "s", "bob-session", "none", ...nasty];
  const values = [
    ...ids,
    0,
    -1,
    7,
    null,
    true,
    false,
    [],
    {},
    ["x"],
    { a: 1 },
    "lead",
    "bobs",
    "now",
    "root",
  ];
  /** Values that fit, so that most requests get past the first checks. */
  const fitting: Record<string, readonly unknown[]> = {
    agent: ["lead", "bobs"],
    input: ["x", { role: "user", content: "x" }, ["x", "y"], ...nasty],
    session_id: ["s", "t", "u", "bob-session", ...nasty.filter((text) => text.length < 129)],
    task_id: ["task_a", "task_b", annId, bobId],
    idempotency_key: ["a", "b", "\u0000", "é"],
    on_busy: ["fail", "queue"],
    on_suspended: ["fail", "deny"],
    output: [
      { type: "object" },
      { $ref: "#/x" },
      { type: "object", properties: { a: { pattern: "(" } } },
    ],
    budget: [{ tokens: 1 }, { iterations: 1 }, { cost: 1 }],
    answers: [
      [],
      [{ type: "answer", approvalId: "apr_1", taskId: annId, rootTaskId: annId, decision: "deny" }],
    ],
    decision: ["approve", "deny", "edit", "answer"],
    metadata: [{}, { a: { b: [1] } }],
    starting_after: [-1, 0, 5, 50, 100_000],
    depth: [0, 1, 2],
    path: ["s", "s/helper", "notes", ""],
    include: ["message", "reasoning,message", ","],
    exclude: ["message", "tool_call"],
    until: ["root", "tree", "idle"],
    from: ["now", 0, 1],
    limit: [1, 10],
    q: ["river", "worker", '"', "*", "a OR b", "NEAR("],
  };
  const headerNames = [
    "last-event-id",
    "range",
    "if-none-match",
    "origin",
    "accept-encoding",
    "content-type",
    "cookie",
    "sec-fetch-site",
    "x-forwarded-host",
  ];
  const clean = (text: string) => text.replace(/[^\t\x20-\x7e\x80-\xff]/g, "?");

  /** A few of the declared fields with values, and now and then one that is not declared. */
  function fieldsOf(shape: object, required: readonly string[]): [string, unknown][] {
    const names = [...Object.keys(shape), ...(next() < 0.05 ? ["x", "token"] : [])];
    const chosen = new Set([
      ...(next() < 0.95 ? required : []),
      ...names.filter(() => next() < 2 / names.length),
    ]);
    return [...chosen].map((name) => {
      const fits = fitting[name] ?? [true, false, "x"];
      return [name, pick(next() < 0.9 ? fits : values)];
    });
  }

  function make() {
    const route = pick(routes);
    const path =
      next() < 0.05 ? `/${encodeURIComponent(String(pick(nasty)).toWellFormed())}` : route.path;
    const known = path.includes("/sessions/") ? ["s", "t", "bob-session"] : [annId, annId, bobId];
    const address = path.replace(/:\w+(\{\.\+\})?/g, () => {
      const id = pick(next() < 0.8 ? known : ids);
      return encodeURIComponent(String(id).toWellFormed()).slice(0, 3_000);
    });
    const query = fieldsOf(route.query ?? {}, []).map(
      ([name, value]) =>
        `${name}=${encodeURIComponent(String(value).toWellFormed()).slice(0, 3_000)}`,
    );
    const headers: Record<string, string> = { "content-type": "application/json" };
    const token = next() < 0.9 ? tokens.ann : pick([tokens.reader, "x", undefined]);
    if (token) headers.authorization = `Bearer ${token}`;
    if (next() < 0.3) headers[pick(headerNames)] = clean(String(pick(values))).slice(0, 1_000);
    const required = route.path === "/v1/tasks" ? ["agent", "input"] : ["decision"];
    const fields = fieldsOf(
      route.body ?? {},
      required.filter((name) => name in (route.body ?? {})),
    );
    const json = JSON.stringify(Object.fromEntries(fields));
    const body = next() < 0.97 ? json : json.slice(0, Math.floor(next() * json.length));
    const method =
      next() < 0.97
        ? route.method
        : pick(["GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"]);
    return {
      method,
      path: `${address}${query.length > 0 ? `?${query.join("&")}` : ""}`,
      headers,
      body,
      token,
    };
  }

  function send({
    method,
    path,
    headers,
    body,
  }: ReturnType<typeof make>): Promise<{ status: number; text: string }> {
    return new Promise((resolve, reject) => {
      const hasBody = method !== "GET" && method !== "HEAD";
      const sent = request({
        port,
        host: "127.0.0.1",
        method,
        path,
        headers: { ...headers, ...(hasBody && { "content-length": Buffer.byteLength(body) }) },
        agent,
      });
      sent.on("response", (response) => {
        let text = "";
        const done = () => resolve({ status: response.statusCode ?? 0, text });
        response.on("data", (chunk) => {
          text += chunk.toString("latin1");
          // A stream of a task that goes on.
          if (text.length > 20_000) {
            response.destroy();
            done();
          }
        });
        response.on("end", done);
        response.on("error", reject);
      });
      sent.on("error", reject);
      sent.end(hasBody ? body : undefined);
    });
  }

  const statuses = new Map<number, number>();
  let left = count;
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      while (left-- > 0) {
        const one = make();
        const { status, text } = await send(one);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        if (status >= 500 || text.includes("canary of bob"))
          throw new Error(
            `${status} for ${JSON.stringify(one).slice(0, 2_000)}: ${text.slice(0, 500)}`,
          );
        if (text.includes(tokens.ann) || /\n {4}at /.test(text)) throw new Error(`a leak: ${text}`);
      }
    }),
  );
  agent.destroy();
  console.log(
    `statuses: ${[...statuses]
      .toSorted()
      .map(([status, n]) => `${status}: ${n}`)
      .join(", ")}`,
  );
  expect((await server.as(tokens.ann).get("/healthz")).status).toBe(200);
  expect((await server.as(tokens.bob).get(`/v1/tasks/${bobId}`)).body.status).toBe("completed");
  expect(server.lines.some(({ status }) => status >= 500)).toBe(false);
  expect(JSON.stringify(server.lines)).not.toContain(tokens.ann);
});
