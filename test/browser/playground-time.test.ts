import { readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect } from "../../src/client.ts";
import {
  emptyTree,
  type LogEvent,
  materialize,
  reduce,
  type TaskDocument,
} from "../../src/protocol.ts";
import { requires } from "../support/requires.ts";
import { launch, openScene, type Scene } from "./support/playground-scene.ts";
import { citingTeam, nestedTeam } from "./support/playground-team.ts";

/** The events of the newest run of the session on the page, from the server. */
async function eventsOf({ page, url, headers }: Scene): Promise<readonly LogEvent[]> {
  const sessionId = decodeURIComponent(new URL(page.url()).hash.slice("#/s/".length));
  const run = connect(url, { headers }).agent("lead").attach({ sessionId });
  const events: LogEvent[] = [];
  for await (const event of run.events({ after: -1, until: "tree" }))
    events.push(event as LogEvent);
  return events;
}

/** The run as the page has it, at the event that it shows. */
async function documentOn(page: Page): Promise<TaskDocument> {
  await page.getByRole("button", { name: "Copy document" }).click();
  return JSON.parse(await page.evaluate(() => navigator.clipboard.readText()));
}

const slider = (page: Page) => page.getByRole("slider", { name: "Position in the log" });

describe.skipIf(!requires("chromium"))("the page moves in the log", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser?.close());

  /** A run that has ended. */
  async function ended(): Promise<Scene> {
    const scene = await openScene({ browser, team: nestedTeam });
    await scene.ask("What is new?");
    scene.gates.open("ann", "bob", "carl", "dora");
    await scene.said("The answer of the lead.").waitFor();
    await scene.page.locator(".conn", { hasText: "Ended" }).waitFor();
    return scene;
  }

  it("shows at event k the fold of the first k events", async () => {
    await using scene = await ended();
    const { page, errors } = scene;
    const events = await eventsOf(scene);
    const last = events.length - 1;
    await page.locator(".talk").focus();
    await page.keyboard.press("i");
    const moves = [
      { k: 0, keys: ["Home"] },
      { k: 3, keys: ["ArrowRight", "ArrowRight", "ArrowRight"] },
      { k: 103, keys: ["PageUp"] },
      { k: last, keys: ["End"] },
      { k: last - 100, keys: ["PageDown"] },
      { k: last - 102, keys: ["ArrowLeft", "ArrowLeft"] },
    ];
    for (const { k, keys } of moves) {
      await slider(page).focus();
      for (const key of keys) await page.keyboard.press(key);
      await page.getByText(`Event ${k} of ${last}`).waitFor();
      const expected = materialize(reduce(emptyTree(), events.slice(0, k + 1)));
      expect(await documentOn(page)).toEqual(JSON.parse(JSON.stringify(expected)));
    }
    // In the past nothing can be sent.
    await page.getByText("Read only in the past.").waitFor();
    await page.getByRole("button", { name: /Return to/ }).click();
    await scene.said("The answer of the lead.").waitFor();
    expect(errors).toEqual([]);
  });

  it("hides agents that had not begun, and plays the run to its end", async () => {
    await using scene = await ended();
    const { page, thread } = scene;
    await slider(page).focus();
    await page.keyboard.press("Home");
    await page.locator(".pastbar").waitFor();
    expect(await thread("ann").count()).toBe(0);
    await page.getByRole("button", { name: "max" }).click();
    await page.getByRole("button", { name: "Play" }).click();
    await thread("ann").waitFor();
    await scene.said("The answer of the lead.").waitFor();
    await page.keyboard.press("l");
    await page.locator(".pastbar").waitFor({ state: "detached" });
  });

  it("shares a run as one file and replays it when it is dropped", async () => {
    await using scene = await ended();
    const { page, thread, errors } = scene;
    const downloading = page.waitForEvent("download");
    await page.getByRole("button", { name: "Share" }).click();
    const download = await downloading;
    expect(download.suggestedFilename()).toBe("what-is-new.run.jsonl");
    const text = readFileSync(await download.path(), "utf8");
    const events = await eventsOf(scene);
    const [, ...lines] = text.trim().split("\n");
    expect(lines.map((line) => JSON.parse(line))).toEqual(events);

    await page.getByRole("button", { name: "New run" }).click();
    await page.getByText("Read every agent as it writes.").waitFor();
    await drop(page, "shared.run.jsonl", text);
    await page.getByRole("heading", { name: "What is new?" }).first().waitFor();
    await page.locator(".conn", { hasText: "Recorded" }).waitFor();
    await page.getByText("This run is from a file.").waitFor();
    await scene.unfold();
    await thread("carl").getByText("carl begins here.").waitFor();
    await drop(page, "broken.jsonl", "not a run");
    await page.getByRole("alert").getByText("broken.jsonl:1 is not a line of JSON.").waitFor();
    expect(errors).toEqual([]);
  });

  it("forks: continues an earlier turn in a new session, with its threads", async () => {
    await using scene = await ended();
    const { page, thread } = scene;
    const before = page.url();
    const fork = async () => {
      const from = page.url();
      await page.getByRole("button", { name: "Fork" }).click();
      await expect.poll(() => page.url()).not.toBe(from);
      await page.getByText("This is a fork.").waitFor();
    };
    await fork();
    expect(await page.locator(".crumb").textContent()).toMatch(/^What is new\?.*fork 1/);
    const earlier = page.getByRole("region", { name: "Before the fork" });
    await earlier.getByText("The answer of the lead.").first().waitFor();
    await thread("bob").locator("header .name").first().click();
    await earlier.locator(thread("bob")).locator(thread("carl")).waitFor();
    await page.locator("#composer").fill("Another way?");
    await page.keyboard.press("Enter");
    await scene.said("The second answer.").waitFor();
    await page.reload();
    await scene.said("The second answer.").waitFor();
    expect(await earlier.locator(thread("ann")).count()).toBe(1);
    expect(await page.getByRole("heading", { level: 2, name: "What is new?" }).count()).toBe(1);

    await page.goto(before);
    await scene.said("The answer of the lead.").waitFor();
    expect(await scene.said("The second answer.").count()).toBe(0);
    await fork();
    const rows = page.locator(".rail .sess small");
    await expect
      .poll(async () => (await rows.allTextContents()).map((text) => text.match(/fork \d/)?.[0]))
      .toEqual(["fork 2", "fork 1", undefined]);

    // Without the session that it continues, a fork still has its questions and answers.
    const id = decodeURIComponent(before.split("#/s/")[1] ?? "");
    const path = `${scene.url}/v1/sessions/${encodeURIComponent(id)}`;
    expect((await fetch(path, { method: "DELETE", headers: scene.headers })).status).toBe(204);
    await page.reload();
    await earlier.getByText("The answer of the lead.").first().waitFor();
    expect(await page.locator(".thread").count()).toBe(0);
  });

  it("opens the cited block of a descendant, wherever it is", async () => {
    await using scene = await openScene({ browser, team: citingTeam });
    const { page, thread, errors } = scene;
    await scene.ask("How do deltas form?");
    await scene.said("A delta forms").waitFor();
    const answer = page.locator(".say.lead").last();
    await answer.getByRole("button", { name: /Source 1, library\/deltas.md:2/ }).click();
    const card = page.getByRole("group", { name: "Source 1" });
    await card.getByText("A river delta forms where a river meets standing water.").waitFor();
    await card.getByText("read by reader").waitFor();
    await card.getByRole("button", { name: "Open in thread" }).click();
    const cited = thread("reader").locator("mark.cited");
    await cited.getByText("A river delta forms where a river meets standing water.").waitFor();
    await expect.poll(() => cited.isVisible()).toBe(true);
    expect(errors).toEqual([]);
  });
});

async function drop(page: Page, name: string, text: string): Promise<void> {
  await page.evaluate(
    ([fileName = "", content = ""]) => {
      const data = new DataTransfer();
      data.items.add(new File([content], fileName));
      document.body.dispatchEvent(
        new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }),
      );
    },
    [name, text],
  );
}
