import { type ChildProcess, spawn as start } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { sqliteStore } from "../../src/index.ts";
import { a2aServer } from "./support/a2a-server.ts";
import { agentScopeServer } from "./support/agentscope-server.ts";
import { childOf } from "./support/foreign.ts";
import { leadOf, spawnOnce } from "./support/foreign-lead.ts";

const directory = mkdtempSync(join(tmpdir(), "rivulet-foreign-kill-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const words = ["one, ", "two, ", "three, ", "four."];

/** Runs the lead in a process of its own, kills it at a delta of the child, and goes on in this one. */
async function killAndContinue(place: object, path: string, killAt: number, onKilled: () => void) {
  const program = join(import.meta.dirname, "support/lead-process.ts");
  const args = [program, path, JSON.stringify(place)];
  const lead: ChildProcess = start(process.execPath, args, {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let deltas = 0;
  for await (const chunk of lead.stdout ?? []) {
    deltas += String(chunk).trim().split("\n").length;
    if (deltas > killAt) break;
  }
  lead.kill("SIGKILL");
  await once(lead, "exit");
  onKilled();
  const store = sqliteStore(path);
  try {
    const next = leadOf(place, spawnOnce, { store });
    const reply = await next.lead.call(undefined, { sessionId: "s" });
    return { reply, ...(await childOf(store, reply.task.taskId)) };
  } finally {
    await store.close();
  }
}

it.each([0, 1])(
  "finds a child on an AgentScope server again after kill -9 at delta %i",
  async (at) => {
    const killed = Promise.withResolvers<void>();
    await using server = await agentScopeServer({
      helper: function* () {
        yield { readers: 1 };
        for (const text of words.slice(0, 2)) yield { text };
        yield { until: killed.promise };
        yield { text: words[2] as string };
        yield { readers: 2 };
        yield { text: words[3] as string };
      },
    });
    const place = { url: server.url, protocol: "agentscope" };
    const path = join(directory, `agentscope-${at}.db`);
    const { reply, items } = await killAndContinue(place, path, at, killed.resolve);
    expect(reply.text).toBe("Done.");
    expect(items).toEqual([`message: ${words.join("")}`]);
    expect(server.submitted).toHaveLength(1);
  },
);

it.each([0, 1])("finds a child on an A2A server again after kill -9 at delta %i", async (at) => {
  const killed = Promise.withResolvers<void>();
  await using server = await a2aServer(async function* () {
    yield { artifact: "a", text: words[0] as string };
    yield { artifact: "a", text: words[1] as string, append: true };
    await killed.promise;
    for (const text of words.slice(2)) {
      yield { delayMs: 300 };
      yield { artifact: "a", text, append: true };
    }
  });
  const path = join(directory, `a2a-${at}.db`);
  const { reply, items } = await killAndContinue({ a2a: server.card }, path, at, killed.resolve);
  expect(reply.text).toBe("Done.");
  expect(items).toEqual([`message: ${words.join("")}`]);
  expect(server.received).toHaveLength(1);
});
