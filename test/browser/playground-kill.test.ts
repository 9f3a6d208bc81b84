import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requires } from "../support/requires.ts";
import { launch } from "./support/playground-scene.ts";

const program = join(import.meta.dirname, "support/playground-process.ts");
const token = "a-token-of-the-kill-tests";

describe.skipIf(!requires("chromium"))("the button that kills the server", () => {
  let browser: Browser;
  const directory = mkdtempSync(join(tmpdir(), "rivulet-kill-"));
  let child: ChildProcess;
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(async () => {
    child?.kill("SIGKILL");
    await browser?.close();
    rmSync(directory, { recursive: true, force: true });
  });

  /** Starts a server process; resolves to its address when it listens, and to "" if it ends before. */
  async function startServer(port: number): Promise<string> {
    // The agents of the first process wait in mid-sentence for the kill, however slow the machine is.
    const stops = port === 0 ? ["stops"] : [];
    const args = [program, join(directory, "rivulet.db"), String(port), token, ...stops];
    const started = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    child = started;
    const ended = once(started, "exit").then(() => []);
    const [line = ""] = await Promise.race([once(started.stdout, "data"), ended]);
    return String(line).trim();
  }

  it("stops every agent in mid-sentence; the next process continues, and the page heals by itself", async () => {
    const url = await startServer(0);
    const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
    page.setDefaultTimeout(30_000);
    const errors: string[] = [];
    page.on("pageerror", ({ message }) => errors.push(message));
    await page.goto(url);
    await page.evaluate(() => {
      const heard: string[] = [];
      const region = document.querySelector('[role="status"][aria-live]') as HTMLElement;
      new MutationObserver(() => heard.push(region.textContent ?? "")).observe(region, {
        ...{ childList: true, characterData: true, subtree: true },
      });
      Object.assign(globalThis, { heard });
    });
    await page.locator("#composer").fill("Write.");
    await page.keyboard.press("Enter");
    const thread = (name: string) => page.locator(`.thread[aria-label="${name}"]`);
    await thread("ann").getByText("ann18 ann19").waitFor();
    const words = (await thread("ann").locator(".say").textContent())?.trim() ?? "";
    const killed = once(child, "exit");
    await page.getByRole("button", { name: "Kill server" }).click();
    expect(await killed).toEqual([null, "SIGKILL"]);
    await page.locator(".stream.killed").getByText("Server stopped").waitFor();
    await page.locator(".talk").focus();
    await page.keyboard.press("k"); // a second kill has nothing to end, and says nothing
    // Nothing is cleared while the server is away.
    expect(await thread("ann").locator(".say").textContent()).toContain(words);
    expect(await thread("ann").locator(".st.hold").count()).toBeGreaterThan(0);
    await page.getByText("The log keeps every token up to here.").waitFor();
    // A short interruption would not show, so the next process starts only now.
    expect(await startServer(Number(new URL(url).port))).toBe(url);
    await page.locator(".stream.healed").getByText("0 lost, 0 repeated").waitFor();
    // The words from before the kill stand still, and a seam marks where the next process continued.
    await thread("ann").locator(".seam").waitFor();
    await page.getByText("marks where one process stopped and the next continued.").waitFor();
    expect(await thread("ann").locator(".say").textContent()).toContain(words);
    await page.locator(".say.lead", { hasText: "All is written." }).waitFor();
    await page.getByRole("button", { name: "Fold all" }).click();
    await page.getByRole("button", { name: "Unfold all" }).click();
    for (const name of ["ann", "bob"]) {
      const expected = Array.from({ length: 59 }, (_, index) => `${name}${index}`).join(" ");
      await thread(name).getByText(`${expected} the end of ${name}.`).waitFor();
    }
    expect(await page.locator(".top-notice").count()).toBe(0);
    // A person who does not see the page hears of the interruption once, and of its end.
    const heard = await page.evaluate(() => (globalThis as unknown as { heard: string[] }).heard);
    expect(heard).toEqual([
      "The run has started.",
      "The connection is lost. The page tries again by itself.",
      "The connection is back.",
      "lead has answered.",
    ]);
    expect(errors).toEqual([]);
    await page.close();
  });
});
