import { describe, expect, it } from "vitest";
import { AccessTokens } from "../../src/server/access-tokens.ts";
import type { ServeOptions } from "../../src/server.ts";
import { ManualClock } from "../../src/testing.ts";
import { client, scripted, startServer, stored } from "./support/server.ts";

const same = { "sec-fetch-site": "same-origin" };

async function world(options: Partial<ServeOptions> = {}) {
  const clock = new ManualClock(1_000_000);
  const { agent, store } = scripted(() => "Hello.");
  const server = await startServer({ agents: [agent], clock, ...options });
  const tokens = new AccessTokens(store, clock);
  const status = async (token: string, path = "/v1/agents") =>
    (await server.as(token).get(path)).status;
  return { agent, clock, server, store, tokens, status };
}

describe("an access token", () => {
  it("is its user's, and the store has only its hash", async () => {
    const { tokens, server, store } = await world();
    const { secret, token } = await tokens.create({ userId: "ann", name: "editor" });
    expect(secret).toMatch(/^rvl_[\w-]{43}$/);
    const started = await server.as(secret).post("/v1/tasks", {
      ...{ agent: "lead", input: "Go.", session_id: "s1" },
    });
    expect(started.status).toBe(201);
    expect((await store.sessions({ userId: "ann", limit: 5 }))[0]?.sessionId).toBe(stored("s1"));
    expect(await tokens.list()).toEqual([token]);
    const [file] = await store.files.list("~/tokens/");
    const { data } = (await store.files.get(file?.path ?? "")) ?? {};
    expect(`${file?.path} ${Buffer.from(data ?? [])}`).not.toContain(secret.slice(4));
  });

  it("does what its scopes allow", async () => {
    const { tokens, server, status } = await world();
    const { secret } = await tokens.create({ userId: "ann", scopes: ["read"] });
    expect(await status(secret)).toBe(200);
    const body = { agent: "lead", input: "Go." };
    expect((await server.as(secret).post("/v1/tasks", body)).status).toBe(403);
  });

  it("is refused as soon as it is revoked, with the cookies that it was exchanged for", async () => {
    const { tokens, server, store, clock, status } = await world();
    const [one, other] = [
      await tokens.create({ userId: "ann" }),
      await tokens.create({ userId: "ann" }),
    ];
    const answer = await server.as(one.secret).send("POST", "/v1/cookie");
    const [cookie = ""] = (answer.headers.get("set-cookie") ?? "").split(";");
    const withCookie = () => client(server.url).get("/v1/agents", { cookie, ...same });
    expect((await withCookie()).status).toBe(200);
    await new AccessTokens(store, clock).revoke(one.token.id); // as another process does
    expect(await status(one.secret)).toBe(401);
    expect((await withCookie()).status).toBe(401);
    expect(await status(other.secret)).toBe(200);
    await expect(tokens.revoke(one.token.id)).rejects.toMatchObject({ code: "not_found" });
  });

  it("expires, and so does its cookie", async () => {
    const { tokens, server, clock, status } = await world();
    const expiresAt = clock.now() + 60_000;
    const { secret } = await tokens.create({ userId: "ann", expiresAt });
    const answer = await server.as(secret).send("POST", "/v1/cookie");
    expect(answer.headers.get("set-cookie")).toContain("Max-Age=60");
    expect(await status(secret)).toBe(200);
    await clock.advance(60_000);
    expect(await status(secret)).toBe(401);
  });

  it("without a user works on a server without auth, and on no other", async () => {
    const local = await world({ auth: undefined } as never);
    const { secret } = await local.tokens.create({});
    expect(await local.status(secret)).toBe(200);
    const { tokens, status } = await world();
    expect(await status((await tokens.create({})).secret)).toBe(401);
  });

  it("is not guessed by its form, its id or its hash, and is in no log", async () => {
    const { tokens, server, store, status } = await world();
    const { secret, token } = await tokens.create({ userId: "ann" });
    const [file] = await store.files.list("~/tokens/");
    const hash = file?.path.slice("~/tokens/".length) ?? "";
    for (const guess of [`rvl_${"A".repeat(43)}`, token.id, hash, `rvl_${hash.slice(0, 43)}`])
      expect(await status(guess)).toBe(401);
    await server.as(secret).get(`/v1/tasks/${secret}`);
    expect(JSON.stringify(server.lines)).not.toContain(secret);
    for (const id of ["", "../x", token.id.slice(0, 4), `${token.id}0`])
      await expect(tokens.revoke(id)).rejects.toMatchObject({ code: "not_found" });
  });
});
