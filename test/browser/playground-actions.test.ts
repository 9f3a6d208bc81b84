import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { agentTool, HarnessAgent, ReActAgent, type Store, tool } from "../../src/index.ts";
import { type ScriptedTurn, scriptedModel } from "../../src/testing.ts";
import { requires } from "../support/requires.ts";
import { type Gates, launch, openScene } from "./support/playground-scene.ts";
import { askingTeam, citingTeam } from "./support/playground-team.ts";

const pixel =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const model = (...turns: readonly ScriptedTurn[]) => scriptedModel(turns, { by: "prompt" });

/** Fails the first time it is asked. */
function failingOnce(store: Store) {
  let calls = 0;
  const failure = Object.assign(new Error("The model is down."), { isRetryable: false });
  const script = () => (calls++ === 0 ? [{ error: failure }] : ["All is well **again**."]);
  return [new ReActAgent({ name: "lead", store, model: scriptedModel(script) })];
}

/** One agent asks to run a tool with a long text, and another one writes when the test lets it. */
function askingWhileWriting(store: Store, gates: Gates) {
  const publish = tool({
    name: "publish",
    description: "Publishes.",
    input: z.object({ title: z.string(), text: z.string() }),
    needsApproval: true,
    execute: () => "Published.",
  });
  const hold = tool({
    name: "hold",
    description: "Waits.",
    execute: () => gates.at("write").then(() => "Passed."),
  });
  const text = Array.from({ length: 12 }, (_, line) => `Line ${line} of the report.`).join("\n");
  const asker = new ReActAgent({
    ...{ name: "asker", tools: [publish] },
    model: model({ call: "publish", input: { title: "Deltas", text } }, ["It is out."]),
  });
  const lines = Array.from({ length: 80 }, (_, line) => `Paragraph ${line}.\n\n`);
  const writer = new ReActAgent({
    ...{ name: "writer", tools: [hold] },
    model: model({ call: "hold", input: {} }, lines),
  });
  const lead = new ReActAgent({
    ...{ name: "lead", store, tools: [agentTool(asker), agentTool(writer)] },
    model: model(
      [
        { call: "asker", input: { prompt: "Publish it." } },
        { call: "writer", input: { prompt: "Write." } },
      ],
      ["Done."],
    ),
  });
  return [lead];
}

describe.skipIf(!requires("chromium"))("what a person does on the page", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser?.close());

  it("retries a failed run, and announces its failure and its answer", async () => {
    await using scene = await openScene({ browser, team: failingOnce });
    const { page, said } = scene;
    const live = page.locator("[aria-live=polite]");
    await scene.ask("How are you?");
    await page.getByText("The model is down.").first().waitFor();
    await expect.poll(() => live.textContent()).toMatch(/^lead has failed: .*The model is down/);
    await page.getByRole("button", { name: "Retry" }).click();
    await said("All is well again.").waitFor();
    await expect.poll(() => live.textContent()).toBe("lead has answered.");
    expect(await page.getByRole("heading", { name: "How are you?", level: 2 }).count()).toBe(2);
    expect(await page.getByRole("button", { name: "Retry" }).count()).toBe(1);
    await page.reload();
    await said("All is well again.").waitFor();
    expect(await page.locator(".turn").count()).toBe(2);
  });

  it("announces a request of a nested agent", async () => {
    await using scene = await openScene({ browser, team: askingTeam });
    const live = scene.page.locator("[aria-live=polite]");
    await scene.ask("Please edit.");
    await expect.poll(() => live.textContent()).toBe("critic asks for your approval of edit_file.");
    await scene.page.getByRole("button", { name: "Approve" }).click();
    await expect.poll(() => live.textContent()).toBe("lead has answered.");
  });

  it("copies an answer without its markers, and says what Share has saved", async () => {
    await using scene = await openScene({ browser, team: citingTeam });
    const { page, said } = scene;
    await scene.ask("How do deltas form?");
    await said("A delta forms where a river meets standing water.").waitFor();
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByText("The answer is copied.").first().waitFor();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(
      "A delta forms where a river meets standing water.",
    );
    const saving = page.waitForEvent("download");
    await page.getByRole("button", { name: "Share" }).click();
    const name = (await saving).suggestedFilename();
    expect(name).toBe("how-do-deltas-form.run.jsonl");
    await page.locator(".notice").getByText(`The run is saved as ${name}.`).waitFor();
    expect(readFileSync(await (await saving).path(), "utf8")).toContain("stream.opened");
  });

  it("keeps a request in its place while a person edits it and another agent writes", async () => {
    await using scene = await openScene({ browser, team: askingWhileWriting, height: 560 });
    const { page, gates, thread } = scene;
    await scene.ask("Go.");
    const card = page.locator(".appr");
    await card.getByRole("button", { name: "Edit" }).click();
    const field = card.getByLabel("text");
    await field.focus();
    const send = card.getByRole("button", { name: "Run with these arguments" });
    const before = await card.boundingBox();
    gates.open("write");
    await expect.poll(() => thread("writer").getAttribute("data-status")).toBe("completed");
    await thread("writer").getByText("Paragraph 79.").waitFor();
    expect(await card.boundingBox()).toEqual(before);
    await field.fill("Another text.");
    const box = await send.boundingBox();
    expect(box?.y).toBeGreaterThan(0);
    expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThan(560);
    await send.click();
    await scene.said("Done.").waitFor();
  });

  it("sends files with a question: chosen, dropped, pasted, and removed again", async () => {
    const prompts: string[] = [];
    const team = (store: Store) => [
      new ReActAgent({
        ...{ name: "lead", store },
        model: scriptedModel(({ prompt }) => {
          prompts.push(JSON.stringify(prompt));
          return ["I have read it."];
        }),
      }),
    ];
    await using scene = await openScene({ browser, team });
    const { page, said, errors } = scene;
    const text = (name: string, content: string) => ({
      ...{ name, mimeType: "text/markdown" },
      buffer: Buffer.from(content),
    });
    const chooser = page.locator(".attach input");
    await chooser.setInputFiles([text("notes.md", "the canary of the notes"), text("b.md", "b")]);
    const chips = page.getByRole("list", { name: "Attached files" }).getByRole("listitem");
    await expect.poll(() => chips.allTextContents()).toEqual(["notes.md", "b.md"]);
    await page.getByRole("button", { name: "Remove b.md" }).click();
    await page.evaluate((base64) => {
      const data = new DataTransfer();
      const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
      data.items.add(new File([bytes], "dot.png", { type: "image/png" }));
      const init = { dataTransfer: data, bubbles: true, cancelable: true };
      document.body.dispatchEvent(new DragEvent("drop", init));
    }, pixel);
    await expect.poll(() => chips.allTextContents()).toEqual(["notes.md", "dot.png"]);
    await page.locator("#composer").evaluate((area) => {
      const data = new DataTransfer();
      data.items.add(new File(["the canary of the clipboard"], "clip.txt", { type: "text/plain" }));
      const init = { clipboardData: data, bubbles: true, cancelable: true };
      area.dispatchEvent(new ClipboardEvent("paste", init));
    });
    await expect.poll(() => chips.allTextContents()).toEqual(["notes.md", "dot.png", "clip.txt"]);
    await page.evaluate(() => navigator.clipboard.writeText("What is this?"));
    await page.locator("#composer").focus();
    await page.keyboard.press("ControlOrMeta+v"); // text goes into the question
    expect(await page.locator("#composer").inputValue()).toBe("What is this?");
    expect(await chips.count()).toBe(3);
    await chooser.setInputFiles([{ ...text("a.zip", ""), buffer: Buffer.from([0, 255]) }]);
    await page.getByRole("alert").getByText("a.zip is neither text").waitFor();
    await scene.ask("What is this?");
    await said("I have read it.").waitFor();
    expect(await chips.count()).toBe(0);
    expect(prompts).toHaveLength(1);
    expect(prompts[0]).toContain("the canary of the notes");
    expect(prompts[0]).toContain("image/png");
    expect(prompts[0]).toContain("the canary of the clipboard");
    await page.locator(".turn .by").getByText("with notes.md, dot.png, clip.txt").waitFor();
    await page.reload();
    await page.locator(".turn .by").getByText("with notes.md, an image").waitFor();
    await page.getByRole("heading", { level: 2, name: "What is this?", exact: true }).waitFor();
    expect(errors).toEqual([]);
  });

  it("opens a source in its file, at its line", async () => {
    const folder = mkdtempSync(join(tmpdir(), "rivulet-sources-"));
    mkdirSync(join(folder, "library"));
    const lines = Array.from({ length: 300 }, (_, line) => `Line ${line + 1} is about rivers.`);
    const sentence = "A river delta forms where a river meets standing water.";
    writeFileSync(join(folder, "library/deltas.md"), lines.with(211, sentence).join("\n"));
    const team = (store: Store) => [
      new HarnessAgent({
        ...{ name: "lead", store, workspace: folder, references: true },
        model: model(
          { call: "read_file", input: { path: "library/deltas.md" } },
          `${sentence}[^1]`,
        ),
      }),
    ];
    {
      await using scene = await openScene({ browser, team });
      const { page, said, errors } = scene;
      await scene.ask("How do deltas form?");
      await said(sentence).waitFor();
      const sources = page.getByRole("list", { name: "Sources" });
      await sources.getByRole("button", { name: "library/deltas.md:212" }).click();
      const line = page.locator(".lines .cited");
      await line.getByText(sentence).waitFor();
      const [panel, box] = [await page.locator(".panel").boundingBox(), await line.boundingBox()];
      expect(box?.y).toBeGreaterThan(panel?.y ?? 0);
      expect(box?.y).toBeLessThan((panel?.y ?? 0) + (panel?.height ?? 0));
      expect(errors).toEqual([]);
    }
    rmSync(folder, { recursive: true, force: true });
  });
});
