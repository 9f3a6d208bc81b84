// Serves the page of page.tsx and, on the same origin, the agents.
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import type { Agent } from "rivulet";
import { type AdapterName, createApp } from "rivulet/server";
import { build } from "tsdown";

/** Bundles a page for browsers. */
export async function bundlePage(entry: string): Promise<string> {
  const [built] = await build({
    config: false,
    entry: [entry],
    platform: "browser",
    format: "iife",
    define: { "process.env.NODE_ENV": '"production"' },
    deps: { alwaysBundle: [/.*/] },
    minify: true,
    dts: false,
    clean: false,
    write: false,
    logLevel: "silent",
  });
  return built?.chunks.map((chunk) => (chunk.type === "chunk" ? chunk.code : "")).join("\n") ?? "";
}

/** Mounts the agents in a Hono app that also serves the page. The page gets the token as a cookie. */
export function pageApp(
  script: string,
  agents: readonly Agent[],
  token: string,
  adapters: readonly AdapterName[] = [],
): Hono {
  const api = createApp({ agents, token, adapters, log: false });
  const app = new Hono();
  app.get("/", async (context) => {
    const headers = { authorization: `Bearer ${token}`, host: context.req.header("host") ?? "" };
    const { headers: given } = await api.request("/v1/cookie", { method: "POST", headers });
    context.header("set-cookie", given.get("set-cookie") ?? "");
    return context.html(
      '<!doctype html><title>Rivulet</title><body><script src="/page.js"></script>',
    );
  });
  app.get("/page.js", (context) => {
    context.header("content-type", "text/javascript; charset=utf-8");
    return context.body(script);
  });
  app.route("/", api);
  return app;
}

/** Listens on this machine. */
export function listen(app: Hono, port = 0): Promise<{ port: number; close(): Promise<void> }> {
  return new Promise((resolve) => {
    const server = serve({ fetch: app.fetch, port, hostname: "127.0.0.1" }, ({ port }) =>
      resolve({
        port,
        close: () =>
          new Promise((closed) => {
            server.close(() => closed());
            if ("closeAllConnections" in server) server.closeAllConnections();
          }),
      }),
    );
  });
}
