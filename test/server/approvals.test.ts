import { describe, expect, it } from "vitest";
import { connect } from "../../src/client.ts";
import { agentTool, memoryStore } from "../../src/index.ts";
import { type ScriptedTurn, scriptedModel } from "../../src/testing.ts";
import { scripted, startServer, stored, tokens } from "./support/server.ts";

const operator = "the-token-of-the-operator";
const auth = {
  tokens: {
    [tokens.ann]: { userId: "ann" },
    [tokens.bob]: { userId: "bob" },
    [operator]: { userId: "op", scopes: ["read", "operator"] },
  },
} as const;

/** A server on which two agents ask before they remove a file: the lead for a child, and another one by itself. */
async function open() {
  const store = memoryStore();
  const model = (call: ScriptedTurn) => scriptedModel([call, "Done."], { by: "prompt" });
  const remove = model([{ call: "remove", input: { path: "secret.txt" } }]);
  const help = model([{ call: "helper", input: { prompt: "Go." } }]);
  const { agent: helper } = scripted([], { store, name: "helper", model: remove });
  const { agent: other } = scripted([], { store, name: "other", model: remove });
  const { agent: lead } = scripted([], { store, model: help, tools: [agentTool(helper)] });
  const server = await startServer({ agents: [lead, other], store, auth });
  const as = (token: string) => ({
    ...server.as(token),
    api: connect(server.url, { token }),
  });
  return { store, as };
}

describe("the list of approvals", () => {
  it("has what waits in all sessions of the user, at any depth, until it is answered", async () => {
    const { as } = await open();
    const { api } = as(tokens.ann);
    expect(await api.approvals()).toEqual({ approvals: [] });
    await api.agent("lead").call("Clean up.", { sessionId: "one" });
    await api.agent("other").call("Clean up, too.", { sessionId: "two" });
    await as(tokens.bob).api.agent("lead").call("Mine.", { sessionId: "one" });
    const { approvals, next } = await api.approvals();
    expect(next).toBeUndefined();
    expect(approvals).toMatchObject([
      {
        ...{ sessionId: stored("two"), agentName: "other", title: "Clean up, too." },
        ...{ kind: "tool_call", call: { name: "remove", input: { path: "secret.txt" } } },
      },
      { sessionId: stored("one"), agentName: "lead", path: `${stored("one")}/helper` },
    ]);
    for (const { sessionId, agentName, deny } of approvals)
      await api.agent(agentName).call(deny("No."), { sessionId });
    expect(await api.approvals()).toEqual({ approvals: [] });
    expect((await as(tokens.bob).api.approvals()).approvals).toHaveLength(1);
  });

  it("continues on the next page, and ends with an empty or the last one", async () => {
    const { as } = await open();
    const { api } = as(tokens.ann);
    for (const n of [1, 2, 3]) await api.agent("other").call("Go.", { sessionId: `s${n}` });
    const seen: string[] = [];
    let before: string | undefined;
    do {
      const page = await api.approvals({ limit: 1, ...(before && { before }) });
      seen.push(...page.approvals.map(({ sessionId }) => sessionId));
      before = page.next;
    } while (before !== undefined);
    expect(seen).toEqual(["s3", "s2", "s1"].map((name) => stored(name)));
  });

  it("passes sessions without approvals, many of them", async () => {
    const { as, store } = await open();
    const { api } = as(tokens.ann);
    await api.agent("other").call("Go.", { sessionId: "first" });
    const idle = scripted(() => "Hi.", { store }).agent;
    for (let n = 0; n < 120; n++) await idle.call("Hi.", { sessionId: `i${n}`, userId: "ann" });
    const { approvals } = await api.approvals();
    expect(approvals.map(({ sessionId }) => sessionId)).toEqual([stored("first")]);
  });

  it("shows operators who waits in sessions of all users, without what was written", async () => {
    const { as } = await open();
    await as(tokens.ann).api.agent("lead").call("Clean up.", { sessionId: "one" });
    await as(tokens.bob).api.agent("other").call("Mine.", { sessionId: "one" });
    const { status, body } = await as(operator).get("/v1/approvals?all=true&limit=1");
    expect(status).toBe(200);
    const page = body as { approvals: object[]; next: string };
    expect(page.approvals).toEqual([
      {
        ...{ approval_id: expect.any(String), kind: "tool_call", task_id: expect.any(String) },
        ...{ root_task_id: expect.any(String), session_id: stored("one", "bob"), user: "bob" },
        ...{ agent: "other", call: { id: expect.any(String), name: "remove" } },
      },
    ]);
    const rest = await as(operator).get(`/v1/approvals?all=true&before=${page.next}`);
    expect(rest.body).toMatchObject({ approvals: [{ user: "ann" }] });
    expect(JSON.stringify([page, rest.body])).not.toMatch(/secret|Clean up|Mine/);
    expect((await as(operator).get("/v1/approvals")).body).toEqual({ approvals: [] });
  });

  it("refuses users the list of all, and options that it does not have", async () => {
    const { as } = await open();
    const refused = await as(tokens.ann).get("/v1/approvals?all=true");
    expect(refused.status).toBe(403);
    expect(refused.body).toMatchObject({ error: { code: "forbidden", hint: expect.any(String) } });
    for (const query of ["limit=0", "limit=201", "all=maybe", "user=bob"])
      expect((await as(tokens.ann).get(`/v1/approvals?${query}`)).status).toBe(400);
  });
});
