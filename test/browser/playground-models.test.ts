import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requires } from "../support/requires.ts";
import { launch, openScene } from "./support/playground-scene.ts";
import { nestedTeam, twoModels } from "./support/playground-team.ts";

const [swift, careful] = ["scripted:swift-mini", "scripted:careful-large-20250929"];

describe.skipIf(!requires("chromium"))("the page of an agent with several models", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser?.close());

  it("runs with the chosen model, shows it, and keeps it for the session", async () => {
    await using scene = await openScene({ browser, team: twoModels });
    const { page, said, errors } = scene;
    const picker = page.locator(".compose").getByLabel("Model");
    const by = page.locator(".turn .by");
    expect(await picker.locator("option").allInnerTexts()).toEqual([swift, careful]);
    expect(await picker.inputValue()).toBe(swift);
    await scene.ask("Hello?");
    await said("Answer 1 of swift-mini.").waitFor();
    expect(await by.first().textContent()).not.toContain("model");
    await picker.selectOption(careful);
    await page.locator(".rail .foot").getByText(careful).waitFor();
    await scene.ask("And now?");
    await said("Answer 2 of careful-large").waitFor();
    await by.nth(1).getByText(`model ${careful}`).waitFor();
    expect(await picker.inputValue()).toBe(careful);
    await page.reload();
    await said("Answer 2 of careful-large").waitFor();
    await by.nth(1).getByText(`model ${careful}`).waitFor();
    expect(await picker.inputValue()).toBe(careful);
    await scene.ask("And then?");
    await said("Answer 3 of careful-large").waitFor();
    await picker.selectOption(swift);
    await scene.ask("And at last?");
    await said("Answer 4 of swift-mini.").waitFor();
    expect(await picker.inputValue()).toBe(swift);
    await page.getByRole("button", { name: "New run" }).click();
    expect(await picker.inputValue()).toBe(swift);
    expect(errors).toEqual([]);
  });

  it("offers no choice for an agent with one model", async () => {
    await using scene = await openScene({ browser, team: twoModels });
    const { page } = scene;
    await page.locator(".compose").getByLabel("Agent").selectOption("helper");
    await page.getByText("Has one model.").first().waitFor();
    expect(await page.getByLabel("Model").count()).toBe(0);
    await using other = await openScene({ browser, team: nestedTeam });
    expect(await other.page.getByLabel("Model").count()).toBe(0);
  });
});
