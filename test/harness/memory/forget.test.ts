import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { memoryStore, type Store } from "../../../src/index.ts";
import type { TurnFunction } from "../../../src/testing.ts";
import { toolTexts } from "../agent/support/agent.ts";
import { workspaceWith } from "../agent/support/workspace.ts";
import { purposeOf, rememberingAgent, textOf } from "./support/remembering.ts";

const ann = { userId: "ann" };
const one = { ...ann, sessionId: "one" };
const secret = "Xylophone Street 7";

/** All files below a directory, as one text. */
function allFiles(root: string): string {
  return readdirSync(root, { recursive: true })
    .map((path) => join(root, String(path)))
    .filter((path) => statSync(path).isFile())
    .map((path) => readFileSync(path, "utf8"))
    .join("\n");
}

async function storedFiles({ files }: Store): Promise<string> {
  const stored = await Promise.all(
    (await files.list("", { limit: 1_000 })).map(({ path }) => files.get(path)),
  );
  return stored.map((file) => new TextDecoder().decode(file?.data)).join("\n");
}

describe("what was forgotten", () => {
  it("is gone from all files, old versions, searches and tools, and does not come back", async () => {
    const root = workspaceWith();
    const store = memoryStore();
    const { agent, model } = rememberingAgent(root, { store });
    const memory = agent.memory(ann);
    await agent.call(`Note: Ann lives in ${secret}.\nNote: Ann has a cat.`, one);
    await memory.flush();
    await agent.call("Note: Ann is a pilot.", one);
    await memory.flush(); // the old version has the secret too
    await agent.call(`Note: Post goes to ${secret.toUpperCase()}.`, { ...ann, sessionId: "two" });
    const kept = (await memory.list()).map(({ path }) => path);
    expect(kept.some((path) => path.includes("versions"))).toBe(true);
    expect(allFiles(root)).toContain(secret);

    const forgotten = await memory.forget("xylophone   street");
    expect(forgotten.removed).toBe(3); // daily file, MEMORY.md, old version
    expect(forgotten.sessions.toSorted()).toEqual(["one", "two"]);
    expect(allFiles(root)).not.toMatch(/xylophone/i);
    expect(await storedFiles(store)).not.toMatch(/xylophone/i);
    expect(await memory.search("xylophone")).toEqual([]);
    expect(await memory.read()).toBe("# Facts\n\n- Ann has a cat.\n- Ann is a pilot.\n");

    await memory.flush(); // the second session was not distilled before
    expect(allFiles(root)).not.toMatch(/xylophone/i);
    const distilled = model.calls.filter((request) => purposeOf(request) === "distill").at(-1);
    expect(distilled && textOf(distilled)).not.toMatch(/xylophone/i);

    const tools: TurnFunction = ({ prompt }) =>
      prompt.at(-1)?.role === "tool"
        ? "done"
        : [
            { call: "memory_search", input: { query: "xylophone" } },
            { call: "session_search", input: { query: "xylophone" } },
            { call: "session_history", input: { session_id: "one" } },
          ];
    const after = rememberingAgent(root, { store }, { reply: tools });
    await after.agent.call("Where do I live?", { ...ann, sessionId: "three" });
    const results = toolTexts(after.model.calls.at(-1)).join("\n");
    expect(results).not.toMatch(/xylophone street/i);
    expect(results).toContain("message 0, user: [forgotten]");
    expect(results).toContain("Ann is a pilot.");
  });

  it("stays with other users", async () => {
    const { agent } = rememberingAgent(workspaceWith());
    for (const userId of ["ann", "bob"]) {
      await agent.call(`Note: ${userId} lives in ${secret}.`, { userId });
      await agent.memory({ userId }).flush();
    }
    const { removed, sessions } = await agent.memory(ann).forget(secret);
    expect([removed, sessions.length]).toEqual([2, 1]);
    expect(await agent.memory({ userId: "bob" }).search("xylophone")).toHaveLength(1);
  });

  it.each(["distill", "merge"] as const)(
    "is not brought back by a %s that runs",
    async (purpose) => {
      const root = workspaceWith();
      const store = memoryStore();
      const asked = Promise.withResolvers<void>();
      const gate = Promise.withResolvers<void>();
      const late: TurnFunction = async () => {
        asked.resolve();
        await gate.promise;
        return `- Ann lives in ${secret}.\n- Ann has a cat.`;
      };
      const memoryIn = (answers: Parameters<typeof rememberingAgent>[2]) => {
        const { agent } = rememberingAgent(root, { store }, answers);
        return { agent, memory: agent.memory(ann) };
      };
      const first = memoryIn({ [purpose]: late });
      await first.agent.call(`Note: Ann lives in ${secret}.`, one);
      const flushed = first.memory.flush().catch(() => {});
      await asked.promise;
      await memoryIn({}).memory.forget(secret); // in another process
      gate.resolve();
      await flushed;
      expect(allFiles(root)).not.toContain(secret);
      expect(await storedFiles(store)).not.toContain(secret);
    },
  );

  it("makes work in the background of the same process start over", async () => {
    const asked: string[] = [];
    const hang: TurnFunction = (request) => {
      asked.push(textOf(request));
      return asked.length === 1 ? new Promise(() => {}) : "- Ann has a cat.";
    };
    const { agent, warnings } = rememberingAgent(
      workspaceWith(),
      { memory: { idleMs: 1 } },
      { distill: hang },
    );
    await agent.call(`Ann lives in ${secret} and has a cat.`, one);
    await agent.call("And a dog.", one);
    await vi.waitFor(() => expect(asked).toHaveLength(1));
    const memory = agent.memory(ann);
    await memory.forget(secret);
    await vi.waitFor(async () => expect(await memory.search("cat")).not.toEqual([]));
    expect(asked[1]).not.toContain(secret);
    expect(warnings).toEqual([]);
    await agent.close();
  });
});
