import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requires } from "../support/requires.ts";
import { launch, openScene } from "./support/playground-scene.ts";
import { nestedTeam } from "./support/playground-team.ts";

describe.skipIf(!requires("chromium"))("the page shows nested agents", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser?.close());

  it("shows the text of a child at depth 2 before it ends, and parallel children side by side", async () => {
    await using scene = await openScene({ browser, team: nestedTeam });
    const { page, gates, thread, errors } = scene;
    await scene.ask("What is new?");
    await page.getByRole("heading", { name: "What is new?" }).first().waitFor();
    await thread("ann").getByText("ann begins here.").waitFor();
    await thread("bob").getByText("bob begins here.").first().waitFor();
    gates.open("bob"); // bob's own tool; its child still waits
    await thread("carl").getByText("carl begins here.").waitFor();
    expect(await thread("carl").getAttribute("data-status")).toBe("in_progress");
    await thread("carl").getByText("carl thinks.").waitFor();
    const [ann, bob] = [await thread("ann").boundingBox(), await thread("bob").boundingBox()];
    expect(ann?.y).toBe(bob?.y);
    expect(bob?.x).toBeGreaterThan((ann?.x ?? 0) + 300);
    expect(await thread("bob").locator(thread("carl")).count()).toBe(1);
    // Every agent is in the tree, too.
    const items = page.getByRole("treeitem");
    await expect.poll(() => items.allTextContents()).toHaveLength(5);
    expect(errors).toEqual([]);
  });

  it("keeps a background agent running after the reply", async () => {
    await using scene = await openScene({ browser, team: nestedTeam });
    const { page, gates, thread, said } = scene;
    await scene.ask("Go.");
    await thread("dora").waitFor();
    gates.open("ann", "bob", "carl");
    await said("The answer of the lead.").waitFor();
    expect(await thread("dora").getAttribute("data-status")).toBe("in_progress");
    await page.getByText("background").first().waitFor();
    // The next turn does not wait for it.
    await scene.ask("And now?");
    await said("The second answer.").waitFor();
    gates.open("dora");
    await expect.poll(() => thread("dora").getAttribute("data-status")).toBe("completed");
  });

  it("loses nothing when the page is reloaded in the middle of a run", async () => {
    await using scene = await openScene({ browser, team: nestedTeam });
    const { page, gates, thread, errors, said } = scene;
    await scene.ask("Go.");
    await thread("ann").getByText("ann begins here.").waitFor();
    gates.open("bob");
    await thread("carl").getByText("carl begins here.").waitFor();
    await page.reload();
    await thread("carl").getByText("carl begins here.").waitFor();
    await thread("ann").getByText("ann thinks.").waitFor();
    await page.getByRole("heading", { name: "Go." }).first().waitFor();
    gates.open("ann", "carl", "dora");
    await said("The answer of the lead.").waitFor();
    await page.reload();
    await said("The answer of the lead.").waitFor();
    expect(await page.title()).toBe("Rivulet");
    expect(errors).toEqual([]);
  });

  it("cancels one child and leaves the others", async () => {
    await using scene = await openScene({ browser, team: nestedTeam });
    const { gates, thread, said } = scene;
    await scene.ask("Go.");
    await thread("ann").getByText("ann begins here.").waitFor();
    await thread("bob").getByText("bob begins here.").first().waitFor();
    await thread("ann").locator("header").first().hover();
    await thread("ann").getByRole("button", { name: "Cancel ann and its agents" }).click();
    await expect.poll(() => thread("ann").getAttribute("data-status")).toBe("cancelled");
    expect(await thread("bob").getAttribute("data-status")).toBe("in_progress");
    gates.open("bob", "carl", "dora");
    await said("The answer of the lead.").waitFor();
    await expect.poll(() => thread("bob").getAttribute("data-status")).toBe("completed");
  });

  it("steers a running agent and shows the message", async () => {
    await using scene = await openScene({ browser, team: nestedTeam });
    const { page, gates, thread } = scene;
    await scene.ask("Go.");
    await thread("ann").getByText("ann begins here.").waitFor();
    await page.locator("#composer").fill("@ann");
    await page.locator(".mentions").getByText("ann").click();
    await page.getByText("to ann").waitFor();
    await page.locator("#composer").fill("Look at the map.");
    await page.keyboard.press("Enter");
    await page.locator(".sent", { hasText: "ann reads this" }).waitFor(); // the server has it
    gates.open("ann");
    await thread("ann").getByText("Look at the map.").waitFor();
  });

  it("opens a tool call with its arguments, its result and what the model gets", async () => {
    await using scene = await openScene({ browser, team: nestedTeam });
    const { gates, thread, said } = scene;
    await scene.ask("Go.");
    gates.open("ann", "bob", "carl", "dora");
    await said("The answer of the lead.").waitFor();
    await scene.unfold(); // it has folded itself
    const call = thread("ann").locator(".call");
    await call.click();
    await thread("ann").getByText("waiting at ann").last().waitFor();
    await thread("ann").getByRole("button", { name: "Arguments" }).click();
    await thread("ann").locator(".details .out", { hasText: "{}" }).waitFor();
    await thread("ann").getByRole("button", { name: "Model’s view" }).click();
    await thread("ann").locator(".details .out", { hasText: "Passed." }).waitFor();
  });
});
