import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bundlePage, listen, pageApp } from "../../examples/react-page/serve-page.ts";
import { agentTool, ReActAgent, tool } from "../../src/agent/index.ts";
import { sqliteStore } from "../../src/store/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { requires } from "../support/requires.ts";

const flags = [
  ...["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
  ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
];
const token = "a-token-of-the-browser-tests";

/** A gate that the test opens. */
function gate() {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { promise, open: resolve };
}

let gates: Record<string, ReturnType<typeof gate>> = {};
const gateOf = (name: string) => {
  gates[name] ??= gate();
  return gates[name];
};
const open = (name: string) => gateOf(name).open();
/** Waits at a gate of the test. */
const hold = (name: string) =>
  tool({
    name: `hold_${name}`,
    description: "Waits.",
    idempotent: true, // a restarted server runs it again
    async execute(_, { emit }) {
      emit(`at ${name}`);
      await gateOf(name).promise;
      return "Passed.";
    },
  });

function team(directory: string) {
  const store = sqliteStore(join(directory, "rivulet.db"));
  const model = (script: Parameters<typeof scriptedModel>[0]) =>
    scriptedModel(script, { by: "prompt" });
  const helper = (name: string) =>
    agentTool(
      new ReActAgent({
        name,
        model: model([
          ["Looking ", "around. ", { call: `hold_${name}` }],
          ["Found ", "it."],
        ]),
        tools: [hold(name)],
      }),
    );
  const lead = new ReActAgent({
    name: "lead",
    store,
    leaseMs: 1_000,
    model: model([
      ["Starting. ", ...["ann", "bob"].map((call) => ({ call, input: { prompt: "x" } }))],
      ["All ", "done."],
      ["Said ", "before."],
    ]),
    tools: [helper("ann"), helper("bob")],
  });
  return { lead, store };
}

describe.skipIf(!requires("chromium"))("in Chromium", () => {
  let browser: Browser;
  let scripts: { page: string; counts: string };
  beforeAll(async () => {
    const executablePath = "/usr/bin/chromium";
    const [launched, page, counts] = await Promise.all([
      chromium.launch({ executablePath, args: flags }),
      bundlePage("examples/react-page/page.tsx"),
      bundlePage("test/browser/render-counts.tsx"),
    ]);
    browser = launched;
    scripts = { page, counts };
  });
  afterAll(() => browser?.close());

  /** A server with a page, and a tab on it. */
  async function scene(script: string) {
    gates = {};
    const directory = mkdtempSync(join(tmpdir(), "rivulet-page-"));
    let { lead, store } = team(directory);
    let server = await listen(pageApp(script, [lead], token));
    const { port } = server;
    const context: BrowserContext = await browser.newContext();
    const page: Page = await context.newPage();
    const errors: string[] = [];
    page.on("pageerror", ({ message }) => errors.push(message));
    await page.goto(`http://127.0.0.1:${port}/#session-1`);
    return {
      page,
      errors,
      section: (title: string) => page.locator(`section[title="${title}"]`),
      async restart() {
        await server.close();
        await store.close();
        ({ lead, store } = team(directory));
        server = await listen(pageApp(script, [lead], token), port);
        return lead;
      },
      async [Symbol.asyncDispose]() {
        open("ann");
        open("bob");
        await context.close();
        await server.close();
        await store.close();
        rmSync(directory, { recursive: true, force: true });
      },
    };
  }

  const text = (page: Page) => page.locator('section[title^="lead"]').textContent();

  it("shows the text of a child before the child ends, and keeps all of it over a reload", async () => {
    await using shown = await scene(scripts.page);
    const { page, section, errors } = shown;
    await page.locator('input[name="text"]').fill("Go.");
    await page.keyboard.press("Enter");
    await section("ann: in_progress").getByText("Looking around.").waitFor();
    await section("bob: in_progress").getByText("Looking around.").waitFor();
    await page.reload();
    await section("ann: in_progress").getByText("Looking around.").waitFor();
    await page.getByText("Go.").waitFor();
    open("ann");
    await section("ann: completed").getByText("Looking around. Found it.").waitFor();
    expect(await section("bob: in_progress").count()).toBe(1);
    open("bob");
    await section("lead: completed").waitFor();
    expect(await text(page)).toContain("Starting. All done.");
    await page.reload();
    await section("lead: completed").waitFor();
    expect(await text(page)).toContain("Looking around. Found it.");
    expect(errors).toEqual([]);
  });

  it("shows earlier runs with the threads of their subagents", async () => {
    await using shown = await scene(scripts.page);
    const { page, section, errors } = shown;
    open("ann");
    open("bob");
    const ask = async (question: string) => {
      await page.locator('input[name="text"]').fill(question);
      await page.keyboard.press("Enter");
      await page.locator("article", { hasText: question }).locator("section").first().waitFor();
    };
    await ask("First.");
    await section("lead: completed").waitFor();
    await ask("Second.");
    await expect.poll(() => section("lead: completed").count()).toBe(2);
    await page.reload();
    await expect.poll(() => section("lead: completed").count()).toBe(2);
    const [first, second] = await page.locator("article").all();
    expect(await first?.locator("p").allTextContents()).toEqual(["First."]);
    expect(await second?.locator("p").allTextContents()).toEqual(["Second."]);
    const threads = first?.locator('section[title="ann: completed"]');
    await expect.poll(() => threads?.textContent()).toBe("Looking around. Found it.");
    expect(errors).toEqual([]);
  });

  it("heals when the server restarts in the middle of a run", async () => {
    await using shown = await scene(scripts.page);
    const { page, section, errors } = shown;
    await page.locator('input[name="text"]').fill("Go.");
    await page.keyboard.press("Enter");
    await section("ann: in_progress").getByText("Looking around.").waitFor();
    const lead = await shown.restart();
    open("ann");
    open("bob");
    await lead.attach({ sessionId: "session-1" }).result(); // takes the run over
    await section("lead: completed").waitFor();
    expect(await section("ann: completed").textContent()).toContain("Found it.");
    expect(await text(page)).toContain("All done.");
    expect(errors).toEqual([]);
  });

  it("renders a component only when its task changes", async () => {
    await using shown = await scene(scripts.counts);
    const { page, section } = shown;
    // Both children wait at their gates, so no event follows before the test opens one.
    await section("ann: in_progress").getByText("at ann").waitFor();
    await section("bob: in_progress").getByText("at bob").waitFor();
    await page.waitForFunction("statuses.includes('open')");
    const idOf = async (name: string) =>
      (await section(`${name}: in_progress`).getAttribute("data-task")) ?? "";
    const [ann, bob] = [await idOf("ann"), await idOf("bob")];
    const counts = () => page.evaluate<Record<string, number>>("({ ...renders })");
    const before = await counts();
    open("ann");
    await section("ann: completed").waitFor();
    const after = await counts();
    expect(after[bob]).toBe(before[bob]);
    expect(after[ann]).toBeGreaterThan(before[ann] ?? 0);
    open("bob");
    await section("lead: completed").waitFor();
    expect((await counts()).root).toBeGreaterThan(before.root ?? 0);
  });

  it("follows a nested run with the browser's own EventSource and fetch, by cookie", async () => {
    await using shown = await scene("");
    const { page } = shown;
    open("ann");
    open("bob");
    const read = await page.evaluate(async () => {
      const body = JSON.stringify({ agent: "lead", input: "Go." });
      const headers = { "content-type": "application/json" };
      const started = await fetch("/v1/tasks", { method: "POST", headers, body });
      const { id } = (await started.json()) as { id: string };
      const named = await new Promise<string[]>((resolve) => {
        const source = new EventSource(`/v1/tasks/${id}/events?event_names=off`);
        const types: string[] = [];
        source.onmessage = ({ data }) => {
          const { type, task_id } = JSON.parse(data);
          types.push(`${type} ${task_id === id ? "root" : "child"}`);
          if (type !== "stream.closed") return;
          source.close();
          resolve(types);
        };
      });
      const response = await fetch(`/v1/tasks/${id}/events`);
      const text = await response.text();
      return { status: started.status, named, events: text.split("\nevent: task.").length - 1 };
    });
    expect(read.status).toBe(201);
    expect(read.named).toContain("task.text.delta child");
    expect(read.named).toContain("task.completed root");
    expect(read.named.at(-1)).toBe("stream.closed child");
    const logged = read.named.filter((name) => name.startsWith("task."));
    expect(read.events).toBe(logged.length);
  });
});
