import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { memoryStore, sessionsOf, sqliteStore } from "../../../src/index.ts";
import { workspaceWith } from "../agent/support/workspace.ts";
import { purposeOf, rememberingAgent, textOf } from "./support/remembering.ts";

const users = ["ann", "bob", "cid", "dan", "eve"];
const perUser = 10;
const canaryOf = (user: string, n: number) => `canary${user}${n}`;
const canaries = (user: string) => Array.from({ length: perUser }, (_, n) => canaryOf(user, n));
const pattern = /canary(ann|bob|cid|dan|eve)\d+/g;

/** The users whose canaries are in a text. */
function namedIn(text: string): readonly string[] {
  return [...new Set([...text.matchAll(pattern)].map(([, user = ""]) => user))].sort();
}

it.each(["memory", "sqlite"] as const)(
  "50 sessions of 5 users at once share no file, memory or search result (%s)",
  async (kind) => {
    const root = workspaceWith({ "MEMORY.md": "- The office is in Paris.\n" });
    const place = join(workspaceWith(), "store.db");
    const store = kind === "memory" ? memoryStore() : sqliteStore(place);
    // Each session notes its canary, writes it to a file, and then looks for everything there is.
    const { agent, model } = rememberingAgent(
      root,
      { store, memory: { idleMs: 1 } },
      {
        reply: ({ prompt }) => {
          const last = prompt.at(-1);
          if (last?.role !== "user") return "Done.";
          const text = JSON.stringify(last.content);
          const [canary = ""] = text.match(pattern) ?? [];
          if (text.includes("Note:"))
            return { call: "write_file", input: { path: "notes.md", content: canary } };
          return [
            { call: "memory_search", input: { query: "canary" } },
            { call: "memory_get", input: {} },
            { call: "session_search", input: { query: "canary" } },
            { call: "session_list", input: {} },
            { call: "grep_files", input: { pattern: "canary" } },
            ...users.map((user) => ({
              ...{ call: "session_history", input: { session_id: `${user}-0` } },
            })),
          ];
        },
      },
    );
    const sessions = users.flatMap((userId) =>
      canaries(userId).map((canary, n) => ({ userId, canary, sessionId: `${userId}-${n}` })),
    );
    const runAll = (textOf: (canary: string) => string) =>
      Promise.all(
        sessions.map(({ userId, sessionId, canary }) =>
          agent.call(textOf(canary), { userId, sessionId }),
        ),
      );
    await runAll((canary) => `Note: The word is ${canary}.`);
    await Promise.all(users.map((userId) => agent.memory({ userId }).flush()));
    await runAll(() => "What do you know?");

    for (const userId of users) {
      const memory = agent.memory({ userId });
      const files = await Promise.all((await memory.list()).map(({ path }) => memory.read(path)));
      expect(namedIn(files.join("\n"))).toEqual([userId]);
      for (const canary of canaries(userId)) expect(await memory.read()).toContain(canary);
      expect(namedIn(JSON.stringify(await memory.search("canary", { limit: 500 })))).toEqual([
        userId,
      ]);
      const found = await sessionsOf(store, { userId }).search("canary", { limit: 500 });
      expect(namedIn(JSON.stringify(found))).toEqual([userId]);
    }
    // Every model call has seen the canaries of one user alone.
    for (const request of model.calls) {
      const seen = namedIn(JSON.stringify(request.prompt));
      expect(seen.length, purposeOf(request)).toBeLessThanOrEqual(1);
    }
    expect(
      model.calls.filter((request) => namedIn(textOf(request)).length > 0).length,
    ).toBeGreaterThan(...[sessions.length]);
    // Every file on disk belongs to the layer of one user, and the common layer is as it was.
    expect(readFileSync(join(root, "MEMORY.md"), "utf8")).toBe("- The office is in Paris.\n");
    for (const path of readdirSync(root, { recursive: true }).map(String)) {
      if (!statSync(join(root, path)).isFile()) continue;
      const [, owner] = /namespaces\/user-([a-z]+)\//.exec(path) ?? [];
      const seen = namedIn(readFileSync(join(root, path), "utf8"));
      expect([path, ...seen.filter((user) => user !== owner)]).toEqual([path]);
    }
    await agent.close();
    await store.close();
  },
  60_000,
);
