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
  let isOver = false;
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(async () => {
    isOver = true;
    child?.kill("SIGKILL");
    await browser?.close();
    rmSync(directory, { recursive: true, force: true });
  });

  /** Starts the server, and starts it again whenever it dies. */
  async function supervise(port: number): Promise<string> {
    const args = [program, join(directory, "rivulet.db"), String(port), token];
    child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    const [line] = (await once(child.stdout as NonNullable<ChildProcess["stdout"]>, "data")) as [
      Buffer,
    ];
    const url = line.toString().trim();
    child.once("exit", () => {
      if (!isOver) void supervise(Number(new URL(url).port));
    });
    return url;
  }

  it("stops every agent in mid-sentence; the next process continues, and the page heals by itself", async () => {
    const url = await supervise(0);
    const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
    page.setDefaultTimeout(30_000);
    const errors: string[] = [];
    page.on("pageerror", ({ message }) => errors.push(message));
    await page.goto(url);
    await page.locator("#composer").fill("Write.");
    await page.keyboard.press("Enter");
    const thread = (name: string) => page.locator(`.thread[aria-label="${name}"]`);
    await thread("ann").getByText("ann12 ann13").waitFor();
    const words = (await thread("ann").locator(".say").textContent())?.trim() ?? "";
    await page.getByRole("button", { name: "Kill server" }).click();
    await page.locator(".stream.killed").getByText("Server stopped").waitFor();
    // Nothing is cleared while the server is away.
    expect(await thread("ann").locator(".say").textContent()).toContain(words);
    expect(await thread("ann").locator(".st.hold").count()).toBeGreaterThan(0);
    await page.locator(".stream.healed").getByText("0 lost, 0 repeated").waitFor();
    // The words from before the kill stand still, and a seam marks where the next process continued.
    await thread("ann").locator(".seam").waitFor();
    expect(await thread("ann").locator(".say").textContent()).toContain(words);
    await page.locator(".say.lead", { hasText: "All is written." }).waitFor();
    await page.getByRole("button", { name: "Fold all" }).click();
    await page.getByRole("button", { name: "Unfold all" }).click();
    for (const name of ["ann", "bob"]) {
      const expected = Array.from({ length: 59 }, (_, index) => `${name}${index}`).join(" ");
      await thread(name).getByText(`${expected} the end of ${name}.`).waitFor();
    }
    expect(errors).toEqual([]);
    await page.close();
  });
});
