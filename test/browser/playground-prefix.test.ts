import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { Hono } from "hono";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { memoryStore, ReActAgent, tool } from "../../src/index.ts";
import { createApp } from "../../src/server.ts";
import { scriptedModel } from "../../src/testing.ts";
import { requires } from "../support/requires.ts";
import { launch } from "./support/playground-scene.ts";

const token = "a-token-of-the-prefix-tests";
const pixel =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** An app of somebody else that has the page below `/agents`, behind a real socket. */
async function listen(how: "route" | "mount") {
  const photo = tool({
    name: "photo",
    description: "Takes a photo.",
    execute: () => ({
      content: [{ type: "image" as const, source: { data: pixel, mimeType: "image/png" } }],
    }),
  });
  const lead = new ReActAgent({
    name: "lead",
    store: memoryStore(),
    tools: [photo],
    model: scriptedModel([{ call: "photo", input: {} }, ["All is well."]], { by: "prompt" }),
  });
  const app = createApp({ agents: [lead], token, page: true, log: false });
  const parent = new Hono().get("/", (context) => context.text("Another site."));
  if (how === "route") parent.route("/agents", app);
  else parent.mount("/agents", app.fetch);
  const server = createAdaptorServer({ fetch: parent.fetch }) as Server;
  await once(server.listen(0, "127.0.0.1"), "listening");
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/agents` };
}

describe.skipIf(!requires("chromium"))("the page below a prefix", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser?.close());

  it.each([
    ["route", "/"],
    ["route", ""],
    ["mount", "/"],
    ["mount", ""],
  ] as const)("signs in, runs and reloads with %s() at /agents%s", async (how, end) => {
    const { server, url } = await listen(how);
    const page = await browser.newPage();
    const failed: string[] = [];
    try {
      await page.goto(`${url}${end}#token=${token}`);
      await page.getByText("Connected").waitFor();
      page.on("response", (response) => {
        if (response.status() >= 400) failed.push(response.url());
      });
      expect(page.url()).toBe(`${url}/`);
      await page.locator("#composer").fill("How are you?");
      await page.keyboard.press("Enter");
      await page.locator(".talk").getByText("All is well.").first().waitFor();
      await page.reload();
      await page.locator(".talk").getByText("All is well.").first().waitFor();
      expect(page.url()).toContain(`${url}/#/s/`);
      const image = page.locator(".talk img").first();
      await image.waitFor();
      await expect
        .poll(() => image.evaluate((it) => (it as HTMLImageElement).naturalWidth))
        .toBe(1);
      expect(failed).toEqual([]);
    } finally {
      await page.close();
      server.closeAllConnections();
      server.close();
    }
  });
});
