import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { agentTool, ReActAgent, type Store, tool } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { requires } from "../support/requires.ts";
import { type Gates, launch, openScene } from "./support/playground-scene.ts";

const red =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

/** The lines of a run of one agent with many messages. */
function longRun(items: number): string {
  const task = { id: "task_1", object: "task", agent_id: "lead", session_id: "s" };
  const place = { task_id: "task_1", created_at: 1_700_000_000_000 };
  const events: object[] = [
    { type: "task.created", ...place, task: { ...task, status: "queued" } },
    { type: "task.in_progress", ...place, task: { ...task, status: "in_progress" } },
  ];
  for (let index = 0; index < items; index++) {
    const block_list = [{ type: "text", text: `Paragraph ${index}.` }];
    const item = { type: "message", id: `msg_${index}`, role: "assistant" };
    const on = { ...place, output_index: index };
    const added = { ...item, status: "in_progress", block_list: [] };
    events.push({ type: "task.output_item.added", ...on, item: added });
    const done = { ...item, status: "completed", block_list };
    events.push({ type: "task.output_item.done", ...on, item: done });
  }
  events.push({ type: "task.completed", ...place, task: { ...task, status: "completed" } });
  const numbered = events.map((event, index) => ({
    ...event,
    sequence_number: index,
    task_seq: index,
  }));
  return numbered.map((event) => `${JSON.stringify(event)}\n`).join("");
}

describe.skipIf(!requires("chromium"))("the page stays usable", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser?.close());

  it("with 10,000 items: only those near the screen exist", async () => {
    const items = 10_000;
    const team = (store: Store) => [
      new ReActAgent({ name: "lead", store, model: scriptedModel([["Hello."]]) }),
    ];
    await using scene = await openScene({ browser, team });
    const { page, errors } = scene;
    const buffer = Buffer.from(longRun(items));
    const file = { name: "long.run.jsonl", mimeType: "application/x-ndjson", buffer };
    await page.getByLabel("Open a run file").setInputFiles(file);
    await scene.said(`Paragraph ${items - 1}.`).waitFor();
    const count = () => page.locator(".say").count();
    await expect.poll(count, { timeout: 10_000 }).toBeLessThan(400);
    await page.locator(".talk").focus();
    await page.keyboard.press("Home");
    await scene.said("Paragraph 0.").waitFor();
    await expect.poll(count, { timeout: 10_000 }).toBeLessThan(400); // those that were on the screen before go a moment later
    await page.getByRole("button", { name: "To the end" }).click();
    await scene.said(`Paragraph ${items - 1}.`).waitFor();
    expect(errors).toEqual([]);
  });

  it("with agents inside agents, ten levels deep: deep ones are rows that open", async () => {
    const depth = 10;
    const nested = (level: number): ReActAgent =>
      new ReActAgent({
        name: `level${level}`,
        ...(level < depth && { tools: [agentTool(nested(level + 1))] }),
        model: scriptedModel(
          level < depth
            ? [
                [`At ${level}. `, { call: `level${level + 1}`, input: { prompt: "Deeper." } }],
                [`Back at ${level}.`],
              ]
            : [["The bottom."]],
          { by: "prompt" },
        ),
      });
    const team = (store: Store) => [
      new ReActAgent({
        ...{ name: "lead", store },
        tools: [agentTool(nested(1))],
        model: scriptedModel(
          [[{ call: "level1", input: { prompt: "Go." } }], ["All the way down."]],
          { by: "prompt" },
        ),
      }),
    ];
    await using scene = await openScene({ browser, team, width: 360, height: 740 });
    const { page, thread } = scene;
    await scene.ask("Go down.");
    await scene.said("All the way down.").waitFor();
    await page.getByRole("button", { name: /agents/ }).click();
    const items = page.getByRole("treeitem");
    await expect.poll(() => items.count()).toBe(depth + 1);
    await items.last().click();
    // The whole path unfolds, and the place is on the screen.
    await thread("level10").getByText("The bottom.").waitFor();
    expect(
      await page.evaluate(() => document.documentElement.scrollWidth - innerWidth),
    ).toBeLessThanOrEqual(0);
  });

  it("with many agents at once: a row each with its last words, and filters by state", async () => {
    const team = (store: Store, gates: Gates) => {
      const reader = new ReActAgent({
        name: "reader",
        tools: [
          tool({
            name: "wait",
            description: "Waits.",
            async execute() {
              await gates.at("readers");
              return "Read.";
            },
          }),
        ],
        model: scriptedModel(
          [["Opening the book. ", { call: "wait", input: {} }], ["A good book."]],
          {
            by: "prompt",
          },
        ),
      });
      const calls = Array.from({ length: 14 }, (_, index) => ({
        call: "reader",
        input: { prompt: `Book ${index}.` },
      }));
      return [
        new ReActAgent({
          ...{ name: "lead", store, tools: [agentTool(reader)] },
          model: scriptedModel([calls, ["All read."]], { by: "prompt" }),
        }),
      ];
    };
    await using scene = await openScene({ browser, team });
    const { page, gates, thread } = scene;
    await scene.ask("Read.");
    await page.getByRole("button", { name: "All 14" }).waitFor();
    await page
      .getByRole("group", { name: "Filter agents by state" })
      .getByText("14 running")
      .waitFor();
    // Neighbours that have nothing to say are one row of the tree.
    await expect.poll(() => page.getByRole("treeitem").count()).toBeLessThan(6);
    await thread("reader 9").getByRole("button", { name: "reader 9", exact: true }).click();
    await thread("reader 9").getByText("Opening the book.").waitFor();
    gates.open("readers");
    await scene.said("All read.").waitFor();
  });

  it("shows an image in its place from the first preview on", async () => {
    const team = (store: Store, gates: Gates) => {
      const image = (data: string) => ({
        type: "image" as const,
        source: { data, mimeType: "image/png" },
      });
      const draw = tool({
        name: "draw",
        description: "Draws.",
        async execute(_, { emit }) {
          emit(image(red), { partial: true });
          await gates.at("drawn");
          emit(image(red));
          return "Drawn.";
        },
      });
      return [
        new ReActAgent({
          ...{ name: "lead", store, tools: [draw] },
          model: scriptedModel([[{ call: "draw", input: {} }], ["Here it is."]], { by: "prompt" }),
        }),
      ];
    };
    await using scene = await openScene({ browser, team });
    const { page, gates, errors } = scene;
    await scene.ask("Draw.");
    await page.locator("figure.image.is-open img").waitFor();
    await page.getByText("Preview 1").waitFor();
    gates.open("drawn");
    await page.locator("figure.image:not(.is-open) img").waitFor();
    expect(errors).toEqual([]);
  });
});
