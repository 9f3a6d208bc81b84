import { request as rawRequest } from "node:http";
import { describe, expect, it } from "vitest";
import { openApp, routes } from "../../src/app/app.ts";
import { memoryStore } from "../../src/index.ts";
import { createApp, type Identity, serve } from "../../src/server.ts";
import { collect } from "../agent/support/collect.ts";
import { client, nested, scripted, startServer, stored, tokens, treeOf } from "./support/server.ts";

/** Sends a request with exactly these headers; `fetch` sets some itself. */
function raw(url: string, headers: Record<string, string>, method = "GET", path = "/v1/agents") {
  return new Promise<{ status: number; text: string; headers: Record<string, unknown> }>(
    (resolve, reject) => {
      const { hostname, port } = new URL(url);
      const options = { hostname, port, path, method, headers, agent: false };
      const sent = rawRequest(options, async (response) => {
        const text = (await collect(response)).join("");
        resolve({ status: response.statusCode ?? 0, text, headers: response.headers });
      });
      sent.on("error", reject);
      sent.end();
    },
  );
}

/** The address of a route, with ids that do not exist. */
function addressOf(path: string): string {
  return path.replace(/:\w+(\{\.\+\})?/g, "none");
}

describe("the table of routes", () => {
  it("has every route of the app", () => {
    const { agent } = scripted(["Hello."]);
    const { app } = openApp({ agents: [agent], token: tokens.ann, log: false });
    const registered = app.routes.map(({ method, path }) => `${method} ${path}`);
    expect(registered.toSorted()).toEqual(
      routes.map(({ method, path }) => `${method} ${path}`).toSorted(),
    );
    expect(routes.filter(({ needs }) => needs === "nothing").map(({ path }) => path)).toEqual([
      "/healthz",
      "/openapi.json",
    ]);
    const reading = routes.filter(({ needs }) => needs === "read");
    const changing = reading.filter(({ method }) => method !== "GET").map(({ path }) => path);
    expect(changing).toEqual(["/v1/cookie", "/v1/cookie"]); // of the caller itself
  });

  it("refuses every route without a credential, with a wrong one, and without the scope", async () => {
    const { agent } = scripted(["Hello."]);
    const server = await startServer({ agents: [agent] });
    for (const { method, path, needs } of routes) {
      const status = async (token?: string) => {
        const api = token === undefined ? client(server.url) : server.as(token);
        const body = method === "POST" ? {} : undefined;
        return (await api.send(method, addressOf(path), body)).status;
      };
      const label = `${method} ${path}`;
      if (needs === "nothing") {
        expect(await status(), label).toBe(200);
        continue;
      }
      expect(await status(), label).toBe(401);
      expect(await status("wrong-0123456789abcdef"), label).toBe(401);
      expect(await status(tokens.nothing), label).toBe(403);
      const isReader = await status(tokens.reader);
      if (needs !== "read") expect(isReader, label).toBe(403);
      else expect([200, 204, 400, 404], label).toContain(isReader);
    }
    expect((await client(server.url).get("/nothing/here")).status).toBe(401);
  });
});

it("shows another user's things exactly as things that do not exist", async () => {
  const store = memoryStore();
  const { agent: asking } = scripted([{ call: "remove", input: { path: "a" } }], {
    store,
    name: "asking",
  });
  const server = await startServer({ agents: [nested(store), asking] });
  const [ann, bob] = [server.as(tokens.ann), server.as(tokens.bob)];
  const { body: task } = await ann.post("/v1/tasks", {
    agent: "lead",
    input: "Go.",
    session_id: "s",
  });
  const tree = treeOf(await ann.frames(`/v1/tasks/${task.id}/events`));
  const [child = ""] = tree.tasks[task.id]?.children ?? [];
  const waiting = { agent: "asking", input: "Go.", session_id: "waits" };
  const { body: asked } = await ann.post("/v1/tasks", waiting);
  await ann.frames(`/v1/tasks/${asked.id}/events?until=idle`);
  const { approvals } = (await ann.get("/v1/sessions/waits/approvals")).body;
  const approval = approvals[0].approval_id;
  const sha = `sha256-${"0".repeat(64)}`;
  const pairs: [string, string, string, unknown?][] = [
    ["GET", `/v1/tasks/${task.id}`, "/v1/tasks/none"],
    ["GET", `/v1/tasks/${child}`, "/v1/tasks/none"],
    ["GET", `/v1/tasks/${task.id}/document`, "/v1/tasks/none/document"],
    ["GET", `/v1/tasks/${task.id}/events`, "/v1/tasks/none/events"],
    [
      "GET",
      `/v1/tasks/${task.id}/events?starting_after=3`,
      "/v1/tasks/none/events?starting_after=3",
    ],
    ["GET", `/v1/tasks/${child}/events`, "/v1/tasks/none/events"],
    ["GET", `/v1/tasks/${task.id}/blobs/${sha}`, `/v1/tasks/none/blobs/${sha}`],
    ["POST", `/v1/tasks/${task.id}/cancel`, "/v1/tasks/none/cancel", {}],
    ["POST", `/v1/tasks/${child}/cancel`, "/v1/tasks/none/cancel", {}],
    ["POST", `/v1/tasks/${task.id}/input`, "/v1/tasks/none/input", { input: "x" }],
    [
      "POST",
      `/v1/tasks/${asked.id}/approvals/${approval}`,
      `/v1/tasks/none/approvals/${approval}`,
      { decision: "approve" },
    ],
    ["GET", "/v1/sessions/s", "/v1/sessions/none"],
    ["GET", "/v1/sessions/s/export", "/v1/sessions/none/export"],
    ["GET", "/v1/sessions/waits/approvals", "/v1/sessions/none/approvals"],
    ["GET", "/v1/sessions/s/files", "/v1/sessions/none/files"],
    ["GET", "/v1/sessions/s/files/a.md", "/v1/sessions/none/files/a.md"],
    ["DELETE", "/v1/sessions/s", "/v1/sessions/none"],
  ];
  for (const [method, path, missing, body] of pairs) {
    const answers = await Promise.all(
      [path, missing].map(async (address) => {
        const response = await bob.send(method, address, body);
        const text = (await response.text())
          .replaceAll(/task_\w+|call_\w+|sess?\w*/g, "ID")
          .replaceAll(stored("", "bob"), "");
        return `${response.status} ${text.replace(/ (none|s|waits)\./g, " ID.")}`;
      }),
    );
    expect(answers[0], path).toMatch(/^404 /);
    expect(answers[0], path).toBe(answers[1]);
  }
  expect((await bob.get("/v1/sessions")).body).toEqual({ sessions: [] });
  expect((await bob.get("/v1/search?q=worker")).body).toEqual({ matches: [] });
  const answers = [
    {
      type: "answer",
      approvalId: approval,
      taskId: asked.id,
      rootTaskId: asked.id,
      decision: "approve",
    },
  ];
  const stolen = await bob.post("/v1/tasks", { agent: "asking", session_id: "waits", answers });
  expect(stolen.status).toBe(404);
  const joined = await bob.post("/v1/tasks", { agent: "lead", input: "Hi.", session_id: "s" });
  expect(joined).toMatchObject({ status: 201, body: { session_id: stored("s", "bob") } });
  expect((await ann.get(`/v1/tasks/${asked.id}`)).body.status).toBe("suspended");
  expect((await ann.get(`/v1/tasks/${task.id}`)).body.status).toBe("completed");
});

describe("a server without `auth`", () => {
  it("has a token of its own, which a page exchanges for a cookie", async () => {
    const { agent } = scripted(() => "Hello.");
    const server = await startServer({ agents: [agent], auth: undefined } as never);
    expect(server.token).toMatch(/^[\w-]{43}$/);
    expect((await client(server.url).get("/v1/agents")).status).toBe(401);
    const local = server.as(server.token);
    const response = await local.send("POST", "/v1/cookie");
    expect(response.status).toBe(204);
    const cookie = response.headers.get("set-cookie") ?? "";
    expect(cookie).toMatch(/; Path=\/; HttpOnly; SameSite=Strict; Max-Age=86400$/);
    const own = { cookie: `other=1; ${cookie.split(";")[0]}`, "sec-fetch-site": "same-origin" };
    expect((await client(server.url).get("/v1/agents", own)).status).toBe(200);
    const { body } = await client(server.url).post("/v1/tasks", { agent: "lead", input: "x" }, own);
    const frames = await client(server.url).frames(`/v1/tasks/${body.id}/events`, own);
    expect(frames.at(-1)).toMatchObject({ type: "stream.closed", final: true });
    const [line] = server.lines;
    expect(JSON.stringify(server.lines)).not.toContain(server.token);
    expect(line).toMatchObject({ method: "GET", path: "/v1/agents", status: 401 });
  });

  it("listens on this machine only, and createApp() wants to know who may call", async () => {
    const { agent } = scripted(["Hello."]);
    await expect(serve({ agents: [agent], host: "0.0.0.0", port: 0 })).rejects.toMatchObject({
      code: "invalid_settings",
    });
    expect(() => createApp({ agents: [agent] })).toThrow("`auth` or `token` is required");
    expect(() => createApp({ agents: [], token: tokens.ann })).toThrow("`agents` is empty");
    expect(() => createApp({ agents: [agent], token: "short" })).toThrow("`token` must be");
    expect(() =>
      createApp({ agents: [agent], auth: { tokens: { short: { userId: "a" } } } }),
    ).toThrow("too easy to guess");
    expect(() => createApp({ agents: [agent], tokn: "x" } as never)).toThrow("no option `tokn`");
  });

  it("answers only for the names of this machine", async () => {
    const { agent } = scripted(["Hello."]);
    const server = await startServer({ agents: [agent], auth: undefined } as never);
    const { port } = new URL(server.url);
    const authorization = `Bearer ${server.token}`;
    for (const host of ["localhost", `localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`])
      expect((await raw(server.url, { host, authorization })).status, host).toBe(200);
    const foreign = [
      ...[
        "evil.test",
        `evil.test:${port}`,
        "localhost.evil.test",
        "localhost.",
        "127.0.0.1.evil.test",
      ],
      ...[
        "0.0.0.0",
        `0.0.0.0:${port}`,
        "[::ffff:7f00:1]",
        "127.1",
        "2130706433",
        "127.0.0.2",
        "::1",
      ],
      ...["localhost@evil.test", "localhost:80:80", "xn--localhost", "LOCALHOST.evil"],
    ];
    for (const host of foreign) {
      const { status, text } = await raw(server.url, { host, authorization });
      expect([400, 403], `${host}: ${text}`).toContain(status);
    }
    // A load balancer asks for the health of a machine by its address.
    expect((await raw(server.url, { host: "10.0.0.7" }, "GET", "/healthz")).status).toBe(200);
  });
});

it("answers everything with `nosniff` and an id", async () => {
  const { agent } = scripted(() => "Hello.");
  const server = await startServer({ agents: [agent], adapters: ["agentscope", "a2a"] });
  const ann = server.as(tokens.ann);
  const { body } = await ann.post("/v1/tasks", { agent: "lead", input: "x" });
  const addresses = routes.map(({ method, path }) => [method, addressOf(path)] as const);
  const others = [
    ["GET", "/nothing/here"],
    ["PUT", "/v1/agents"],
    ["OPTIONS", "/v1/agents"],
    ["GET", `/v1/tasks/${body.id}`],
    ["GET", `/v1/tasks/${body.id}/events`],
    ["GET", `/tasks/${body.id}/events`],
    ["GET", "/.well-known/agent-card.json"],
    ["POST", "/a2a/lead"],
    ["GET", "/v1/agents?token=x"],
  ] as const;
  for (const [method, path] of [...addresses, ...others]) {
    for (const api of [ann, client(server.url)]) {
      const sent = method === "POST" ? {} : undefined;
      const { headers, body: rest } = await api.send(method, path, sent);
      expect(headers.get("x-content-type-options"), `${method} ${path}`).toBe("nosniff");
      expect(headers.get("x-request-id"), `${method} ${path}`).toMatch(/^[\w-]{36}$/);
      await rest?.cancel();
    }
  }
});

describe("pages of other origins", () => {
  const foreign = [
    ...["https://evil.test", "null", "http://localhost", "http://localhost:1", "file://"],
    ...["http://127.0.0.1.evil.test", "https://app.example.evil.test", "https://app.example:444"],
    ...["http://app.example", "https://APP.example.", "*", "https://app.example/"],
  ];

  it("are refused, with and without a preflight", async () => {
    const { agent } = scripted(() => "Hello.");
    const server = await startServer({ agents: [agent] });
    const authorization = `Bearer ${tokens.ann}`;
    for (const origin of foreign) {
      const { status, headers } = await raw(server.url, { authorization, origin });
      expect(status, origin).toBe(403);
      expect(headers["access-control-allow-origin"], origin).toBeUndefined();
      const preflight = await raw(
        server.url,
        { origin, "access-control-request-method": "POST" },
        "OPTIONS",
      );
      expect(preflight.headers["access-control-allow-origin"], origin).toBeUndefined();
    }
    for (const site of ["cross-site", "same-site"])
      expect((await raw(server.url, { authorization, "sec-fetch-site": site })).status).toBe(403);
    expect((await raw(server.url, { authorization, origin: server.url })).status).toBe(200);
  });

  it("may call when they are listed, exactly", async () => {
    const { agent } = scripted(() => "Hello.");
    const origins = ["https://app.example"];
    const server = await startServer({ agents: [agent], origins });
    const authorization = `Bearer ${tokens.ann}`;
    for (const origin of foreign)
      expect((await raw(server.url, { authorization, origin })).status, origin).toBe(403);
    const headers = { origin: "https://app.example", "sec-fetch-site": "cross-site" };
    const allowed = await raw(server.url, { ...headers, authorization });
    expect(allowed.status).toBe(200);
    expect(allowed.headers["access-control-allow-origin"]).toBe("https://app.example");
    expect(allowed.headers["access-control-allow-credentials"]).toBeUndefined();
    const preflight = await raw(
      server.url,
      { ...headers, "access-control-request-method": "POST" },
      "OPTIONS",
    );
    expect(preflight.status).toBe(204);
    expect(preflight.headers["access-control-allow-headers"]).toContain("mcp-session-id");
    expect(preflight.headers["access-control-allow-headers"]).toContain("last-event-id");
    expect(() =>
      createApp({ agents: [agent], token: tokens.ann, origins: ["app.example"] }),
    ).toThrow("an origin");
  });

  it("cannot start anything with a form", async () => {
    const { agent, store } = scripted(() => "Hello.");
    const server = await startServer({ agents: [agent] });
    const body = JSON.stringify({ agent: "lead", input: "x" });
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data",
      "",
    ]) {
      const { status } = await server
        .as(tokens.ann)
        .post("/v1/tasks", body, { "content-type": type });
      expect(status, type).toBe(415);
    }
    expect(await store.tasks({})).toEqual([]);
  });
});

it("refuses tokens in addresses, and logs no secret", async () => {
  const { agent } = scripted(() => "Hello.");
  const server = await startServer({ agents: [agent] });
  for (const name of [
    "token",
    "access_token",
    "ACCESS_TOKEN",
    "api_key",
    "apikey",
    "authorization",
    "jwt",
  ]) {
    const { status, text } = await server.as(tokens.ann).get(`/v1/agents?${name}=${tokens.ann}`);
    expect(status, name).toBe(400);
    expect(text).not.toContain(tokens.ann);
  }
  await server.as(tokens.ann).get(`/v1/tasks/${tokens.ann}`);
  expect(server.lines).toHaveLength(8);
  expect(JSON.stringify(server.lines)).not.toContain(tokens.ann);
  // Tokens of other users, JSON Web Tokens, cookies, and any long segment of an address that does not exist.
  const foreign = `eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl`;
  const cookie = `${"a".repeat(16)}.${"b".repeat(43)}`;
  const paths = [
    ...[tokens.bob, encodeURIComponent(tokens.bob), foreign, cookie].map(
      (one) => `/v1/tasks/${one}`,
    ),
    ...["/hooks/some-key-0123456789", `/v1/tasks/x/${tokens.reader}/y`],
  ];
  for (const path of paths) await server.as(tokens.ann).get(path);
  await client(server.url).get(`/v1/tasks/${tokens.bob}`);
  const logged = server.lines.slice(8);
  expect(logged).toHaveLength(paths.length + 1);
  for (const { path } of logged) expect(path).toContain("[secret]");
  for (const secret of [tokens.bob, tokens.reader, foreign, cookie, "some-key-0123456789"])
    expect(JSON.stringify(logged)).not.toContain(secret);
});

it("asks a function of the operator, and never believes a header", async () => {
  const { agent } = scripted(() => "Hello.");
  const users = new Map<string, unknown>([
    ["a", { userId: "ann" }],
    ["slash", { userId: "a/b" }],
    ["bad", { userId: "a\u0000b" }],
    ["long", { userId: "x".repeat(257) }],
    ["scopes", { userId: "ann", scopes: "write" }],
  ]);
  const authenticate = async (request: Request) =>
    users.get(request.headers.get("x-key") ?? "") as Identity | undefined;
  const server = await startServer({ agents: [agent], auth: { authenticate } });
  const api = client(server.url);
  expect((await api.get("/v1/agents", { "x-key": "a" })).status).toBe(200);
  expect((await api.get("/v1/agents", { "x-user-id": "ann" })).status).toBe(401);
  expect((await api.get("/v1/agents", { "x-key": "slash" })).status).toBe(200);
  for (const key of ["bad", "long", "scopes"]) {
    expect((await api.get("/v1/agents", { "x-key": key })).status, key).toBe(500);
    expect(server.lines.at(-1)).toMatchObject({ error: "authenticate_failed" });
  }
  const { body } = await api.post(
    "/v1/tasks",
    { agent: "lead", input: "x" },
    { "x-key": "a", "x-user-id": "bob" },
  );
  expect((await api.get(`/v1/tasks/${body.id}`, { "x-key": "a" })).status).toBe(200);
  expect(server.lines.at(-1)).toMatchObject({ user_id: "ann" });
});

it("limits the requests and the streams of each user", async () => {
  const { agent } = scripted(() => [{ text: "x" }, { hang: true }]);
  const limits = { requestsPerSecond: 1, streams: 2 };
  const server = await startServer({ agents: [agent], limits });
  const [ann, bob] = [server.as(tokens.ann), server.as(tokens.bob)];
  const { body } = await ann.post("/v1/tasks", { agent: "lead", input: "x" });
  const open = () => ann.send("GET", `/v1/tasks/${body.id}/events`);
  const streams = [await open(), await open()];
  expect(await (await open()).json()).toMatchObject({ error: { code: "too_many_streams" } });
  await streams[0]?.body?.cancel();
  const statuses: number[] = [];
  for (let n = 0; n < 10; n++) statuses.push((await ann.get("/v1/agents")).status);
  expect(statuses[0]).toBe(200);
  expect(statuses.at(-1)).toBe(429);
  expect((await ann.get("/v1/agents")).headers.get("retry-after")).toBe("1");
  expect((await bob.get("/v1/agents")).status).toBe(200);
  await streams[1]?.body?.cancel();
});
