import { expect, it } from "vitest";
import { z } from "zod";
import { routes } from "../../src/app/app.ts";
import { memoryStore, ReActAgent, sessionsOf, tool, toolAgent } from "../../src/index.ts";
import { type ScriptedTurn, scriptedModel } from "../../src/testing.ts";
import { collect } from "../agent/support/collect.ts";
import { startServer, tokens } from "./support/server.ts";

const signature = "canary-of-the-provider";
const providerMetadata = { scripted: { signature } };
const search = tool({
  name: "search",
  description: "Searches.",
  input: z.object({ word: z.string() }),
  execute: () => "found the sea",
});

/** Thinking, text and a call, each with a signature. */
function signedTurn(...parts: readonly ("reasoning" | "text" | "call")[]): ScriptedTurn {
  return parts.flatMap((part) => {
    if (part === "call")
      return [
        {
          chunk: {
            ...{ type: "tool-call" as const, toolCallId: `c${Math.random()}`, toolName: "search" },
            ...{ input: '{"word":"sea"}', providerMetadata },
          },
        },
      ];
    const id = part;
    return [
      { chunk: { type: `${part}-start` as const, id } },
      { chunk: { type: `${part}-delta` as const, id, delta: `Some ${part}.` } },
      { chunk: { type: `${part}-end` as const, id, providerMetadata } },
    ] as never[];
  });
}

it("sends neither signatures of the provider nor counts of the loop, on any route", async () => {
  const store = memoryStore();
  const model = scriptedModel([
    signedTurn("reasoning", "call"),
    signedTurn("reasoning", "text", "call"),
    signedTurn("reasoning", "text"),
  ]);
  const lead = new ReActAgent({ name: "lead", model, store, tools: [search] });
  const server = await startServer({
    ...{ agents: [lead], prompts: true, adapters: ["a2a", "agentscope"] },
    auth: { tokens: { [tokens.ann]: { userId: "ann", scopes: ["read", "write", "operator"] } } },
  });
  const ann = server.as(tokens.ann);
  const { body } = await ann.post("/v1/tasks", { agent: "lead", input: "Go.", session_id: "s" });
  await ann.frames(`/v1/tasks/${body.id}/events?until=idle`);
  const messages = JSON.stringify(await store.session(body.session_id));
  // The model gets both back, so both are stored.
  expect(messages.split(signature).length - 1).toBe(7);
  expect(messages).toContain("fingerprint");

  const values: Record<string, string> = { id: body.id, agent: "lead" };
  const texts: string[] = [];
  for (const { method, path, isStream } of routes) {
    if (method !== "GET" || /:name|:path/.test(path)) continue;
    const ids = path.includes("/sessions/") ? { ...values, id: "s" } : values;
    const address = path.replace(/:(\w+)/g, (_, name: string) => ids[name] ?? name);
    const queries = path.endsWith("/prompts") ? ["", "?iteration=2", "?iteration=3"] : [""];
    for (const query of path === "/v1/search" ? ["?q=sea"] : queries) {
      const response = await ann.send("GET", `${address}${query}`);
      const text = await response.text();
      if (!path.endsWith("/files")) expect(response.status, `${address}: ${text}`).toBe(200);
      if (isStream) expect(text).toContain("stream.closed");
      texts.push(text);
    }
  }
  expect(texts.length).toBeGreaterThan(12);
  for (const text of texts) {
    expect(text).not.toContain(signature);
    expect(text).not.toContain("fingerprint");
  }
  // Programs get what the provider expects back, and no counts.
  const sessions = sessionsOf(store, { userId: "ann" });
  const read = JSON.stringify(await sessions.read(body.session_id));
  const exported = (await collect(sessions.export(body.session_id))).join("");
  for (const text of [read, exported]) {
    expect(text).toContain(signature);
    expect(text).toContain("found the sea");
    expect(text).not.toContain("fingerprint");
  }
});

it("shows what a suspended tool keeps on no route", async () => {
  const store = memoryStore();
  const ask = tool({
    name: "ask",
    description: "Asks.",
    execute: (_, { suspend, resumed }) =>
      resumed ? "done" : suspend("Which one?", { resume: { kept: signature } }),
  });
  const server = await startServer({ agents: [toolAgent(ask, { store })] });
  const ann = server.as(tokens.ann);
  const { body } = await ann.post("/v1/tasks", { agent: "ask", input: "{}", session_id: "s" });
  await ann.frames(`/v1/tasks/${body.id}/events?until=idle`);
  expect(JSON.stringify(await store.session(body.session_id))).toContain(signature);
  const session = `/v1/sessions/${body.session_id}`;
  for (const path of [`/v1/tasks/${body.id}/events?until=idle`, session, `${session}/export`]) {
    const response = await ann.send("GET", path);
    const text = await response.text();
    expect(text, path).toContain("Which one?");
    expect(text, path).not.toContain(signature);
  }
});
