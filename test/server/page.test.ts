import { createHash } from "node:crypto";
import { Hono } from "hono";
import { beforeAll, describe, expect, it } from "vitest";
import { buildPage } from "../../scripts/build-page.ts";
import { ReActAgent } from "../../src/agent/index.ts";
import { createApp, serve } from "../../src/server.ts";
import { scriptedModel } from "../../src/testing.ts";

const token = "a-token-of-the-page-tests";
const agent = () => new ReActAgent({ name: "lead", model: scriptedModel([["Hello."]]) });

describe("the page", () => {
  beforeAll(async () => void (await buildPage()));
  const app = () => createApp({ agents: [agent()], token, page: true, log: false });
  const get = (path: string, headers: Record<string, string> = {}) =>
    app().request(path, { headers: { host: "localhost", ...headers } });

  it("is served at / without a token, with a strict policy", async () => {
    const response = await get("/");
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
    const policy = response.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toContain("unsafe");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(await response.text()).toMatch(/<script type="module"[^>]* src="\.\/assets\//);
  });

  it("allows no script in its HTML but its own", async () => {
    const response = await get("/");
    const html = await response.text();
    const [, script = ""] = /<script>(.*?)<\/script>/s.exec(html) ?? [];
    const hash = createHash("sha256").update(script).digest("base64");
    expect(script).toContain("location.replace");
    const policy = response.headers.get("content-security-policy") ?? "";
    expect(policy).toContain(`script-src 'self' 'sha256-${hash}';`);
  });

  it.each(["route", "mount"] as const)(
    "works below a prefix of another app with %s()",
    async (how) => {
      const parent = new Hono();
      if (how === "route") parent.route("/agents", app());
      else parent.mount("/agents", app().fetch);
      const read = (path: string) => parent.request(path, { headers: { host: "localhost" } });
      const page = await read("/agents/");
      expect(page.status).toBe(200);
      expect((await read("/agents")).status).toBe(200);
      const html = await page.text();
      const addresses = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path = ""]) => path);
      expect(addresses.length).toBeGreaterThan(3);
      for (const address of addresses) {
        expect(address).toMatch(/^\.\//);
        const { pathname } = new URL(address, "http://localhost/agents/");
        expect((await read(pathname)).status, pathname).toBe(200);
      }
      expect((await read("/agents/none")).status).not.toBe(200);
      expect((await read("/")).status).toBe(404);
    },
  );

  it("is checked again on every visit, and its assets never", async () => {
    const page = await get("/");
    expect(page.headers.get("cache-control")).toBe("no-cache");
    const etag = page.headers.get("etag") ?? "";
    expect((await get("/", { "if-none-match": etag })).status).toBe(304);
    const [asset = ""] = /\/assets\/[^"]+\.js/.exec(await page.text()) ?? [];
    const script = await get(asset, { "accept-encoding": "gzip" });
    expect(script.headers.get("cache-control")).toContain("immutable");
    expect(script.headers.get("content-encoding")).toBe("gzip");
    expect(script.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
  });

  it.each([
    "/../package.json",
    "/assets/../../../package.json",
    "/assets/%2e%2e/%2e%2e/%2e%2e/package.json",
    "/assets/..%2f..%2f..%2fpackage.json",
    "/.inputs",
    "/index.html/..",
    "/assets/",
  ])("does not send %s", async (path) => {
    const response = await get(path, { authorization: `Bearer ${token}` });
    const text = await response.text();
    expect(text).not.toContain('"devDependencies"');
    expect([200, 404]).toContain(response.status);
    if (response.status === 200) expect(text).toContain("<!doctype html>");
  });

  it("answers only for hosts that it knows", async () => {
    expect((await get("/", { host: "evil.example" })).status).toBe(403);
  });

  it("does not exist without the option", async () => {
    const plain = createApp({ agents: [agent()], token, log: false });
    const headers = { host: "localhost", authorization: `Bearer ${token}` };
    expect((await plain.request("/", { headers })).status).toBe(404);
  });

  it("has an address with the token where only the browser sees it", async () => {
    const serving = await serve({ agents: [agent()], token, page: true, port: 0, log: false });
    expect(serving.pageUrl).toBe(`${serving.url}/#token=${token}`);
    await serving.close();
  });
});
