import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requires } from "../support/requires.ts";
import { launch, openScene } from "./support/playground-scene.ts";
import { nestedTeam, twoAgents } from "./support/playground-team.ts";

describe.skipIf(!requires("chromium"))("the page of a server with several agents", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser?.close());

  it("asks the agent that is picked in the composer, and continues its session with it", async () => {
    await using scene = await openScene({ browser, team: twoAgents });
    const { page, said, errors } = scene;
    await page.locator(".compose").getByLabel("Agent").selectOption("helper");
    await page.getByText("Answers alone.").first().waitFor();
    await scene.ask("Hello?");
    await said("The first answer of the helper.").waitFor();
    await page.locator(".turn .by").getByText("You to helper").waitFor();
    await page.locator(".rail .sess", { hasText: "helper" }).waitFor();
    await page.reload();
    await said("The first answer of the helper.").waitFor();
    await page.locator(".turn .by").getByText("You to helper").waitFor();
    expect(await page.locator(".compose select").count()).toBe(0);
    await scene.ask("And now?");
    await said("The second answer of the helper.").waitFor();
    expect(errors).toEqual([]);
  });

  it("begins a run with the agent that is picked in the rail, and keeps the choice", async () => {
    await using scene = await openScene({ browser, team: twoAgents });
    const { page, said } = scene;
    const picker = page.locator(".rail").getByLabel("New runs with");
    expect(await picker.inputValue()).toBe("lead");
    await picker.selectOption("helper");
    await scene.ask("Hello?");
    await said("The first answer of the helper.").waitFor();
    await picker.selectOption("lead");
    await page.getByText("Leads two researchers.").first().waitFor();
    expect(new URL(page.url()).hash).toBe("");
    await page.reload();
    await page.getByText("Connected").waitFor();
    expect(await page.locator(".compose select").inputValue()).toBe("lead");
  });

  it("offers no choice where there is one agent", async () => {
    await using scene = await openScene({ browser, team: nestedTeam });
    expect(await scene.page.locator("select").count()).toBe(0);
  });

  it("reaches one of two critics by a name of its own", async () => {
    await using scene = await openScene({ browser, team: twoAgents });
    const { page, gates, thread, errors } = scene;
    gates.open("researcher");
    await scene.ask("Go.");
    const critics = thread("critic");
    await expect.poll(() => critics.count()).toBe(2);
    await critics.nth(1).getByText("critic begins here.").waitFor();
    const composer = page.locator("#composer");
    await composer.pressSequentially("@crit");
    const names = page.locator(".mentions li");
    await expect
      .poll(() => names.allInnerTexts())
      .toEqual(["researcher-1/critic", "researcher-2/critic"]);
    await composer.fill("@critic Be brief.");
    await page.keyboard.press("Enter");
    await page.getByText("2 agents have this name.").waitFor();
    expect(await composer.inputValue()).toBe("@critic Be brief.");
    await composer.fill("@researcher-2/critic Be brief.");
    await page.keyboard.press("Enter");
    await page.locator(".sent").getByText("Be brief.").waitFor();
    gates.open("critic");
    await scene.unfold();
    const second = thread("researcher 2").locator(critics);
    await second.locator(".hint").getByText("Be brief.").waitFor();
    expect(await thread("researcher 1").locator(".hint").count()).toBe(0);
    expect(errors).toEqual([]);
  });
});
