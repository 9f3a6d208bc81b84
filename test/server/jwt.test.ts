import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from "jose";
import { beforeAll, describe, expect, it } from "vitest";
import { HarnessAgent, memoryStore } from "../../src/index.ts";
import type { JwtOptions } from "../../src/server.ts";
import { scriptedModel } from "../../src/testing.ts";
import { workspaceWith } from "../harness/agent/support/workspace.ts";
import { scripted, startServer } from "./support/server.ts";

type Keys = Awaited<ReturnType<typeof generateKeyPair>>;
let keys: Keys;
let stranger: Keys;
let options: JwtOptions;
beforeAll(async () => {
  [keys, stranger] = await Promise.all([generateKeyPair("ES256"), generateKeyPair("ES256")]);
  const key = { ...(await exportJWK(keys.publicKey)), kid: "k1", alg: "ES256" };
  options = { jwks: { keys: [key] }, issuer: "https://issuer.example", audience: "rivulet" };
});

const inAMinute = () => Math.floor(Date.now() / 1_000) + 60;

/** A token of ann that is valid for a minute, with these claims instead of its own. */
function sign(claims: Record<string, unknown>, by = keys.privateKey, header = {}): Promise<string> {
  const own = { iss: options.issuer, aud: "rivulet", sub: "ann", exp: inAMinute() };
  return new SignJWT({ ...own, ...claims } as JWTPayload)
    .setProtectedHeader({ alg: "ES256", kid: "k1", ...header })
    .setIssuedAt()
    .sign(by);
}

async function startWith(more: Partial<JwtOptions> = {}) {
  const { agent } = scripted(() => "Hello.");
  const server = await startServer({ agents: [agent], auth: { jwt: { ...options, ...more } } });
  /** The statuses of reading and of starting. */
  const statuses = async (token: string) => [
    (await server.as(token).get("/v1/agents")).status,
    (await server.as(token).post("/v1/tasks", { agent: "lead", input: "x" })).status,
  ];
  return { ...server, statuses };
}

it("names the user; a wrong token is refused", async () => {
  const server = await startWith();
  const valid = await sign({});
  expect(await server.statuses(valid)).toEqual([200, 201]);
  const { body } = await server.as(valid).post("/v1/tasks", { agent: "lead", input: "x" });
  const status = async (token: string) =>
    (await server.as(token).get(`/v1/tasks/${body.id}`)).status;
  expect(await status(valid)).toBe(200);
  expect(await status(await sign({ sub: "bob" }))).toBe(404);
  const [head = "", claims = ""] = valid.split(".");
  const none = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");
  const wrong = [
    await sign({ exp: inAMinute() - 120 }),
    await sign({ iss: "https://other.example" }),
    await sign({ aud: "other" }),
    await sign({}, stranger.privateKey),
    await sign({}, keys.privateKey, { kid: "k2" }),
    ...[`${none}.${claims}.`, `${head}.${claims}.x`, "a.b.c", "..", valid.slice(0, -4)],
  ];
  for (const token of wrong) expect(await status(token), token).toBe(401);
  expect(JSON.stringify(server.lines)).not.toContain(valid);
});

describe("the scopes", () => {
  const both = "openid rivulet:read rivulet:write";

  it("come from `scope` or `scp`, a string or an array of strings", async () => {
    const server = await startWith();
    const cases: readonly [Record<string, unknown>, number[]][] = [
      [{ scope: both }, [200, 201]],
      [{ scp: both }, [200, 201]],
      [{ scope: both.split(" ") }, [200, 201]],
      [{ scp: both.split(" ") }, [200, 201]],
      [{ scope: "openid rivulet:read" }, [200, 403]],
      [{ scp: ["rivulet:read"] }, [200, 403]],
      [{ scope: "openid" }, [403, 403]],
      [{ scope: "" }, [403, 403]],
      [{ scope: [] }, [403, 403]],
      [{ scp: ["rivulet:read rivulet:write"] }, [403, 403]],
    ];
    for (const [claims, expected] of cases)
      expect(await server.statuses(await sign(claims)), JSON.stringify(claims)).toEqual(expected);
  });

  it("of any other form refuse the token", async () => {
    const server = await startWith();
    for (const claim of [null, {}, { read: true }, 1, true, false, ["rivulet:read", 1], [null]]) {
      for (const name of ["scope", "scp"]) {
        const token = await sign({ [name]: claim });
        expect(await server.statuses(token), `${name} ${JSON.stringify(claim)}`).toEqual([
          401, 401,
        ]);
      }
    }
    expect(await server.statuses(await sign({ scope: both, scp: null }))).toEqual([401, 401]);
  });

  it("default to those of `defaultScopes`", async () => {
    const token = await sign({});
    expect(await (await startWith({ defaultScopes: ["read"] })).statuses(token)).toEqual([
      200, 403,
    ]);
    expect(await (await startWith({ defaultScopes: [] })).statuses(token)).toEqual([403, 403]);
  });
});

it("must expire, unless `allowNoExpiry` is set", async () => {
  const forever = await sign({ exp: undefined });
  expect(await (await startWith()).statuses(forever)).toEqual([401, 401]);
  const lenient = await startWith({ allowNoExpiry: true });
  expect(await lenient.statuses(forever)).toEqual([200, 201]);
  expect(await lenient.statuses(await sign({ exp: inAMinute() - 120 }))).toEqual([401, 401]);
});

it("is refused if `sub` is no usable user id", async () => {
  const server = await startWith();
  const unusable = ["", "a\u0000b", "a\nb", "\u0085", "x".repeat(257), 1, null, [], undefined];
  for (const sub of unusable)
    expect(await server.statuses(await sign({ sub })), JSON.stringify(sub)).toEqual([401, 401]);
});

it("keeps files, sessions and memories of users whose ids are no file names apart", async () => {
  const users = [
    "repo:org/name:ref:refs/heads/main",
    "repo:org/name:ref:refs/heads/Main",
    ...["../ann", "..", "org/name", "org=2fname", "x".repeat(256), `${"x".repeat(255)}y`],
  ];
  const store = memoryStore();
  const agent = new HarnessAgent({
    name: "lead",
    workspace: workspaceWith(),
    store,
    memory: {},
    model: scriptedModel(({ prompt }) => {
      const last = prompt.at(-1);
      if (last?.role !== "user") return "Done.";
      const [canary = ""] = /canary\d+/.exec(JSON.stringify(last.content)) ?? [];
      return { call: "write_file", input: { path: "notes.md", content: canary } };
    }),
  });
  const server = await startServer({ agents: [agent], auth: { jwt: options } });
  for (const [n, sub] of users.entries()) {
    const api = server.as(await sign({ sub }));
    const { body: task } = await api.post("/v1/tasks", { agent: "lead", input: `canary${n}` });
    await api.frames(`/v1/tasks/${task.id}/events`);
    await agent.memory({ userId: sub }).edit("MEMORY.md", `canary${n}`);
  }
  for (const [n, sub] of users.entries()) {
    const api = server.as(await sign({ sub }));
    const { sessions } = (await api.get("/v1/sessions")).body;
    expect(sessions, sub).toHaveLength(1);
    const path = `/v1/sessions/${encodeURIComponent(sessions[0].session_id)}`;
    expect((await api.get(`${path}/files/notes.md`)).text, sub).toBe(`canary${n}`);
    expect((await api.get(`/v1/search?q=canary${n}`)).body.matches.length).toBeGreaterThan(0);
    expect((await api.get(`/v1/search?q=canary${(n + 1) % users.length}`)).body.matches).toEqual(
      [],
    );
    expect(await agent.memory({ userId: sub }).read()).toContain(`canary${n}`);
  }
});
