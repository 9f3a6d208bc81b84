import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
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
  const directory = mkdtempSync(join(tmpdir(), "rivulet-sample-"));
  const workspace = join(directory, "sample");
  beforeAll(async () => {
    browser = await launch();
    mkdirSync(folder, { recursive: true });
    cpSync("sample/workspace", workspace, { recursive: true });
  });
  afterAll(async () => {
    await browser?.close();
    rmSync(directory, { recursive: true, force: true });
  });

  it("answers with at least three agents and citations that resolve to lines of files", async () => {
    await using scene = await openScene({
      ...{ browser, ...size },
      team: (store) => [sampleTeam({ model: "demo:analyst", workspace, store })],
    });
    const { page, thread, errors } = scene;
    const foot = await page.locator(".foot").textContent();
    expect(foot).toContain("sample workspacedemo:analyst, offline");
    await page.getByText("critic", { exact: true }).waitFor(); // a subagent of a subagent is on offer
    await page.getByRole("button", { name: /How do river deltas form/ }).click();
    const critics = thread("critic");
    await critics.nth(1).getByText("supported:").first().waitFor();
    expect(await thread("researcher 1").locator(critics).count()).toBe(1);
    const lanes = await page.locator(".tlbox .r > button").allTextContents();
    expect(lanes.filter((lane) => lane !== "")).toEqual([
      ...["lead", "researcher 1", "critic", "researcher 2", "critic"],
    ]);
    await picture(page, "live");
    const answer = page.locator(".say.lead", { has: page.locator(".sources") });
    await answer.waitFor({ timeout: 60_000 });
    expect(await page.getByRole("treeitem").count()).toBeGreaterThanOrEqual(3);
    expect(await page.locator(".sum").textContent()).not.toContain("$");
    await answer.locator(".sources", { hasText: "critic of researcher 2" }).waitFor();
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
    // The thread that is open takes the room of the one that is a row.
    const widths = await Promise.all(
      [1, 2].map(async (number) => (await thread(`researcher ${number}`).boundingBox())?.width),
    );
    expect(widths[0]).toBeGreaterThan(1.5 * (widths[1] ?? 0));
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
