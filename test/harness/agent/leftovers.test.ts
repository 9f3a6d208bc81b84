import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { memoryStore, tool } from "../../../src/index.ts";
import { createApp } from "../../../src/server.ts";
import { agentWith } from "./support/agent.ts";
import { workspaceWith } from "./support/workspace.ts";

const dump = tool({
  name: "dump",
  description: "Returns a lot.",
  execute: () => "x".repeat(90_000),
});

/** The saved results below a directory. */
const saved = (directory: string) =>
  readdirSync(directory, { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".txt"),
  );

function dumping() {
  const workspace = workspaceWith();
  const store = memoryStore();
  const { agent } = agentWith(
    (request) => {
      const text = JSON.stringify(request.prompt);
      const isChild = text.includes("Subagent Context");
      if (text.includes("tool-results/")) return "Done.";
      if (isChild || text.includes("Do it yourself.")) return { call: "dump" };
      if (text.includes("status: ok")) return "Done.";
      return { call: "agent_spawn", input: { agent_id: "helper", task: "Dump." } };
    },
    {
      ...{ workspace, store, tools: [dump] },
      subagents: [{ name: "helper", description: "Helps." }],
    },
  );
  return { agent, workspace, store };
}

it("deletes saved results with their session, those of isolated children included", async () => {
  const { agent, workspace } = dumping();
  await agent.call("Do it yourself.", { sessionId: "one" });
  await agent.call("Delegate.", { sessionId: "two" });
  expect(saved(workspace)).toHaveLength(2);
  expect(await agent.deleteSession("two")).toBe(true);
  expect(saved(workspace)).toEqual([expect.stringContaining(join("tool-results", "one"))]);
  expect(await agent.deleteSession("two")).toBe(false);
});

it("keeps the results of other users, and refuses to delete their sessions", async () => {
  const { agent, workspace } = dumping();
  await agent.call("Do it yourself.", { sessionId: "ann", userId: "ann" });
  expect(await agent.deleteSession("ann", { userId: "bob" })).toBe(false);
  expect(saved(workspace)).toHaveLength(1);
  expect(await agent.deleteSession("ann", { userId: "ann" })).toBe(true);
  expect(saved(workspace)).toEqual([]);
});

it("deletes them through the server", async () => {
  const { agent, workspace, store } = dumping();
  const token = "a-token-that-nobody-can-guess-4711";
  await agent.call("Delegate.", { sessionId: "web", userId: "web" });
  expect(saved(workspace)).toHaveLength(1);
  const auth = { tokens: { [token]: { userId: "web" } } };
  const app = createApp({ agents: [agent], store, auth });
  const headers = { authorization: `Bearer ${token}` };
  const request = new Request("http://localhost/v1/sessions/web", { method: "DELETE", headers });
  expect((await app.fetch(request)).status).toBe(204);
  expect(saved(workspace)).toEqual([]);
});
