import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import axe from "axe-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requires } from "../support/requires.ts";
import { launch, openScene, type Scene } from "./support/playground-scene.ts";
import { askingTeam, nestedTeam, pricedTeam, twoModels } from "./support/playground-team.ts";

/** Screenshots are kept here for people; git ignores the folder. */
const folder = "test/browser/screenshots";

/** The serious violations of accessibility on a page. */
async function violations(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  return page.evaluate(async () => {
    const { axe: tool } = globalThis as unknown as {
      axe: {
        run(): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }>;
      };
    };
    const found = await tool.run();
    return found.violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(" | ")}`);
  });
}

const widths = [
  { width: 360, height: 740 },
  { width: 768, height: 1024 },
  { width: 1440, height: 900 },
] as const;
describe.skipIf(!requires("chromium"))("the page looks right", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launch();
    mkdirSync(folder, { recursive: true });
  });
  afterAll(() => browser?.close());

  /** In both themes: takes a picture, and finds nothing serious for accessibility and nothing wider than the screen. */
  async function check({ page, errors }: Scene, name: string): Promise<void> {
    for (const theme of ["dark", "light"]) {
      await page.evaluate((chosen) => {
        document.documentElement.dataset.theme = chosen;
      }, theme);
      const path = join(folder, `${name}-${theme}.png`);
      await page.screenshot({ path, animations: "disabled" });
      expect(await violations(page), path).toEqual([]);
    }
    const overflow = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    expect(overflow, name).toBe(0);
    expect(errors, name).toEqual([]);
  }

  it.each(widths)("at $width px: start, live, panel, past, end", async (look) => {
    await using scene = await openScene({ browser, team: nestedTeam, ...look });
    const { page, gates, thread } = scene;
    const name = (state: string) => `${state}-${look.width}`;
    const isSmall = look.width < 1100;
    await check(scene, name("start"));
    await scene.ask("What is new?");
    await thread("ann").getByText("ann begins here.").waitFor();
    gates.open("bob");
    await thread("carl").getByText("carl begins here.").waitFor();
    await check(scene, name("live"));
    await page.keyboard.press("Escape"); // out of the composer
    await page.keyboard.press("?");
    await page.getByRole("dialog").locator("kbd", { hasText: "esc" }).waitFor();
    await check(scene, name("help"));
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    if (isSmall) {
      await page.getByRole("button", { name: /running/ }).click();
      await page.getByRole("treeitem").first().waitFor();
      await check(scene, name("tree"));
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Runs" }).click();
      await page.getByRole("link", { name: /What is new/ }).waitFor();
      await check(scene, name("runs"));
      await page.keyboard.press("Escape");
    } else {
      await page.getByRole("tab", { name: "Inspector" }).click();
      await page.getByText("model call 1 of").waitFor();
      await check(scene, name("inspector"));
      await page.getByRole("button", { name: "Usage", exact: true }).click();
      await check(scene, name("usage"));
      await page.getByRole("tab", { name: "Agents" }).click();
      await check(scene, name("agents"));
      await page.getByRole("tab", { name: "Tree" }).click();
    }
    await page.getByRole("slider").focus();
    await page.keyboard.press("PageDown");
    await page.locator(".pastbar").waitFor();
    await check(scene, name("past"));
    await page.keyboard.press("Escape");
    gates.open("ann", "carl", "dora");
    await scene.said("The answer of the lead.").waitFor();
    await check(scene, name("end"));
  });

  it.each(widths)("at $width px: what a run uses, while it works and at its end", async (look) => {
    await using scene = await openScene({ browser, team: pricedTeam, ...look });
    const { page, gates } = scene;
    const flame = (name: string) => page.locator(".flame").getByRole("button", { name });
    const labels = () =>
      page
        .locator(".flame button")
        .evaluateAll((all) => all.map((button) => button.getAttribute("aria-label")));
    await scene.ask("What does it cost?");
    if (look.width < 1100) await page.getByRole("button", { name: /of \d+ running/ }).click();
    await page.getByRole("tab", { name: "Inspector" }).click();
    await page.getByRole("button", { name: "Usage", exact: true }).click();
    await flame("ann: 200 tokens, 45 % of the run").waitFor();
    await flame("bob: 40 tokens, 9 % of the run").waitFor();
    await check(scene, `cost-live-${look.width}`);
    gates.open("bob");
    await flame("lead: 850 tokens, 100 % of the run").waitFor();
    expect(await labels()).toEqual([
      "lead: 850 tokens, 100 % of the run",
      "ann: 200 tokens, 24 % of the run",
      "bob: 210 tokens, 25 % of the run",
      "carl: 80 tokens, 9 % of the run",
    ]);
    const rows = await page.locator(".usage tr").allInnerTexts();
    expect(
      rows
        .find((row) => row.startsWith("ann"))
        ?.split(/\s+/)
        .slice(2),
    ).toEqual("140 70 60 0 50 0.20 EUR".split(" "));
    expect(rows.at(-1)?.split(/\s+/)).toEqual("All 650 325 200 0 50 0.20 EUR + unknown".split(" "));
    await flame("lead").focus();
    for (const [key, name] of [
      ["ArrowDown", "ann"],
      ["ArrowRight", "bob"],
      ["ArrowDown", "carl"],
      ["ArrowUp", "bob"],
      ["ArrowLeft", "ann"],
    ] as const) {
      await page.keyboard.press(key);
      await page.locator(`.flame button[aria-label^="${name}"]:focus`).waitFor();
    }
    await page.getByRole("button", { name: "EUR" }).click();
    await flame("lead: 0.20 EUR, 100 % of the run").waitFor();
    expect(await labels()).toHaveLength(2);
    await check(scene, `cost-end-${look.width}`);
    await page.getByRole("button", { name: "Time", exact: true }).click();
    await page.locator('.flame button[aria-label^="lead"]').waitFor();
  });

  it.each(widths)("at $width px: an approval and its edit form", async (look) => {
    await using scene = await openScene({ browser, team: askingTeam, ...look });
    const { page, thread } = scene;
    await scene.ask("Please edit.");
    const card = thread("critic").locator(".appr");
    await card.getByRole("button", { name: "Approve" }).waitFor();
    await card.locator(".diff .a").first().waitFor();
    await check(scene, `approval-${look.width}`);
    if (look.width === 360) {
      const box = await card.boundingBox();
      expect(box?.width).toBeGreaterThan(340);
    }
    if (look.width < 1100) await page.getByRole("button", { name: "Runs" }).click();
    await page.getByRole("link", { name: "critic wants to run edit_file" }).waitFor();
    await check(scene, `waiting-${look.width}`);
    if (look.width < 1100) await page.keyboard.press("Escape");
    await card.getByRole("button", { name: /^Edit/ }).click();
    await check(scene, `edit-${look.width}`);
    await page.keyboard.press("Escape");
    await card.getByRole("button", { name: "Approve" }).waitFor();
  });

  it.each(widths)("at $width px: a choice of models", async (look) => {
    await using scene = await openScene({ browser, team: twoModels, ...look });
    const { page, said } = scene;
    const picker = page.locator(".compose").getByLabel("Model");
    await check(scene, `models-start-${look.width}`);
    await picker.selectOption({ index: 1 });
    await scene.ask("Which of the two models answers this question, and why?");
    await said("Answer 1 of careful-large").waitFor();
    await picker.waitFor();
    await check(scene, `models-end-${look.width}`);
    const wide = await page
      .locator(".rail")
      .evaluate((rail) => rail.scrollWidth > rail.clientWidth);
    expect(wide, "the rail is wider than its place").toBe(false);
    const composer = await page.locator("#composer").boundingBox();
    expect(composer?.width, "the width of the composer").toBeGreaterThan(150);
  });

  it.each(widths)("at $width px: a run that waits for its owner", async (look) => {
    await using scene = await openScene({ browser, team: nestedTeam, ...look });
    const { page, thread } = scene;
    const waits = { reason: "owner_silent", left_ms: 4_000 };
    await page.route(/\/v1\/tasks\/[^/]+$/, (route) =>
      route.fulfill({ json: { status: "in_progress", waits } }),
    );
    await scene.ask("What is new?");
    await thread("ann").getByText("ann begins here.").waitFor();
    await page.locator(".turn > .note").scrollIntoViewIfNeeded();
    await check(scene, `waits-${look.width}`);
  });

  it("works by keys alone", async () => {
    await using scene = await openScene({ browser, team: nestedTeam });
    const { page, gates, thread } = scene;
    const press = async (...keys: readonly string[]) => {
      for (const key of keys) await page.keyboard.press(key);
    };
    // Tab reaches the composer.
    for (let count = 0; count < 40; count++) {
      await press("Tab");
      if (await page.evaluate(() => document.activeElement?.id === "composer")) break;
    }
    await page.keyboard.type("What is new?");
    await press("Enter");
    await thread("ann").getByText("ann begins here.").waitFor();
    await press("Escape", "?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    // The tree: from the lead down to ann.
    for (let count = 0; count < 60; count++) {
      await press("Tab");
      if (await page.evaluate(() => document.activeElement?.getAttribute("role") === "treeitem"))
        break;
    }
    await press("ArrowDown", "ArrowDown");
    await expect
      .poll(() => page.locator("[role=treeitem][aria-selected=true]").textContent())
      .toMatch(/^ann/);
    await press("f");
    await page.getByRole("navigation", { name: "Path of the focused agent" }).waitFor();
    expect(await thread("bob").count()).toBe(0);
    await press("Escape");
    await thread("bob").waitFor();
    await press("x");
    await expect.poll(() => thread("ann").getAttribute("data-status")).toBe("cancelled");
    await press("t");
    await page.locator(".dock").waitFor();
    await press("t", ",");
    await page.locator(".pastbar").waitFor();
    await press("l");
    await page.locator(".pastbar").waitFor({ state: "detached" });
    gates.open("bob", "carl", "dora");
    await scene.said("The answer of the lead.").waitFor();
    await press("n");
    await page.getByText("Read every agent as it writes.").waitFor();
    await press("/");
    await page.keyboard.type("new");
    await page.getByRole("link", { name: /What is new/ }).waitFor();
  });

  it("refuses politely without a key, and says so", async () => {
    await using scene = await openScene({ browser, team: nestedTeam });
    const other = await browser.newContext();
    const page = await other.newPage();
    await page.goto(scene.url);
    await page.getByText("This server needs a key.").waitFor();
    expect(await violations(page)).toEqual([]);
    await page.getByLabel("Token").fill("a-token-of-the-browser-tests");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("Read every agent as it writes.").waitFor();
    await other.close();
  });
});

it("sends at most 150 kB of script before the first paint", async () => {
  if (!existsSync("dist/playground/index.html"))
    await (await import("../../scripts/build-page.ts")).buildPage();
  const html = readFileSync("dist/playground/index.html", "utf8");
  const first = new Set(html.match(/\/[\w./-]+\.js/g));
  const size = (file: string) => gzipSync(readFileSync(`dist/playground${file}`)).length;
  const bytes = [...first].reduce((sum, file) => sum + size(file), 0);
  expect(first.size).toBeGreaterThan(0);
  expect(bytes).toBeLessThan(150_000);
  // The rest is there, too.
  expect(readdirSync("dist/playground/assets").length).toBeGreaterThan(first.size);
});
