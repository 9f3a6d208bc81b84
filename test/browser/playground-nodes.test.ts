import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Store } from "../../src/index.ts";
import { commitOnce, message, record } from "../../src/testing/store-contract/samples.ts";
import { requires } from "../support/requires.ts";
import { launch, openScene, type SceneOptions } from "./support/playground-scene.ts";
import { nestedTeam } from "./support/playground-team.ts";

describe.skipIf(!requires("chromium"))("the processes on the page", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser?.close());

  /** A store on which another process runs a session, a session waits, and a task was judged poison. */
  async function fill(store: Store): Promise<void> {
    const agents = [{ agentId: "lead", version: "2" }];
    const node = { startedAt: 5, places: [], agents };
    const away = { ...node, nodeId: "away", name: "east:7", conversations: ["s9"] };
    await store.heartbeat?.(away, 600_000);
    await store.heartbeat?.({ ...node, nodeId: "gone", name: "west:8", conversations: [] }, 0);
    const root = { agentId: "lead", agentName: "lead", createdAt: Date.now() };
    await store.enqueue(
      record({
        ...{ ...root, taskId: "task_1", sessionId: "s1", status: "queued", agentVersion: "1" },
      }),
    );
    const error = { code: "poison", message: "It took down 5 processes.", retryable: false };
    const failed = { ...{ ...root, taskId: "bad", sessionId: "s5" }, status: "failed" } as const;
    const bad = record({ ...failed, error, input: [message("Do it.")] });
    await commitOnce(store, { log: "bad", tasks: [bad] }, "s5");
  }

  /** A scene, and its store. */
  async function openNodes(options: Pick<SceneOptions, "run"> = {}) {
    const opened = Promise.withResolvers<Store>();
    const team: SceneOptions["team"] = (store, gates) => {
      opened.resolve(store);
      return nestedTeam(store, gates);
    };
    const scene = await openScene({ browser, team, ...options });
    const store = await opened.promise;
    await fill(store);
    return { scene, store };
  }

  it("are listed for an operator, who moves what waits and retries what was judged poison", async () => {
    const { scene, store } = await openNodes({ run: false });
    await using opened = scene;
    const { page, errors, read } = opened;
    await page.getByRole("tab", { name: "Nodes" }).click();
    await page.getByLabel("east:7").getByText("live, runs lead 2").waitFor();
    await page.getByLabel("east:7").getByText("s9").waitFor();
    await page
      .getByLabel("west:8")
      .getByText(/silent for .*, runs lead 2/)
      .waitFor();
    await page.getByText("lead 1: no process has this version").waitFor();
    await page.getByText("It took down 5 processes.").waitFor();
    if (process.env.SHOT) await page.screenshot({ path: process.env.SHOT });
    await page.getByRole("button", { name: "Move to any process: s1" }).click();
    await page.getByText("lead: a process takes it soon").waitFor();
    expect((await store.task("task_1"))?.agentVersion).toBe("");
    await page.getByRole("button", { name: "Retry: s5" }).click();
    const waiting = async () => (await read<{ waiting: readonly object[] }>("/v1/nodes")).waiting;
    await expect.poll(async () => (await waiting()).length).toBe(2);
    expect(errors).toEqual([]);
  });

  it("are named in the header of a run, and show nothing to other callers", async () => {
    const { scene } = await openNodes();
    await using opened = scene;
    const { page, context, errors } = opened;
    await opened.ask("Go.");
    const runsOn = page.locator(".crumb").getByText(/^on .+:\d+$/);
    await runsOn.waitFor();
    await context.route("**/v1/agents", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ json: { ...(await response.json()), scopes: ["read", "write"] } });
    });
    await page.reload();
    await page.locator(".thread").first().waitFor();
    await page.getByRole("tab", { name: "Agents" }).waitFor();
    expect(await page.getByRole("tab", { name: "Nodes" }).count()).toBe(0);
    expect(await runsOn.count()).toBe(0);
    expect(errors).toEqual([]);
  });
});
