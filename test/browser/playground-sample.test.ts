import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HarnessAgent } from "../../src/index.ts";
import { requires } from "../support/requires.ts";
import { launch, openScene } from "./support/playground-scene.ts";
import { askingTeam } from "./support/playground-team.ts";

const folder = "test/browser/screenshots";
const size = { width: 1200, height: 740 };

/** Takes a picture of the guide; RIVULET_IMAGES=1 puts it there. */
async function picture(page: import("playwright-core").Page, name: string): Promise<void> {
  const path = join(folder, `playground-${name}.png`);
  await page.screenshot({ path, animations: "disabled" });
  if (process.env.RIVULET_IMAGES === "1")
    copyFileSync(path, `docs/guide/images/playground-${name}.png`);
}

describe.skipIf(!requires("chromium"))("the sample team on the page", () => {
  let browser: Browser;
  const workspace = mkdtempSync(join(tmpdir(), "rivulet-sample-"));
  beforeAll(async () => {
    browser = await launch();
    mkdirSync(folder, { recursive: true });
  });
  afterAll(async () => {
    await browser?.close();
    rmSync(workspace, { recursive: true, force: true });
  });

  it("answers with at least three agents and citations that resolve to lines of files", async () => {
    await using scene = await openScene({
      ...{ browser, ...size },
      team: (store) => [
        new HarnessAgent({
          ...{ name: "lead", model: "demo:analyst", workspace: "sample/workspace", store },
          references: true,
        }),
      ],
    });
    const { page, thread, errors } = scene;
    await page.getByRole("button", { name: /How do river deltas form/ }).click();
    await thread("researcher 1").getByText("A river delta forms").first().waitFor();
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
