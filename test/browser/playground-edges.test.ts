import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { agentTool, ReActAgent, type Store } from "../../src/index.ts";
import { type ScriptedTurn, scriptedModel } from "../../src/testing.ts";
import { requires } from "../support/requires.ts";
import { launch, openScene } from "./support/playground-scene.ts";
import { askingTeam, nestedTeam } from "./support/playground-team.ts";

const model = (...turns: readonly ScriptedTurn[]) => scriptedModel(turns, { by: "prompt" });
const answering = (text: string) => (store: Store) => [
  new ReActAgent({ name: "lead", store, model: model([text]) }),
];

/** Agents that each wait for the one below; the last one writes. */
function chainTeam(store: Store) {
  const names = ["lead", "editor", "researcher", "critic", "checker", "counter"];
  let agent: ReActAgent | undefined;
  for (const name of names.toReversed()) {
    const below = agent;
    const turn: ScriptedTurn =
      below === undefined
        ? ["Three of them give a speed. ", { hang: true }]
        : [{ call: below.name, input: { prompt: "Look closer." } }];
    agent = new ReActAgent({
      ...{ name, model: model(turn, ["Done."]) },
      ...(below && { tools: [agentTool(below)] }),
      ...(name === "lead" && { store }),
    });
  }
  return agent ? [agent] : [];
}

describe.skipIf(!requires("chromium"))("the page at its edges", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser?.close());

  it("works in a browser that stores nothing, and signs in when the printed address is pasted", async () => {
    await using scene = await openScene({ browser, team: answering("All is well.") });
    const context = await browser.newContext();
    await context.addInitScript(() => {
      Object.defineProperty(globalThis, "localStorage", {
        get: () => {
          throw new DOMException("denied", "SecurityError");
        },
      });
    });
    const page = await context.newPage();
    const errors: string[] = [];
    page.on("pageerror", ({ message }) => errors.push(message));
    await page.goto(scene.url);
    await page.getByText("This server needs a key.").waitFor();
    const token = scene.headers.authorization?.replace("Bearer ", "");
    await page.getByLabel("Token").fill("not-the-token");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("The server does not accept this token.").waitFor();
    await page.goto(`${scene.url}/#token=${token}`); // only the hash changes: the page is not loaded again
    await page.getByText("Connected").waitFor();
    await page.getByRole("button", { name: /Use the (dark|light) theme/ }).click();
    await page.locator("#composer").fill("How is it?");
    await page.keyboard.press("Enter");
    await page.getByText("All is well.").first().waitFor();
    await page.goto(`${scene.url}/#/s/not-there`);
    await page.getByText("This run is not on this server.").waitFor();
    expect(errors).toEqual([]);
    await context.close();
  });

  it("shows in a second tab what the first one answers and asks", async () => {
    await using scene = await openScene({ browser, team: askingTeam });
    await scene.ask("Please edit.");
    await scene.page.locator(".appr").waitFor();
    const other = await scene.context.newPage();
    await other.goto(scene.page.url());
    await other.locator(".appr").waitFor();
    await scene.page.getByRole("button", { name: /^Approve/ }).click();
    await other.locator(".talk").getByText("The lead is done.").first().waitFor();
    expect(await other.locator(".appr").count()).toBe(0);
    await scene.ask("Please edit again.");
    await other.bringToFront();
    await other.getByRole("heading", { name: "Please edit again." }).first().waitFor();
    expect(scene.errors).toEqual([]);
  });

  it("shows a message until the agent reads it, then in its place", async () => {
    await using scene = await openScene({ browser, team: nestedTeam });
    const { page, gates, thread, said } = scene;
    await scene.ask("Go.");
    await thread("ann").getByText("ann begins here.").waitFor();
    await page.locator("#composer").fill("Look at the map.");
    await page.keyboard.press("Enter");
    await page.locator(".sent", { hasText: "lead reads this before its next step" }).waitFor();
    gates.open("ann", "bob", "carl", "dora");
    await said("The answer of the lead.").waitFor();
    await expect.poll(() => page.locator(".sent").count()).toBe(0);
    for (const _ of ["live", "reloaded"]) {
      const message = await page.locator(".hint", { hasText: "Look at the map." }).boundingBox();
      const answer = await said("The answer of the lead.").boundingBox();
      expect(message?.y).toBeLessThan(answer?.y ?? 0);
      await page.reload();
      await said("The answer of the lead.").waitFor();
      await page.locator(".tlbox .r").first().waitFor(); // the history is loaded
    }
  });

  it("says what becomes of a message that the run did not read", async () => {
    const team = (store: Store) => [
      new ReActAgent({
        ...{ name: "lead", store },
        model: model(["One ", { delayMs: 1_500 }, "answer."], ["The next answer."]),
      }),
    ];
    await using scene = await openScene({ browser, team, width: 360 });
    const { page, said } = scene;
    await scene.ask("Go.");
    await said("One").waitFor();
    await page.locator("#composer").fill("In French, please.");
    await page.keyboard.press("Enter");
    await page.locator(".sent", { hasText: "lead reads this before its next step" }).waitFor();
    await said("One answer.").waitFor();
    await page.locator(".sent", { hasText: "reads it with your next question" }).waitFor();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
    await scene.ask("Again.");
    await said("The next answer.").waitFor();
    await page.locator(".hint", { hasText: "In French, please." }).waitFor();
    expect(await page.locator(".sent").count()).toBe(0);
  });

  it("shows how a run has ended, in its row and on its button", async () => {
    await using scene = await openScene({ browser, team: nestedTeam });
    const { page, thread } = scene;
    await scene.ask("Go.");
    await thread("ann").getByText("ann begins here.").waitFor();
    const row = page.locator(".sess.on");
    await row.getByText("running").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await row.getByText("cancelled").waitFor();
    expect(await row.locator(".st.off").count()).toBe(1);
    await page.setViewportSize({ width: 768, height: 900 });
    expect(await page.locator(".top .btn .st.off").count()).toBe(1);
  });

  it("says after a second what a question waits for", async () => {
    await using scene = await openScene({ browser, team: nestedTeam });
    const { page, gates, url, headers } = scene;
    const start = async (input: string) => {
      const body = JSON.stringify({ agent: "lead", input, session_id: "s" });
      const json = { ...headers, "content-type": "application/json" };
      await fetch(`${url}/v1/tasks`, { method: "POST", headers: json, body });
    };
    await start("The first question.");
    await start("The second question.");
    await page.goto(`${url}/#/s/s`);
    const second = page.locator(".turn").nth(1);
    await second.getByText("Waits for the run before it in this session.").waitFor();
    gates.open("ann", "bob", "carl", "dora");
    await second.getByText("The second answer.").waitFor();
    expect(await second.getByText("Waits for the run before it").count()).toBe(0);
  });

  it("says what a run waits for while its owner is silent", async () => {
    await using scene = await openScene({ browser, team: nestedTeam });
    const { page, gates, thread } = scene;
    let asked = 0;
    let waits: object | undefined = { reason: "owner_silent", left_ms: 4_000 };
    await page.route(/\/v1\/tasks\/[^/]+$/, (route) => {
      asked += 1;
      return route.fulfill({ json: { status: "in_progress", waits } });
    });
    await scene.ask("Go.");
    await thread("ann").getByText("ann begins here.").waitFor();
    const note = page.locator(".turn > .note");
    await note.getByText("Waits for the process that owns this session.").waitFor();
    waits = undefined;
    await note.waitFor({ state: "detached" });
    gates.open("ann", "bob", "carl", "dora");
    await scene.said("The answer of the lead.").waitFor();
    const before = asked;
    // Longer than the time between two requests.
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 1_500)));
    expect(asked).toBe(before);
  });

  it("steers the first agent of the list with Enter", async () => {
    await using scene = await openScene({ browser, team: nestedTeam });
    const { page, thread } = scene;
    await scene.ask("Go.");
    await thread("bob").getByText("bob begins here.").waitFor();
    const composer = page.locator("#composer");
    await composer.pressSequentially("@bo");
    await page.getByRole("button", { name: "bob" }).last().waitFor();
    await page.keyboard.press("Enter");
    await page.locator(".box .to", { hasText: "to bob" }).waitFor();
    expect(await composer.inputValue()).toBe("");
    await composer.fill("Look at the map.");
    await page.keyboard.press("Enter");
    await page.locator(".sent", { hasText: "bob reads this before its next step" }).waitFor();
  });

  it("offers a way to the end only while there is more below", async () => {
    await using scene = await openScene({ browser, team: nestedTeam, height: 420 });
    const { page, gates, thread, said } = scene;
    await scene.ask("Go.");
    await thread("ann").getByText("ann begins here.").waitFor();
    gates.open("ann", "bob", "carl", "dora");
    await said("The answer of the lead.").waitFor();
    await scene.unfold();
    await page.locator(".talk").evaluate((talk) => talk.scrollTo(0, 0));
    const toEnd = page.getByRole("button", { name: "To the end" });
    await toEnd.waitFor();
    await page.setViewportSize({ width: 1440, height: 1200 });
    await toEnd.waitFor({ state: "detached" });
  });

  it("shows in the row of a folded agent which agent below it writes, and what", async () => {
    await using scene = await openScene({ browser, team: chainTeam });
    await scene.ask("How many lines give a speed?");
    const row = scene.thread("checker");
    await row.getByText("› counter").waitFor();
    await row.getByText("Three of them give a speed.").waitFor();
    expect(await row.getAttribute("class")).toContain("mini");
  });

  it("shows hostile text as text: no script, no foreign image, no wide page", async () => {
    const hostile = [
      '<img src=x onerror="document.title=1"><script>document.title=2</script>',
      "[press](javascript:document.title=3) ![pixel](https://evil.example/pixel.png)",
      `| ${"column | ".repeat(40)}\n| ${"--- | ".repeat(40)}\n| ${"value | ".repeat(40)}`,
      `${"Donaudampfschiff".repeat(200)} مرحبا بالعالم 👩‍👩‍👧‍👦‍`,
      "[^1] [^999] **open `code",
    ].join("\n\n");
    await using scene = await openScene({ browser, team: answering(hostile), width: 360 });
    const { page } = scene;
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await scene.ask("W".repeat(10_000));
    await scene.said("onerror").waitFor();
    expect(await page.locator(".say img, .say script, .say a[href^=javascript]").count()).toBe(0);
    expect(await page.title()).toBe("Rivulet");
    expect(asked.filter((url) => !url.startsWith(scene.url))).toEqual([]);
    const isWide = () =>
      page.evaluate(() => {
        const talk = document.querySelector(".talk");
        const { scrollWidth, clientWidth } = document.documentElement;
        return scrollWidth > clientWidth || (talk?.scrollWidth ?? 0) > (talk?.clientWidth ?? 0);
      });
    expect(await isWide()).toBe(false);
    await page.reload();
    await scene.said("onerror").waitFor();
    expect(await isWide()).toBe(false);
    expect(scene.errors).toEqual([]);
  });
});
