import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bundlePage, listen, pageApp } from "../../examples/react-page/serve-page.ts";
import { agentTool, memoryStore, ReActAgent, tool } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { requires } from "../support/requires.ts";

const token = "a-token-of-the-browser-tests";
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"];

/** A lead whose writer waits at a gate in the middle of its letter, and asks before it sends it. */
function team(gate: Promise<void>) {
  const hold = tool({
    name: "hold",
    description: "Waits.",
    execute: async () => {
      await gate;
      return "Passed.";
    },
  });
  const send = tool({
    name: "send",
    description: "Sends the letter.",
    needsApproval: true,
    execute: () => "Sent.",
  });
  const store = memoryStore();
  const writer = new ReActAgent({
    ...{ name: "writer", description: "Writes.", store },
    model: scriptedModel([
      ["Dear ", "Ann, ", { call: "hold" }],
      ["thanks.", { call: "send" }],
      "Sent.",
    ]),
    tools: [hold, send],
  });
  return new ReActAgent({
    ...{ name: "lead", store },
    model: scriptedModel([
      [{ text: "One moment. " }, { call: "writer", input: { prompt: "Thank Ann." } }],
      "The letter is on its way.",
    ]),
    tools: [agentTool(writer)],
  });
}

describe.skipIf(!requires("chromium"))("a page on useChat", () => {
  let browser: Browser;
  let script: string;
  beforeAll(async () => {
    const executablePath = "/usr/bin/chromium";
    [browser, script] = await Promise.all([
      chromium.launch({ executablePath, args: flags }),
      bundlePage("examples/chat-page/page.tsx"),
    ]);
  });
  afterAll(() => browser?.close());

  const textOf = (page: Page, selector: string) => page.locator(selector).allTextContents();

  it.each(["adapter", "protocol"])(
    "shows nested agents live, survives a reload, and approves a child's call by the %s",
    async (by) => {
      const gate = Promise.withResolvers<void>();
      const adapters = by === "adapter" ? (["ai-sdk"] as const) : [];
      const server = await listen(pageApp(script, [team(gate.promise)], token, adapters));
      const page = await browser.newPage();
      const problems: string[] = [];
      page.on("pageerror", ({ message }) => problems.push(message));
      try {
        await page.goto(`http://localhost:${server.port}/?by=${by}`);
        await page.fill("input[name=text]", "Thank Ann.");
        await page.keyboard.press("Enter");
        await expect.poll(() => textOf(page, "section")).toEqual(["Dear Ann, "]);
        await page.reload();
        await expect.poll(() => textOf(page, "section")).toEqual(["Dear Ann, "]);
        await expect.poll(() => textOf(page, "article[title=assistant]")).toEqual(["One moment. "]);
        gate.resolve();
        await page.click("input[value=send]");
        await expect
          .poll(() => textOf(page, "article[title=assistant]"))
          .toEqual(["One moment. The letter is on its way."]);
        await expect.poll(() => textOf(page, "section")).toEqual(["Dear Ann, thanks.Sent."]);
        expect(await page.locator("section").getAttribute("title")).toBe("writer: completed");
        expect(problems).toEqual([]);
      } finally {
        await page.close();
        await server.close();
      }
    },
  );
});
