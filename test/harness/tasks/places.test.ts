import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { settingsBehind } from "../../../src/agent/loop/settings.ts";
import { taskRunner } from "../../../src/harness/tasks/task-runner.ts";
import {
  HarnessAgent,
  type HarnessAgentOptions,
  localFilesystem,
  memoryStore,
  type Store,
} from "../../../src/index.ts";
import { ManualClock, scriptedModel } from "../../../src/testing.ts";
import { createFolder, removeFolder } from "../../store/support/folder.ts";

let folder: string;
beforeEach(() => {
  folder = createFolder();
  vi.stubEnv("TMPDIR", join(folder, "temporary"));
});
afterEach(() => {
  vi.unstubAllEnvs();
  removeFolder(folder);
});

/** Machines that share a store. */
function createMachines() {
  const clock = new ManualClock(1_000_000_000);
  const store: Store = { ...memoryStore({ clock }), isShared: true };
  const start = (disk: string, options: Partial<HarnessAgentOptions> = {}) => {
    const agent = new HarnessAgent({
      ...{ name: "lead", store: { ...store }, clock, subagents: false, memory: false },
      ...(options.filesystem === undefined && { workspace: join(folder, disk) }),
      model: scriptedModel(({ prompt }) =>
        prompt.at(-1)?.role === "tool"
          ? "Written."
          : { call: "write_file", input: { path: "note.md", content: "Here." } },
      ),
      ...options,
    });
    const problems: unknown[] = [];
    const runner = taskRunner({
      agents: [agent],
      clock,
      onProblem: (_, error) => problems.push((error as { code: unknown }).code),
    });
    return { agent, runner, problems, place: settingsBehind(agent)?.place };
  };
  return { clock, store, start };
}

describe("the place of an agent with local files", () => {
  it("is the same for all processes that have the disk", () => {
    const { start } = createMachines();
    const [one, same, other] = [start("a"), start("a"), start("b")];
    expect(one.place).toMatch(/^[\w-]{36}$/);
    expect(same.place).toBe(one.place);
    expect(other.place).not.toBe(one.place);
    expect(readFileSync(join(folder, "a/.rivulet/place"), "utf8").trim()).toBe(one.place);
    const filesystem = localFilesystem(join(folder, "a"));
    expect(start("a", { filesystem }).place).toBe(one.place);
    expect(start("a", { place: "gpu" }).place).toBe("gpu");
  });

  it("does not exist for files in the store, or on a store that is not shared", async () => {
    const { start, store } = createMachines();
    const first = start("a", { filesystem: "store" });
    expect(first.place).toBeUndefined();
    expect((await first.agent.call("Write.", { sessionId: "s" })).text).toBe("Written.");
    expect((await store.files.list("")).some(({ path }) => path.endsWith("note.md"))).toBe(true);
    const sandbox = { jail: "unsafe", onWarning: () => {} } as const;
    expect(start("a", { filesystem: { store: true, sandbox } }).place).toBeUndefined();
    expect(start("a", { store: memoryStore() }).place).toBeUndefined();
  });

  it("cannot be in the temporary folder", () => {
    const { start } = createMachines();
    expect(() => start("temporary/a")).toThrow(/is in the temporary folder/);
    expect(() => start("temporary")).toThrow(
      expect.objectContaining({
        code: "invalid_settings",
        hint: expect.stringContaining('filesystem: "store"'),
      }),
    );
    expect(start("temporary-not/a").place).toBeDefined();
    expect(start("temporary/a", { store: memoryStore() }).place).toBeUndefined();
  });

  it("is not read from a damaged file", () => {
    const { start } = createMachines();
    start("a");
    writeFileSync(join(folder, "a/.rivulet/place"), "\u0000");
    expect(() => start("a")).toThrow(/has no id of a place/);
  });
});

describe("a session with local files", () => {
  it("stays at its place, also for later tasks", async () => {
    const { clock, store, start } = createMachines();
    const [here, elsewhere] = [start("a"), start("b")];
    const first = await here.agent.call("Write.", { sessionId: "s" });
    expect(await store.task(first.task.taskId)).toMatchObject({ place: here.place });
    const waited = Promise.withResolvers<string>();
    const next = elsewhere.agent.run("Write again.", {
      sessionId: "s",
      onWait: ({ reason }) => waited.resolve(reason),
    });
    const { taskId } = await next.task;
    expect(await store.task(taskId)).toMatchObject({ status: "queued", place: here.place });
    await elsewhere.runner.sweep();
    expect(elsewhere.problems).toEqual(["unknown_place"]);
    const ticking = setInterval(() => void clock.advance(1_000), 1);
    expect(await waited.promise).toBe("unknown_place");
    expect(await here.runner.sweep()).toEqual(["s"]);
    expect((await next.result()).text).toBe("Written.");
    clearInterval(ticking);
    await Promise.all([here.runner.shutDown(), elsewhere.runner.shutDown()]);
  });

  it("can be cancelled when no process has its place", async () => {
    const { store, start } = createMachines();
    const [here, elsewhere] = [start("a"), start("b")];
    await here.agent.call("Write.", { sessionId: "s" });
    await here.runner.shutDown();
    const next = elsewhere.agent.run("Write again.", { sessionId: "s" });
    const { taskId } = await next.task;
    await next.cancel("enough");
    await elsewhere.runner.sweep();
    await expect.poll(async () => (await store.task(taskId))?.status).toBe("cancelled");
    await expect(next.result()).rejects.toMatchObject({ code: "cancelled" });
    await elsewhere.runner.shutDown();
  });

  it("refuses live values where its files are not", async () => {
    const { start } = createMachines();
    await start("a").agent.call("Write.", { sessionId: "s" });
    await expect(
      start("b").agent.call("Write again.", { sessionId: "s", context: { tenant: "a" } }),
    ).rejects.toMatchObject({ code: "unknown_place" });
  });
});
