import { copyFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sampleTeam } from "../../src/cli/sample-team.ts";
import { requires } from "../support/requires.ts";
import { launch, openScene } from "./support/playground-scene.ts";
import { askingTeam } from "./support/playground-team.ts";

const folder = "test/browser/screenshots";
const size = { width: 1440, height: 860 };

/** Takes a picture of the guide; RIVULET_IMAGES=1 puts it there. */
async function picture(page: import("playwright-core").Page, name: string): Promise<void> {
  const path = join(folder, `playground-${name}.png`);
  await page.mouse.move(0, 0); // nothing is under the pointer
  await page.screenshot({ path, animations: "disabled" });
  if (process.env.RIVULET_IMAGES === "1")
    copyFileSync(path, `docs/guide/images/playground-${name}.png`);
}

describe.skipIf(!requires("chromium"))("the sample team on the page", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launch();
    mkdirSync(folder, { recursive: true });
  });
  afterAll(() => browser?.close());

  it("answers with at least three agents and citations that resolve to lines of files", async () => {
    await using scene = await openScene({
      ...{ browser, ...size },
      team: (store) => [
        sampleTeam({ model: "demo:analyst", workspace: "sample/workspace", store }),
      ],
    });
    const { page, thread, errors } = scene;
    await page.getByRole("button", { name: /How do river deltas form/ }).click();
    const critics = thread("critic");
    await critics.nth(1).getByText("supported:").first().waitFor();
    expect(await thread("researcher 1").locator(critics).count()).toBe(1);
    const lanes = await page.locator(".tlbox .r > button").allTextContents();
    expect(lanes.filter((lane) => lane !== "")).toEqual([
      ...["lead", "researcher 1", "critic", "researcher 2", "critic", "cataloguer"],
    ]);
    await picture(page, "live");
    const answer = page.locator(".say.lead", { has: page.locator(".sources") });
    await answer.waitFor({ timeout: 60_000 });
    expect(await page.getByRole("treeitem").count()).toBeGreaterThanOrEqual(3);
    const sources = await answer.locator(".sources code").allTextContents();
    expect(sources.length).toBeGreaterThanOrEqual(3);
    for (const source of sources) {
      const [, path = "", line = ""] = /^(.+\.md):(\d+)$/.exec(source) ?? [];
      const file = join("sample/workspace", path);
      expect(existsSync(file), source).toBe(true);
      expect(readFileSync(file, "utf8").split("\n")[Number(line) - 1]?.trim()).toBeTruthy();
    }
    await answer.getByRole("button", { name: /^Source 1,/ }).click();
    await page.getByRole("button", { name: "Open in thread" }).click();
    await page.locator("mark.cited").waitFor();
    await page.keyboard.press("Escape");
    const slider = page.getByRole("slider");
    const box = await slider.boundingBox();
    await page.mouse.click((box?.x ?? 0) + (box?.width ?? 0) * 0.4, (box?.y ?? 0) + 14);
    await page.locator(".pastbar").waitFor();
    await page.locator(".gantt .row").first().waitFor();
    await picture(page, "past");
    expect(errors).toEqual([]);
  });

  it("shows a request of a nested agent", async () => {
    await using scene = await openScene({ browser, team: askingTeam, ...size });
    await scene.ask("Edit the report on deltas.");
    await scene.page.locator(".appr .diff .a").waitFor();
    await picture(scene.page, "approval");
  });
});
