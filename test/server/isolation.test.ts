import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { openApp } from "../../src/app/app.ts";
import type { TaskRecord } from "../../src/contract/index.ts";
import {
  type Agent,
  HarnessAgent,
  type HarnessAgentOptions,
  memoryStore,
  ReActAgent,
  type Store,
  tool,
} from "../../src/index.ts";
import { postgresStore } from "../../src/postgres.ts";
import { isTerminal } from "../../src/protocol/index.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { scriptedModel } from "../../src/testing.ts";
import { readLog } from "../agent/support/laws.ts";
import { newSchema } from "../store/postgres/create-postgres-store.ts";
import { createFolder, removeFolder } from "../store/support/folder.ts";
import { keepEvents } from "../support/keep-events.ts";
import { hasPostgres, type PostgresServer, startPostgres } from "../support/postgres-server.ts";
import { unlimited } from "../support/unlimited.ts";
import { nested, scripted, stored, tokens } from "./support/server.ts";

const canary = "canary-of-ann";
const key = "order 7";

/** Something of ann, by every id that reaches it for her: given, stored and minted ones, and those that can be computed. */
interface Ids {
  readonly task: readonly string[];
  readonly session: readonly string[];
  readonly approval: readonly string[];
  readonly blob: readonly string[];
  readonly file: readonly string[];
}
type Kind = keyof Ids;

/** Ids of the same form that do not exist. */
const missing: Readonly<Record<Kind, string>> = {
  ...{ task: "task_none", session: "none", approval: "apr_none", file: "none.md" },
  blob: `sha256-${"0".repeat(64)}`,
};

/** The bodies and queries of a route for one choice of ids; a text is the reason why a route shows nothing of a user. */
type Row = string | ((ids: Readonly<Record<Kind, string>>) => readonly Sent[]);
interface Sent {
  readonly query?: string;
  readonly body?: object;
}

const asIs: Row = () => [{}];
const start = { agent: "lead", input: "Go." };
const rpc = (method: string, params: object) => ({
  body: { jsonrpc: "2.0", id: 1, method, params },
});
const message = (more: object) => ({
  message: { messageId: "m", role: "ROLE_USER", parts: [{ text: "approve" }], ...more },
});
const mcpTool = (name: string, given: object) => rpc("tools/call", { name, arguments: given });
const publicRoute = "public, and holds no data of users";

/** One row for each route of the server. */
const rows: Readonly<Record<string, Row>> = {
  "GET /healthz": publicRoute,
  "GET /openapi.json": publicRoute,
  "GET /metrics": "figures of the process, without names of users",
  "GET /.well-known/agent-card.json": publicRoute,
  "GET /a2a/:agent/.well-known/agent-card.json": publicRoute,
  "POST /v1/cookie": "gives the caller a session of its own",
  "DELETE /v1/cookie": "ends the session of the caller's own cookie",
  "GET /v1/agents": "the same for all users",
  "POST /v1/tasks": ({ task, session, approval }) => {
    const answer = { type: "answer", approvalId: approval, decision: "approve" };
    return [
      { body: { ...start, task_id: task } },
      { body: { ...start, session_id: session } },
      { body: { ...start, session_id: session, on_suspended: "deny" } },
      { body: { ...start, session_id: session, model: "scripted:scripted" } },
      { body: { agent: "asking", session_id: session } },
      { body: { ...start, idempotency_key: key } },
      { body: { ...start, via: { stores: [task.slice(0, 64)], depth: 1 } } },
      { body: { agent: "asking", answers: [{ ...answer, taskId: task, rootTaskId: task }] } },
      {
        body: {
          ...{ agent: "asking", session_id: session },
          answers: [{ ...answer, taskId: task, rootTaskId: task }],
        },
      },
    ];
  },
  "GET /v1/tasks/:id": asIs,
  "GET /v1/tasks/:id/document": asIs,
  "GET /v1/tasks/:id/events": ({ session }) => [
    {},
    { query: "from=now" },
    { query: "starting_after=3" },
    { query: `path=${encodeURIComponent(session)}` },
  ],
  "GET /v1/tasks/:id/prompts": () => [{}, { query: "iteration=1" }],
  "GET /v1/tasks/:id/blobs/:name": asIs,
  "POST /v1/tasks/:id/input": () => [{ body: { input: "x" } }],
  "POST /v1/tasks/:id/cancel": () => [{ body: {} }],
  "POST /v1/tasks/:id/retry": ({ task }) => [{}, { body: { task_id: task } }],
  "POST /v1/tasks/:id/approvals/:approval_id": ({ task }) => [
    { body: { decision: "approve" } },
    { body: { decision: "deny", taskId: task, rootTaskId: task } },
  ],
  "GET /v1/sessions": ({ session }) => [{}, { query: `before=${encodeURIComponent(session)}` }],
  "GET /v1/search": () => [{ query: `q=${canary}` }, { query: "q=canary" }],
  "GET /v1/sessions/:id": () => [{}, { query: "from=0&limit=1" }],
  "DELETE /v1/sessions/:id": asIs,
  "POST /v1/sessions/:id/fork": ({ task, session }) => [
    { body: { task_id: task } },
    { body: { task_id: task, session_id: session } },
  ],
  "GET /v1/sessions/:id/export": asIs,
  "GET /v1/sessions/:id/approvals": asIs,
  "GET /v1/sessions/:id/files": () => [{}, { query: "path=." }],
  "GET /v1/sessions/:id/files/:path{.+}": asIs,
  "GET /v1/approvals": ({ session }) => [
    {},
    { query: `before=${encodeURIComponent(session)}` },
    { query: "all=true" },
  ],
  "GET /v1/nodes": asIs,
  "GET /v1/usage": ({ session }) => [
    { query: "by=agent,path,session,user" },
    { query: "user=ann" },
    { query: `before=${encodeURIComponent(session)}` },
  ],
  "POST /v1/sessions/:id/move": () => [{ body: { place: "" } }, { body: { version: "2" } }],
  "POST /tasks": ({ task }) => [{ body: { task_id: task, agent_id: "lead", input: "Go." } }],
  "GET /tasks/:id": asIs,
  "GET /tasks/:id/wait": () => [{ query: "timeout_seconds=0" }],
  "GET /tasks/:id/events": () => [{}, { query: "from_seq=1" }],
  "POST /tasks/:id/cancel": asIs,
  "POST /tasks/:id/resume": () => [{ body: { decisions: [] } }],
  "POST /api/chat": ({ task, session }) => {
    const question = { id: "m", role: "user", parts: [{ type: "text", text: "Go." }] };
    const answer = { id: task, role: "assistant", parts: [{ type: "text", text: "Gone." }] };
    return [
      { body: { id: session, messages: [question] } },
      { body: { id: session, messages: [question, answer] } },
      {
        body: {
          id: session,
          trigger: "regenerate-message",
          messages: [question, answer, question],
        },
      },
      {
        body: { id: "chat", trigger: "regenerate-message", messages: [question, answer, question] },
      },
    ];
  },
  "GET /api/chat/:id/stream": asIs,
  "POST /api/chat/:id/stop": () => [{ body: {} }],
  "POST /agui/:agent/stop": ({ session }) => [{ body: { threadId: session } }],
  "POST /agui/:agent": ({ session, approval }) => {
    const run = { threadId: session, runId: "run", messages: [{ role: "user", content: "Go." }] };
    const resume = [{ interruptId: approval, status: "resolved", payload: { approved: true } }];
    return [{ body: run }, { body: { ...run, messages: [], resume } }];
  },
  "GET /openai/v1/models": "the same for all users",
  "POST /openai/v1/responses": ({ task, session }) => {
    const named = { model: "lead", input: "Go.", background: true };
    const response = `resp_${task.replace(/^task_/, "")}`;
    const output = { type: "function_call_output", call_id: "call_1", output: "x" };
    return [
      { body: { ...named, conversation: session } },
      { body: { ...named, previous_response_id: response } },
      { body: { ...named, previous_response_id: response, input: [output] } },
    ];
  },
  "GET /openai/v1/responses/:id": () => [{}, { query: "stream=true&starting_after=1" }],
  "GET /openai/v1/responses/:id/input_items": asIs,
  "POST /openai/v1/responses/:id/cancel": asIs,
  "DELETE /openai/v1/responses/:id": asIs,
  "POST /mcp": ({ task, session, approval }) => {
    const begin = { agent: "lead", message: "Go." };
    return [
      mcpTool("agent_get", { task_id: task }),
      mcpTool("agent_cancel", { task_id: task }),
      mcpTool("agent_update", { task_id: task, message: "x" }),
      mcpTool("agent_update", {
        task_id: task,
        answers: [{ approval_id: approval, decision: "approve" }],
      }),
      mcpTool("agent_start", { ...begin, session }),
      mcpTool("agent_start", { ...begin, idempotency_key: key }),
    ];
  },
  "GET /mcp": asIs,
  "DELETE /mcp": asIs,
  "POST /a2a/:agent": ({ task, session }) => [
    rpc("GetTask", { id: task }),
    rpc("CancelTask", { id: task }),
    rpc("SubscribeToTask", { id: task }),
    rpc("ListTasks", { contextId: session }),
    rpc("SendMessage", message({ taskId: task })),
    rpc("SendMessage", message({ contextId: session })),
    rpc("SendMessage", message({ taskId: task, contextId: session })),
  ],
};

const adapters = ["a2a", "agentscope", "ag-ui", "ai-sdk", "mcp", "responses"] as const;

/** The stores of the nodes: ann sends her requests to the first, and bob to the last. */
interface Nodes {
  readonly stores: readonly [Store, ...Store[]];
  /** The files of the agent that writes. */
  readonly files: Pick<HarnessAgentOptions, "workspace" | "filesystem">;
  /** The data of ann, as it is stored. */
  notes(): Promise<string>;
  close(): Promise<void>;
}

async function oneNode(): Promise<Nodes> {
  const workspace = createFolder();
  const path = join(workspace, ".rivulet/namespaces/user-ann/notes.md");
  return {
    stores: [memoryStore(keepEvents)],
    files: { workspace },
    notes: async () => readFileSync(path, "utf8"),
    close: async () => removeFolder(workspace),
  };
}

function twoNodes(url: string, schema: string): Nodes {
  const create = () => postgresStore({ url, schema, ...keepEvents });
  const stores = [create(), create()] as const;
  return {
    stores,
    files: { filesystem: "store" },
    async notes() {
      const found = await stores[0].files.list("workspace/");
      const data = found.map(({ path }) => stores[0].files.get(path));
      return JSON.stringify(await Promise.all(data));
    },
    close: async () => void (await Promise.all(stores.map((store) => store.close()))),
  };
}

function agentsOn(store: Store, files: Nodes["files"]): readonly Agent[] {
  const bytes = Buffer.alloc(100_000, canary);
  const paint = tool({
    name: "paint",
    description: "Paints.",
    input: z.object({}),
    execute: () => [
      { type: "image", source: { data: bytes.toString("base64"), mimeType: "image/png" } } as const,
    ],
  });
  const turns = (first: object) =>
    scriptedModel(({ assistantCount }) => (assistantCount % 2 === 0 ? (first as never) : canary));
  return [
    nested(store),
    scripted(({ assistantCount }) => (assistantCount % 2 ? canary : remove), {
      store,
      name: "asking",
    }).agent,
    new ReActAgent({
      name: "painter",
      store,
      tools: [paint],
      model: turns({ call: "paint", input: {} }),
    }),
    new HarnessAgent({
      ...{ name: "writer", store, ...files },
      model: turns({ call: "write_file", input: { path: "notes.md", content: canary } }),
    }),
  ];
}

/** Servers of two users, and everything that ann has. */
async function open(nodes: Nodes) {
  const [store] = nodes.stores;
  const users = { [tokens.ann]: { userId: "ann" }, [tokens.bob]: { userId: "bob" } };
  const servers = nodes.stores.map((store) =>
    openApp({
      ...{ agents: agentsOn(store, nodes.files), store, prompts: true, log: false },
      ...{ limits: unlimited, auth: { tokens: users }, adapters },
    }),
  );
  const apps = servers.map(({ app }) => app);
  const [app = never()] = apps;
  const [bobs = never()] = apps.slice(-1);
  const send = async (
    token: string,
    method: string,
    path: string,
    body?: object,
    node = token === tokens.bob ? bobs : app,
  ) => {
    const response = await node.request(`http://localhost${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
      },
      ...(body && method !== "GET" && { body: JSON.stringify(body) }),
    });
    return { status: response.status, text: await response.text() };
  };
  const run = async (body: object) => {
    const { text } = await send(tokens.ann, "POST", "/v1/tasks", { input: canary, ...body });
    const task = JSON.parse(text) as { id: string; session_id: string };
    await send(tokens.ann, "GET", `/v1/tasks/${task.id}/events?until=idle`);
    return task;
  };
  const tree = await run({ agent: "lead", session_id: "tree", task_id: "done" });
  const asked = await run({ agent: "asking", session_id: "waiting", task_id: "waits" });
  const keyed = await run({ agent: "lead", idempotency_key: key });
  const painted = await run({ agent: "painter", session_id: "painting" });
  await run({ agent: "writer", session_id: "writing" });
  const fork = JSON.parse(
    (await send(tokens.ann, "POST", "/v1/sessions/tree/fork", { task_id: "done" })).text,
  ) as { session: { session_id: string } };
  const records = (await store.tasks({})).filter(({ userId }) => userId === "ann");
  const children = records.filter(({ depth }) => depth > 0);
  const { approvals } = JSON.parse(
    (await send(tokens.ann, "GET", "/v1/sessions/waiting/approvals")).text,
  ) as { approvals: { approval_id: string }[] };
  const [, blob = ""] =
    /\/blobs\/(sha256-\w+)/.exec(JSON.stringify(await readLog(store, painted.id))) ?? [];
  const digest = createHash("sha256").update(JSON.stringify(["ann", "lead", key]));
  const plain = `task_${digest.digest("base64url").slice(0, 40)}`;
  const names = (...given: string[]) => given.flatMap((one) => [one, stored(one)]);
  const ids: Ids = {
    task: [
      ...names("done", "waits"),
      ...[tree.id, asked.id, keyed.id, painted.id, plain, stored(plain)],
      ...children.slice(0, 2).map(({ taskId }) => taskId),
    ],
    session: [
      ...names("tree", "waiting", "painting", "writing"),
      ...[keyed.session_id, fork.session.session_id],
      ...children.slice(0, 2).map(({ sessionId }) => sessionId),
    ],
    approval: approvals.map(({ approval_id }) => approval_id),
    blob: [blob],
    file: ["notes.md"],
  };
  const close = async () => {
    await Promise.all(servers.map((server) => server.close()));
    await nodes.close();
  };
  return { app, apps, store, nodes, ids, send, close };
}

function never(): never {
  throw new Error("There is no node.");
}

const remove = { call: "remove", input: { path: "a" } };

/** Everything of ann in the store and in the workspace. */
async function everythingOf({ stores: [store], notes }: Nodes): Promise<string> {
  const tasks = (await store.tasks({})).filter(({ userId }) => userId === "ann");
  const roots = tasks.filter(({ depth }) => depth === 0);
  const sessions = new Set(tasks.map(({ sessionId }) => sessionId));
  return JSON.stringify({
    ...{ tasks, notes: await notes() },
    logs: await Promise.all(roots.map(({ taskId }) => readLog(store, taskId))),
    messages: await Promise.all([...sessions].map((id) => store.session(id))),
    posts: await Promise.all([...sessions].map((sessionId) => store.posts({ sessionId }))),
    sessions: await store.sessions({ userId: "ann", limit: 1_000 }),
    blobs: await Promise.all(tasks.map(({ taskId }) => store.files.list(`blobs/${taskId}/`))),
  });
}

/** An answer without the ids that were sent or minted, and without times and numbers. */
function comparable(
  { status, text }: { status: number; text: string },
  sent: Readonly<Record<Kind, string>>,
): string {
  const kinds = Object.values(sent).sort((one, other) => other.length - one.length);
  const plain = kinds.reduce(
    (rest, id) => rest.replaceAll(JSON.stringify(id).slice(1, -1), "ID"),
    text,
  );
  const clean = plain
    .replaceAll(/resp_[\w~.-]+/g, "ID")
    .replaceAll(/~[\w-]{16}/g, "")
    .replaceAll(/\b(task|sess|msg|apr|call|rs|fc|fco|blk)_[\w-]{20,}/g, "ID")
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "ID")
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "T")
    .replaceAll(/\d+/g, "N");
  return `${status} ${clean}`;
}

/** Every choice of ids for the parameters of a route, and for its bodies. */
function choicesOf(ids: Ids): readonly Readonly<Record<Kind, string>>[] {
  const [approval = "", blob = "", file = ""] = [ids.approval[0], ids.blob[0], ids.file[0]];
  return ids.task.flatMap((task, index) => {
    const sessions = index === 0 ? ids.session : ids.session.slice(0, 3);
    return sessions.map((session) => ({ task, session, approval, blob, file }));
  });
}

function addressOf(route: string, ids: Readonly<Record<Kind, string>>): string {
  const isTask = route.includes("/tasks/:id");
  const response = `resp_${ids.task.replace(/^task_/, "")}`;
  const isResponse = route.includes("/responses/:id");
  const id = isResponse ? response : isTask ? ids.task : ids.session;
  const values: Readonly<Record<string, string>> = {
    ...{ id, approval_id: ids.approval, name: ids.blob },
    ...{ path: ids.file, agent: "lead" },
  };
  return route.replaceAll(/:(\w+)(\{\.\+\})?/g, (_, name: string) =>
    encodeURIComponent(values[name] ?? "?"),
  );
}

/** The routes whose rows say how to ask for what another user has. */
const checked = Object.entries(rows).filter(
  (entry): entry is [string, Exclude<Row, string>] => typeof entry[1] !== "string",
);

/** Those that read and change each kind of thing in a way of their own, for the run without `RIVULET_DEEP=1`. */
const quickRoutes: readonly string[] = [
  ...["POST /v1/tasks", "GET /v1/tasks/:id", "GET /v1/tasks/:id/events", "GET /v1/search"],
  ...["GET /v1/tasks/:id/blobs/:name", "POST /v1/tasks/:id/input", "POST /v1/tasks/:id/cancel"],
  ...["POST /v1/tasks/:id/approvals/:approval_id", "GET /v1/sessions", "GET /v1/sessions/:id"],
  ...["DELETE /v1/sessions/:id", "POST /v1/sessions/:id/fork", "GET /v1/sessions/:id/export"],
  ...["GET /v1/sessions/:id/files", "GET /v1/sessions/:id/files/:path{.+}"],
];

/** `every` leaves out choices of ids for the routes that start something, which take the most time. */
function testIsolation(create: () => Promise<Nodes>, routes: typeof checked, every = 1) {
  // A world of its own for each test, because what bob starts exists for bob from then on.
  let world: Awaited<ReturnType<typeof open>>;
  beforeEach(async () => {
    world = await open(await create());
  });
  afterEach(() => world?.close());

  it("has a row for every route of the server", () => {
    const registered = world.app.routes.map(({ method, path }) => `${method} ${path}`);
    expect(Object.keys(rows).toSorted()).toEqual(registered.toSorted());
  });

  it("exists for its owner, by each of its ids, on each node", async () => {
    const { ids, apps, send } = world;
    for (const app of apps) {
      const get = (path: string) => send(tokens.ann, "GET", path, undefined, app);
      for (const id of ids.task) expect((await get(`/v1/tasks/${id}`)).status, id).toBe(200);
      for (const id of ids.session) expect((await get(`/v1/sessions/${id}`)).status, id).toBe(200);
      const found = [
        await get("/v1/sessions/writing/files/notes.md"),
        await get(`/v1/search?q=${canary}`),
        ...(await Promise.all(ids.task.map((id) => get(`/v1/tasks/${id}/blobs/${ids.blob[0]}`)))),
      ].filter(({ text }) => text.includes(canary));
      expect(found).toHaveLength(3);
    }
  });

  it.each(routes)("%s finds nothing and changes nothing", async (route, row) => {
    const { ids, send, nodes } = world;
    const [method = "", path = ""] = route.split(" ");
    const before = await everythingOf(nodes);
    const answer = async (sent: Readonly<Record<Kind, string>>) => {
      const answers: string[] = [];
      for (const { query, body = method === "POST" ? {} : undefined } of row(sent)) {
        const address = addressOf(path, sent) + (query ? `?${query}` : "");
        const got = await send(tokens.bob, method, address, body);
        if (mayStart(route)) await restOf(nodes);
        expect(got.status, `${address} ${JSON.stringify(body)}`).toBeLessThan(500);
        const own = JSON.stringify(body ?? "").includes(canary) ? "" : canary;
        if (own !== "") expect(got.text, address).not.toContain(own);
        answers.push(comparable(got, sent));
      }
      return answers;
    };
    const isIncluded = (index: number) => !mayStart(route) || index % every === 0;
    const choices = choicesOf(ids).filter((_, index) => isIncluded(index));
    for (const choice of choices) {
      const like = (id: string, none: string) => (id.includes("~") ? stored(none, "cid") : none);
      const none = {
        ...missing,
        // A task that bob has started under an id of ann's exists for him the next time.
        task: like(choice.task, `task_none${ids.task.indexOf(choice.task)}`),
        session: like(choice.session, `none${ids.session.indexOf(choice.session)}`),
      };
      const [theirs, nothing] = [await answer(choice), await answer(none)];
      const place = `${route} ${choice.task} ${choice.session}`;
      if (mayStart(route)) expect(theirs.map(kindOf), place).toEqual(nothing.map(kindOf));
      else expect(theirs, place).toEqual(nothing);
    }
    expect(choices.length).toBeGreaterThan(every === 1 ? 10 : 5);
    expect(await everythingOf(nodes)).toBe(before);
  });
}

describe("what another user has", () => testIsolation(oneNode, checked));

describe.runIf(hasPostgres())("what another user has, by another node on PostgreSQL", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  }, 60_000);
  afterAll(() => server?.remove());
  const routes = isDeep ? checked : checked.filter(([route]) => quickRoutes.includes(route));
  if (!isDeep)
    console.log(
      `${routes.length} of ${checked.length} routes on two nodes; all with RIVULET_DEEP=1`,
    );
  testIsolation(async () => twoNodes(server.url, newSchema()), routes, isDeep ? 1 : 5);
});

/** Waits until what bob has started rests, because the next answer depends on it. */
async function restOf({ stores: [store] }: Nodes): Promise<void> {
  const rests = ({ status }: TaskRecord) => isTerminal(status) || status === "suspended";
  const isRunning = async () =>
    (await store.tasks({})).some((task) => task.userId === "bob" && !rests(task));
  while (await isRunning()) await sleep(2);
}

/** Whether a route may start something of the caller's own, whose next answer is another. */
function mayStart(route: string): boolean {
  return [
    "POST /v1/tasks",
    "POST /tasks",
    "POST /a2a/:agent",
    "POST /api/chat",
    "POST /openai/v1/responses",
    "POST /agui/:agent",
    "POST /mcp",
  ].includes(route);
}

/** Whether an answer succeeds, or how it fails. */
function kindOf(answer: string): string {
  const [status = ""] = answer.split(" ", 1);
  // A task that has failed has a code too; an error of JSON-RPC has a number and the status 200.
  const [code = "ok"] = (status < "300" ? /"code":-?N/ : /"code":"\w+"/).exec(answer) ?? [];
  return `${status < "300" ? 200 : status} ${code}`;
}
