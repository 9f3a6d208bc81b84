import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { describe, expect, it } from "vitest";
import { openApp } from "../../src/app/app.ts";
import type { ServeOptions } from "../../src/server.ts";
import { ManualClock } from "../../src/testing.ts";
import { client, scripted, startServer, tokens } from "./support/server.ts";

const same = { "sec-fetch-site": "same-origin" };

async function world(options: Partial<ServeOptions> = {}) {
  const { agent, store } = scripted(() => "Hello.");
  const server = await startServer({ agents: [agent], ...options });
  const page = client(server.url);
  const signIn = async (token: string) => {
    const answer = await server.as(token).send("POST", "/v1/cookie");
    const header = answer.headers.get("set-cookie") ?? "";
    return { header, cookie: header.split(";")[0] ?? "" };
  };
  const status = async (cookie: string, headers: Record<string, string> = same) =>
    (await page.get("/v1/agents", { cookie, ...headers })).status;
  return { agent, store, server, page, signIn, status };
}

describe("the cookie of a page", () => {
  it("is random and not the token; the store has only its hash", async () => {
    const { signIn, store, status } = await world();
    const cookies = [await signIn(tokens.ann), await signIn(tokens.ann)];
    const values = cookies.map(({ cookie }) => cookie.split("=")[1] ?? "");
    expect(new Set(values).size).toBe(2);
    for (const value of values) expect(value).toMatch(/^[\w-]{16}\.[\w-]{43}$/);
    expect(JSON.stringify(cookies)).not.toContain(tokens.ann);
    const files = await store.files.list("~/cookies/");
    const contents = await Promise.all(
      files.map(async ({ path }) => path + Buffer.from((await store.files.get(path))?.data ?? [])),
    );
    expect(contents).toHaveLength(2);
    for (const secret of [tokens.ann, ...values.map((value) => value.split(".")[1] ?? "")])
      expect(contents.join()).not.toContain(secret);
    for (const { cookie } of cookies) expect(await status(cookie)).toBe(200);
  });

  it("has the user and the scopes of its token", async () => {
    const { signIn, page } = await world();
    const start = { agent: "lead", input: "Go." };
    const sent = async (token: string) => {
      const { cookie } = await signIn(token);
      return page.post("/v1/tasks", start, { cookie, ...same });
    };
    const { body, status } = await sent(tokens.ann);
    expect(status).toBe(201);
    expect((await sent(tokens.reader)).status).toBe(403);
    const { cookie } = await signIn(tokens.bob);
    expect((await page.get(`/v1/tasks/${body.id}`, { cookie, ...same })).status).toBe(404);
  });

  it("works on its own server alone, whose cookie has another name", async () => {
    const [one, two] = [await world(), await world()];
    const [{ cookie }, { cookie: other }] = [
      await one.signIn(tokens.ann),
      await two.signIn(tokens.ann),
    ];
    const [name, otherName] = [cookie, other].map((pair) => pair.split("=")[0]);
    expect(name).not.toBe(otherName);
    expect(await two.status(cookie)).toBe(401);
    expect(await two.status(`${otherName}=${cookie.split("=")[1]}`)).toBe(401);
    expect(await two.status(`${cookie}; ${other}`)).toBe(200);
  });

  it("survives a restart, but not the removal of its token", async () => {
    const { agent, server, signIn, store } = await world();
    const { cookie } = await signIn(tokens.ann);
    await server.close();
    const again = await startServer({ agents: [agent], store });
    const get = (url: string) => client(url).get("/v1/agents", { cookie, ...same });
    expect((await get(again.url)).status).toBe(200);
    const auth = { tokens: { [tokens.bob]: { userId: "bob" } } };
    expect((await get((await startServer({ agents: [agent], store, auth })).url)).status).toBe(401);
    const reading = { tokens: { [tokens.ann]: { userId: "ann", scopes: [] } } };
    const narrowed = await startServer({ agents: [agent], store, auth: reading });
    expect((await get(narrowed.url)).status).toBe(403);
  });

  it("expires, and is revoked when the page signs out", async () => {
    const clock = new ManualClock(Date.now());
    const { signIn, status, page, store } = await world({ clock, cookieMs: 60_000 });
    const first = await signIn(tokens.ann);
    expect(first.header).toContain("; Max-Age=60");
    const second = await signIn(tokens.ann);
    const out = await page.send("DELETE", "/v1/cookie", undefined, {
      ...{ cookie: first.cookie, ...same },
    });
    expect(out.status).toBe(204);
    expect(out.headers.get("set-cookie")).toMatch(/^rivulet_\w+=; .*Max-Age=0/);
    expect(await status(first.cookie)).toBe(401);
    expect(await status(second.cookie)).toBe(200);
    await clock.advance(60_000);
    expect(await status(second.cookie)).toBe(401);
    expect(await store.files.list("~/cookies/")).toEqual([]);
  });

  it("expires with the JSON Web Token that it was given for", async () => {
    const { publicKey, privateKey } = await generateKeyPair("ES256");
    const jwks = { keys: [{ ...(await exportJWK(publicKey)), kid: "k1", alg: "ES256" }] };
    const jwt = { jwks, issuer: "https://issuer.example", audience: "rivulet" };
    const { signIn, status } = await world({ auth: { jwt } });
    const claims = { iss: jwt.issuer, aud: jwt.audience, sub: "ann" };
    const token = await new SignJWT(claims)
      .setProtectedHeader({ alg: "ES256", kid: "k1" })
      .setExpirationTime("60s")
      .sign(privateKey);
    const { header, cookie } = await signIn(token);
    expect(Number(/Max-Age=(\d+)/.exec(header)?.[1])).toBeLessThanOrEqual(60);
    expect(await status(cookie)).toBe(200);
  });

  it("is accepted only from a page of the same origin", async () => {
    const { signIn, status, server } = await world({ origins: ["https://app.example"] });
    const { cookie } = await signIn(tokens.ann);
    const { port } = new URL(server.url);
    const accepted: readonly Record<string, string>[] = [
      same,
      { origin: server.url },
      { referer: `${server.url}/` },
      { ...same, origin: server.url },
    ];
    for (const headers of accepted)
      expect(await status(cookie, headers), JSON.stringify(headers)).toBe(200);
    const refused: readonly Record<string, string>[] = [
      {},
      { "sec-fetch-site": "none" },
      { "sec-fetch-site": "same-site" },
      { "sec-fetch-site": "cross-site", origin: "https://app.example" },
      { origin: "https://app.example" },
      { origin: `http://127.0.0.1:${Number(port) + 1}` },
      { origin: "null" },
      { referer: `http://127.0.0.1:${Number(port) + 1}/` },
      { referer: "about:blank" },
    ];
    for (const headers of refused)
      expect(await status(cookie, headers), JSON.stringify(headers)).toBe(403);
  });

  it("cannot be exchanged for another one", async () => {
    const { signIn, page } = await world();
    const { cookie } = await signIn(tokens.ann);
    const answer = await page.post("/v1/cookie", undefined, { cookie, ...same });
    expect(answer).toMatchObject({ status: 400, body: { error: { code: "invalid_request" } } });
  });

  it("is `Secure` and has the prefix `__Host-` where clients use TLS", async () => {
    const { agent } = scripted(() => "Hello.");
    const headerOf = async (url: string, publicUrl?: string) => {
      const options = { agents: [agent], token: tokens.ann, log: false, hosts: ["agents.example"] };
      const { app } = openApp({ ...options, ...(publicUrl && { publicUrl }) } as never);
      const headers = { authorization: `Bearer ${tokens.ann}` };
      const answer = await app.request(`${url}/v1/cookie`, { method: "POST", headers });
      const header = answer.headers.get("set-cookie") ?? "";
      const page = { cookie: header.split(";")[0] ?? "", ...same };
      expect((await app.request(`${url}/v1/agents`, { headers: page })).status).toBe(200);
      return header;
    };
    expect(await headerOf("http://agents.example")).not.toMatch(/Secure|__Host-/);
    const secure = /^__Host-rivulet_\S+=\S+; Path=\/; HttpOnly; .*; Secure$/;
    expect(await headerOf("https://agents.example")).toMatch(secure);
    expect(await headerOf("http://agents.example", "https://agents.example")).toMatch(secure);
  });

  it("leaves at most 50 sessions of a user", async () => {
    const { signIn, store, status } = await world();
    const { cookie: bobs } = await signIn(tokens.bob);
    let last = "";
    for (let n = 0; n < 60; n++) last = (await signIn(tokens.ann)).cookie;
    expect(await store.files.list("~/cookies/")).toHaveLength(51);
    expect([await status(last), await status(bobs)]).toEqual([200, 200]);
  });
});
