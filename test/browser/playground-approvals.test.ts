import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requires } from "../support/requires.ts";
import { launch, openScene } from "./support/playground-scene.ts";
import { askingTeam } from "./support/playground-team.ts";

describe.skipIf(!requires("chromium"))("the page answers approvals", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser?.close());
  const scene = () => openScene({ browser, team: askingTeam });

  it("approves the call of a grandchild, with its whole change in view", async () => {
    await using shown = await scene();
    const { page, thread, errors, said } = shown;
    await shown.ask("Please edit.");
    const card = thread("critic").locator(".appr");
    await card.getByText("critic wants to run edit_file").waitFor();
    await card.getByText("reports/deltas.md").first().waitFor();
    await card.locator(".diff .d", { hasText: "The delta grows." }).waitFor();
    await card
      .locator(".diff .a", { hasText: "Where the river is strong, the delta grows." })
      .waitFor();
    await expect.poll(() => page.title()).toContain("◆ 1");
    await card.getByRole("button", { name: "Approve" }).click();
    await said("The lead is done.").waitFor();
    await shown.unfold();
    await said("The critic got: now says Where the river is strong").waitFor();
    await expect.poll(() => page.title()).toBe("Rivulet");
    expect(errors).toEqual([]);
  });

  it("lists what waits in all runs, until it is answered", async () => {
    await using shown = await scene();
    const { page, thread, errors, said } = shown;
    await shown.ask("Please edit.");
    await thread("critic").locator(".appr").waitFor();
    await page.getByRole("button", { name: "New run" }).click();
    await shown.ask("A question, please.");
    await thread("critic").locator(".appr").waitFor();
    const waiting = page.getByRole("region", { name: "Waiting for you" }).getByRole("link");
    await expect.poll(() => waiting.count(), { timeout: 15_000 }).toBe(2);
    await expect
      .poll(() => waiting.allInnerTexts())
      .toEqual([
        expect.stringMatching(/critic asks\s+A question, please\./),
        expect.stringMatching(/critic wants to run edit_file\s+Please edit\./),
      ]);
    await waiting.last().click();
    await thread("critic").getByRole("button", { name: "Approve" }).click();
    await said("The lead is done.").waitFor();
    await expect.poll(() => waiting.count(), { timeout: 15_000 }).toBe(1);
    await page.getByRole("tab", { name: "Nodes" }).click();
    await page.getByText("critic: ask_person").waitFor();
    expect(errors).toEqual([]);
  });

  it("runs the call with edited arguments, and refuses text that is not JSON", async () => {
    await using shown = await scene();
    const { thread, said } = shown;
    await shown.ask("Please edit.");
    const card = thread("critic").locator(".appr");
    await card.getByRole("button", { name: "Edit e" }).click();
    await card.getByLabel("new_string").fill("CHANGED");
    await card.getByRole("button", { name: "JSON" }).click();
    const area = card.getByLabel("Arguments as JSON");
    expect(await area.inputValue()).toContain("CHANGED");
    await area.fill("{ broken");
    await card.getByRole("button", { name: "Run with these arguments" }).click();
    await card.getByRole("alert").waitFor();
    await area.fill(JSON.stringify({ path: "a.md", old_string: "x", new_string: "EDITED" }));
    await card.getByRole("button", { name: "Run with these arguments" }).click();
    await said("The lead is done.").waitFor();
    await shown.unfold();
    await said("The critic got: now says EDITED").waitFor();
  });

  it("edits one argument in its own field, and marks the call", async () => {
    await using shown = await scene();
    const { thread, said } = shown;
    await shown.ask("Please edit.");
    const card = thread("critic").locator(".appr");
    await card.getByRole("button", { name: "Edit e" }).click();
    expect(await card.getByLabel("path").inputValue()).toBe("reports/deltas.md");
    await card.getByLabel("new_string").fill("Two lines,\nas they are.");
    await card.getByRole("button", { name: "Run with these arguments" }).click();
    await said("The lead is done.").waitFor();
    await shown.unfold();
    await thread("critic").locator(".call", { hasText: "edited" }).waitFor();
  });

  it("denies with a reason that the agent reads", async () => {
    await using shown = await scene();
    const { thread, said } = shown;
    await shown.ask("Please edit.");
    const card = thread("critic").locator(".appr");
    await card.getByPlaceholder("Reason, sent to critic").fill("Not this file.");
    await card.getByRole("button", { name: "Deny" }).click();
    await said("The lead is done.").waitFor();
    await shown.unfold();
    await said(/The critic got: .*Not this file/).waitFor();
  });

  it("does not ask again after Always", async () => {
    await using shown = await scene();
    const { page, thread, said } = shown;
    await shown.ask("Please edit twice.");
    await thread("critic").getByRole("button", { name: "Always for edit_file" }).click();
    await said("The lead is done.").waitFor();
    expect(await page.locator(".appr").count()).toBe(0);
  });

  it("answers a question", async () => {
    await using shown = await scene();
    const { page, thread, said } = shown;
    await shown.ask("Ask a question.");
    const card = thread("critic").locator(".appr");
    await card.getByText("critic asks: Which river?").waitFor();
    await card.getByLabel("Your answer").fill("The Nile river");
    await page.keyboard.press("Enter");
    await said("The lead is done.").waitFor();
    await shown.unfold();
    await said("The critic got: The Nile river").waitFor();
  });

  it("leads to an approval that is out of view, and answers it by keys alone", async () => {
    await using shown = await scene();
    const { page, said } = shown;
    await shown.ask("Please edit.");
    await page.locator(".appr").waitFor();
    // Folded threads hide the card.
    await page.getByRole("button", { name: "Fold all" }).click();
    await page.locator(".needs", { hasText: "critic wants to run edit_file" }).waitFor();
    await page.locator(".talk").focus();
    await page.keyboard.press("g");
    await page.keyboard.press("a");
    await expect
      .poll(() => page.evaluate(() => document.activeElement?.className))
      .toContain("appr");
    await page.keyboard.press("a");
    await said("The lead is done.").waitFor();
  });
});
