import { describe, expect, it } from "vitest";
import { z } from "zod";
import { memoryStore, ReActAgent, type Store, sqliteStore, tool } from "../../src/index.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { type Script, scriptedModel } from "../../src/testing.ts";
import { workspaceWith } from "../harness/agent/support/workspace.ts";
import { seededRandom } from "../support/random.ts";
import { seed } from "../support/seed.ts";
import { unlimited } from "../support/unlimited.ts";
import { startServer, stored } from "./support/server.ts";

const count = isDeep ? 100_000 : 800;
/** Longer than anything that the server waits for. */
const hangMs = 60_000;
const workers = 8;

const users = ["ann", "bob", "cid"] as const;
type User = (typeof users)[number];
const canaryOf = (user: User) => `canary-${user}-7f3a`;
const tokenOf = (user: User) => `${user}-0123456789abcdef`;

/** Says what it was told, so that every task is full of the canary of its user. */
const told: Script = ({ prompt }) => {
  const last = prompt.findLast(({ role }) => role === "user");
  return `I was told ${JSON.stringify(last?.content ?? "")}.`;
};

function agents(store: Store) {
  const remove = tool({
    name: "remove",
    description: "Removes a file.",
    input: z.object({ path: z.string() }),
    needsApproval: true,
    execute: ({ path }) => `removed ${path}`,
  });
  const says = (request: Parameters<Exclude<Script, readonly unknown[]>>[0]) =>
    String((told as (asked: typeof request) => unknown)(request));
  return [
    new ReActAgent({ name: "echo", store, model: scriptedModel(told) }),
    new ReActAgent({
      ...{ name: "slow", store },
      model: scriptedModel((request) => [{ text: says(request) }, { delayMs: 30 }, { text: "." }]),
    }),
    new ReActAgent({
      ...{ name: "asking", store, tools: [remove] },
      model: scriptedModel((request) =>
        request.assistantCount % 2 === 0
          ? { call: "remove", input: { path: says(request).slice(0, 200) } }
          : says(request),
      ),
    }),
  ];
}

/** What a user has started, the newest last. */
interface Known {
  readonly tasks: string[];
  readonly slow: string[];
  readonly sessions: string[];
  readonly asking: string[];
}

// A store in memory reads everything that was ever said for a search or a list.
const sqlite = ["SQLite", () => sqliteStore(`${workspaceWith()}/store.db`)] as const;
const stores = isDeep ? [sqlite, ["memory", () => memoryStore()] as const] : [sqlite];
const timeout = isDeep ? 3_600_000 : 300_000;

describe.each(stores)("%s", { timeout }, (_, open) => {
  it(`answers ${count} requests of three users without a 500, a hang or a leak`, () =>
    sendRequests(open()));
});

async function sendRequests(store: Store): Promise<void> {
  const tokens = Object.fromEntries(users.map((user) => [tokenOf(user), { userId: user }]));
  const server = await startServer({
    ...{ agents: agents(store), auth: { tokens }, limits: unlimited, prompts: true },
    adapters: ["a2a", "agentscope"],
  });
  const { next, pick } = seededRandom(seed);
  const empty = (): Known => ({ tasks: [], slow: [], sessions: [], asking: [] });
  const known = { ann: empty(), bob: empty(), cid: empty() };
  const remember = (list: string[], id: string) => {
    list.push(id);
    if (list.length > 30) list.shift();
  };
  let sent = 0;
  let valid = 0;
  const statuses = new Map<number, number>();

  /** Sends a request and checks its answer; the body of a stream is its events. */
  async function send(user: User, method: string, path: string, body?: unknown) {
    sent += 1;
    const label = `seed ${seed}: ${user} ${method} ${path} ${JSON.stringify(body)?.slice(0, 300)}`;
    const response = await fetch(`${server.url}${path}`, {
      ...{ method, signal: AbortSignal.timeout(hangMs) },
      headers: {
        authorization: `Bearer ${tokenOf(user)}`,
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    }).catch((cause: unknown) => {
      throw new Error(`no answer to ${label}`, { cause });
    });
    const text = await response.text().catch((cause: unknown) => {
      throw new Error(`the answer does not end to ${label}`, { cause });
    });
    const { status } = response;
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    if (status >= 500) throw new Error(`${status} ${text.slice(0, 500)} for ${label}`);
    const leaked = users.find((other) => other !== user && text.includes(canaryOf(other)));
    if (leaked !== undefined) throw new Error(`the canary of ${leaked} for ${label}`);
    return { status, body: parsed(text) };
  }

  const succeed = ({ status }: { readonly status: number }) => {
    if (status < 300) valid += 1;
  };
  const words = (user: User) => `${canaryOf(user)} ${pick(["Go.", "é😀", "Why?", "…"])}`;
  const optional = (fields: object) => (next() < 0.5 ? fields : {});
  const segment = (id: string) => encodeURIComponent(id);

  /** An id of another user as it is stored, as it was given, or as it can be computed. */
  function foreign(user: User, kind: "tasks" | "sessions"): string {
    const other = pick(users.filter((one) => one !== user));
    const id = pick([...known[other][kind], "default", "t1"]);
    return pick([id, id.replace(/~[\w-]{16}$/, ""), stored(id, other), stored("default", other)]);
  }

  async function start(user: User): Promise<void> {
    const agent = pick(["echo", "slow", "asking"]);
    // A session that waits for approvals refuses messages, so each asking agent has its own.
    const place =
      agent === "asking" ? {} : { session_id: pick(["default", `s${Math.floor(next() * 300)}`]) };
    const answer = await send(user, "POST", "/v1/tasks", {
      ...{ agent, input: words(user) },
      ...optional(place),
      ...optional({ metadata: { note: canaryOf(user) } }),
      ...(next() < 0.1 && { task_id: `t${Math.floor(next() * 50)}` }),
      ...(next() < 0.1 && { idempotency_key: `k${Math.floor(next() * 50)}` }),
      // The stream of a task that waits for approvals stays open.
      ...(agent !== "asking" && next() < 0.05 && { stream: true }),
    });
    succeed(answer);
    const { id, session_id } = answer.body;
    if (typeof id !== "string" || typeof session_id !== "string") return;
    remember(known[user].tasks, id);
    remember(known[user].sessions, session_id);
    if (agent === "slow") remember(known[user].slow, id);
    if (agent === "asking") remember(known[user].asking, session_id);
  }

  async function answerApproval(user: User): Promise<void> {
    const session = known[user].asking.shift();
    if (session === undefined) return start(user);
    const { body } = await send(user, "GET", `/v1/sessions/${segment(session)}/approvals`);
    const [approval] = (body.approvals ?? []) as { task_id: string; approval_id: string }[];
    if (approval === undefined) return;
    const path = `/v1/tasks/${segment(approval.task_id)}/approvals/${approval.approval_id}`;
    const decision = pick(["approve", "deny"]);
    succeed(await send(user, "POST", path, { decision, ...optional({ reason: words(user) }) }));
  }

  async function steer(user: User): Promise<void> {
    const task = known[user].slow.at(-1);
    if (task === undefined) return start(user);
    succeed(await send(user, "POST", `/v1/tasks/${segment(task)}/input`, { input: words(user) }));
  }

  async function cancel(user: User): Promise<void> {
    const task = known[user].slow.pop();
    if (task === undefined) return start(user);
    succeed(await send(user, "POST", `/v1/tasks/${segment(task)}/cancel`, {}));
  }

  /** Also keeps the transcripts short. */
  async function forget(user: User): Promise<void> {
    await send(user, "DELETE", `/v1/sessions/${pick(["default", ...known[user].sessions])}`);
  }

  async function read(user: User): Promise<void> {
    const task = segment(pick([...known[user].tasks, "t1"]));
    const session = segment(pick([...known[user].sessions, "default"]));
    const paths = [
      ...["", "/document", "/prompts", "/events?until=idle"].map(
        (end) => `/v1/tasks/${task}${end}`,
      ),
      ...["", "/export", "/approvals"].map((end) => `/v1/sessions/${session}${end}`),
      ...["/v1/sessions?limit=5", "/v1/agents", "/v1/search?q=canary&limit=5", `/tasks/${task}`],
    ];
    await send(user, "GET", pick(paths));
  }

  async function attack(user: User): Promise<void> {
    const [task, session] = [foreign(user, "tasks"), foreign(user, "sessions")];
    const [taskPath, sessionPath] = [
      `/v1/tasks/${segment(task)}`,
      `/v1/sessions/${segment(session)}`,
    ];
    const input = words(user);
    const attempts: readonly (readonly [string, string, unknown?])[] = [
      ...["", "/document", "/prompts", "/events?until=idle", "/blobs/x"].map(
        (end) => ["GET", `${taskPath}${end}`] as const,
      ),
      ...["", "/export", "/approvals", "/files"].map(
        (end) => ["GET", `${sessionPath}${end}`] as const,
      ),
      ["POST", `${taskPath}/input`, { input }],
      ["POST", `${taskPath}/cancel`, {}],
      ["POST", `${taskPath}/approvals/apr_1`, { decision: "approve" }],
      ["POST", `${sessionPath}/fork`, { task_id: task }],
      ["DELETE", sessionPath],
      ["POST", "/v1/tasks", { agent: "echo", input, session_id: session.slice(0, 100) }],
      ["POST", "/v1/tasks", { agent: "echo", input, task_id: task.slice(0, 100) }],
      ["GET", `/v1/search?q=${canaryOf(pick(users)).slice(0, 9)}`],
      ["POST", "/a2a/echo", { jsonrpc: "2.0", id: 1, method: "GetTask", params: { id: task } }],
      ["GET", `/tasks/${segment(task)}`],
    ];
    const [method, path, body] = pick(attempts);
    // Below a name of its own the caller may find its own task, and wait for it.
    await send(user, method, path, body);
  }

  async function nonsense(user: User): Promise<void> {
    const value = pick([null, 0, -1, [], {}, "", "\u0000", "../..", "x".repeat(2_000), { a: [1] }]);
    const field = pick([
      "agent",
      "input",
      "session_id",
      "task_id",
      "idempotency_key",
      "via",
      "budget",
    ]);
    const body = { agent: "echo", input: words(user), [field]: value };
    const text = JSON.stringify(body);
    await send(user, "POST", "/v1/tasks", next() < 0.9 ? text : text.slice(0, -3));
  }

  const actions = [
    ...Array.from({ length: 9 }, () => start),
    ...[answerApproval, answerApproval, steer, steer, steer, cancel, cancel],
    ...[read, read, read, read, attack, attack, attack, attack, attack, nonsense, nonsense, forget],
  ];
  const work = async () => {
    while (sent < count) await pick(actions)(pick(users));
  };
  await Promise.all(Array.from({ length: workers }, work));

  console.log(`${sent} requests, ${valid} valid starts, answers, steers and cancels`, statuses);
  expect(valid).toBeGreaterThanOrEqual(sent / 3);
  expect([...statuses.keys()].filter((status) => status >= 500)).toEqual([]);
  expect(server.lines.length).toBeGreaterThanOrEqual(sent);
  for (const line of server.lines) {
    const text = JSON.stringify(line);
    const leaked = users.filter((user) => user !== line.user_id && text.includes(canaryOf(user)));
    expect(leaked, text).toEqual([]);
  }
}

function parsed(text: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(text) as Readonly<Record<string, unknown>>;
  } catch {
    return {}; // a stream, or lines
  }
}
