import { describe, expect, it } from "vitest";
import { connect } from "../../src/client.ts";
import type { TaskRecord } from "../../src/contract/store.ts";
import { memoryStore, type Store } from "../../src/index.ts";
import { record } from "../../src/testing/store-contract/samples.ts";
import { scripted, startServer } from "./support/server.ts";

const tokens = {
  ann: "ann-0123456789abcdef",
  bob: "bob-0123456789abcdef",
  operator: "the-token-of-the-operator",
};
const users = {
  [tokens.ann]: { userId: "ann" },
  [tokens.bob]: { userId: "bob" },
  [tokens.operator]: { userId: "op", scopes: ["read", "operator"] as const },
};
const day = Date.UTC(2026, 0, 5);

/** Stores a task that has ended, and what it has used. */
async function put(store: Store, n: number, changes: Partial<TaskRecord> = {}): Promise<void> {
  const used = { input_tokens: n, output_tokens: 1, total_tokens: n + 1 };
  const share = { provider: "demo", model: "small", input_tokens: n, output_tokens: 1 };
  await store.enqueue(
    record({
      ...{ taskId: `task_${n}`, rootTaskId: `task_${n}`, sessionId: `s${n}`, path: `s${n}` },
      ...{ status: "queued", agentId: "lead", userId: "ann", createdAt: day, usage: used },
      byModel: [{ ...share, day: "2026-01-05" }],
      ...changes,
    }),
  );
}

async function open() {
  const store = memoryStore();
  const { agent } = scripted(() => "Done.", { store, name: "lead" });
  const prices = { "demo:small": { input: 1_000_000, output: 0, currency: "EUR" } };
  const { as, url } = await startServer({
    agents: [agent],
    store,
    auth: { tokens: users },
    prices,
  });
  const usage = async (token: string, query = "") =>
    (await as(token).get(`/v1/usage${query}`)) as {
      readonly status: number;
      readonly body: { readonly rows: object[]; readonly total: object; readonly next?: string };
    };
  return { store, url, usage };
}

describe("GET /v1/usage", () => {
  it("adds up the tasks of the user by the given keys, with the prices of the server", async () => {
    const { store, usage } = await open();
    await put(store, 1);
    await put(store, 2);
    await put(store, 4, { userId: "bob" });
    const { body } = await usage(tokens.ann, "?by=user,model,day");
    expect(body).toEqual({
      rows: [
        {
          ...{ user: "ann", model: "demo/small", day: "2026-01-05" },
          usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
          retried: { input_tokens: 0, output_tokens: 0, total_tokens: 0 },
          costs: [{ amount: "3", currency: "EUR" }],
          ...{ unpriced_tokens: 0, unmetered_calls: 0 },
        },
      ],
      total: expect.objectContaining({ costs: [{ amount: "3", currency: "EUR" }] }),
    });
  });

  it("shows an operator all users or one, and a user only itself", async () => {
    const { store, usage } = await open();
    await put(store, 1);
    await put(store, 4, { userId: "bob" });
    const seen = async (token: string, query: string) =>
      (await usage(token, query)).body.rows.map((row) => (row as { user: string }).user);
    expect(await seen(tokens.operator, "?by=user")).toEqual(["bob", "ann"]);
    expect(await seen(tokens.operator, "?by=user&user=ann")).toEqual(["ann"]);
    expect(await seen(tokens.bob, "?by=user&user=bob")).toEqual(["bob"]);
    expect((await usage(tokens.bob, "?user=ann")).status).toBe(403);
  });

  it("leaves out other days", async () => {
    const { store, usage } = await open();
    await put(store, 1);
    const rows = async (query: string) => (await usage(tokens.ann, query)).body.rows.length;
    expect(await rows("?from=2026-01-05&to=2026-01-05")).toBe(1);
    expect(await rows("?from=2026-01-06")).toBe(0);
    expect(await rows("?to=2026-01-04")).toBe(0);
    for (const query of [
      "?from=2026-02-30",
      "?to=today",
      "?by=colour",
      "?from=2026-01-06&to=2026-01-05",
    ])
      expect((await usage(tokens.ann, query)).status).toBe(400);
  });

  it("is read in pages, which the client adds", async () => {
    const { store, url, usage } = await open();
    for (let n = 1; n <= 230; n++) await put(store, n);
    const { body } = await usage(tokens.ann, "?by=session");
    expect(body.rows).toHaveLength(100);
    expect(body.next).toBe("s131");
    const bill = await connect(url, { token: tokens.ann }).usage({ by: ["session"] });
    expect(bill.rows).toHaveLength(230);
    expect(bill.total.usage.total_tokens).toBe((230 * 231) / 2 + 230);
    const own = connect(url, { token: tokens.operator });
    expect(await own.usage({ by: ["session"], user: "ann" })).toEqual(bill);
  });

  it("ends a page early when its sessions have many rows", async () => {
    const { store, usage } = await open();
    for (let session = 0; session < 3; session++)
      for (let n = 1; n <= 600; n++)
        await put(store, n, {
          ...{ taskId: `t${session}.${n}`, rootTaskId: `t${session}.${n}` },
          ...{ sessionId: `s${session}`, path: `s${session}/agent_${n}` },
        });
    const first = await usage(tokens.ann, "?by=path");
    expect(first.body.rows).toHaveLength(1_200);
    expect(first.body.next).toBe("s1");
    const second = await usage(tokens.ann, "?by=path&before=s1");
    expect(second.body.rows).toHaveLength(600);
    expect(second.body).not.toHaveProperty("next");
  });
});
