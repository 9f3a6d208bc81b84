import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Message } from "../../src/contract/message.ts";
import type { Store } from "../../src/contract/store.ts";
import {
  HarnessAgent,
  jsonSchema,
  memoryStore,
  ReActAgent,
  sqliteStore,
  tool,
} from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";

const folder = mkdtempSync(join(tmpdir(), "rivulet-long-"));
afterAll(() => rmSync(folder, { recursive: true }));
let path = "";
let files = 0;
beforeEach(() => {
  path = join(folder, `${++files}.db`);
});
afterEach(() => vi.restoreAllMocks());

const sessionId = "long";
const texts = (messages: readonly Message[]) =>
  messages.flatMap(({ content }) =>
    content.flatMap((block) => (block.type === "text" ? [block.text] : [])),
  );

/** A store that counts the messages and task records that it returns. */
function counting(store: Store) {
  const read = { messages: 0, tasks: 0 };
  const counted: Store = {
    ...store,
    async session(...args) {
      const found = await store.session(...args);
      read.messages += found.length;
      return found;
    },
    async tasks(query) {
      const found = await store.tasks(query);
      read.tasks += found.length;
      return found;
    },
  };
  return { store: counted, read };
}

/** Counts what one more task of the session costs. */
async function costOfTask(agent: ReActAgent, { read }: ReturnType<typeof counting>) {
  const parse = vi.spyOn(JSON, "parse");
  read.tasks = 0;
  await agent.call("one more", { sessionId });
  const parsed = parse.mock.calls.filter(([text]) => String(text).includes('"role"')).length;
  parse.mockRestore();
  return { parsed, tasks: read.tasks };
}

describe.each([
  ["memory", () => memoryStore()],
  ["SQLite", () => sqliteStore(path)],
])("a long session in %s", (_, open) => {
  it("parses as few messages and reads as few task records in a late task as in an early one", async () => {
    const counted = counting(open());
    const { store } = counted;
    const agent = new ReActAgent({ name: "clerk", model: scriptedModel(() => "Done."), store });
    for (let task = 0; task < 5; task++) await agent.call("early", { sessionId });
    const early = await costOfTask(agent, counted);
    for (let task = 0; task < 50; task++) await agent.call("more", { sessionId });
    const late = await costOfTask(agent, counted);
    expect(late.parsed).toBeLessThanOrEqual(early.parsed);
    expect(late.tasks).toBe(early.tasks);
    await store.close();
  });
});

/** Adds a compaction, as the owner of the session would. */
async function compact(store: Store, summary: string, keepFrom: number): Promise<void> {
  const lease = await store.acquire(sessionId, "test", 1_000);
  if (lease === undefined) throw new Error("The session has an owner.");
  const at = (await store.session(sessionId)).length;
  const content = [{ type: "compaction", summary, keepFrom } as const];
  const messages: readonly Message[] = [{ id: "msg_compaction", role: "tool", content }];
  await store.commit({ lease, log: "log", appends: [{ sessionId, at, messages }] });
  await store.release(lease);
}

const input = jsonSchema<object>({ type: "object" });
const look = tool({
  name: "look",
  description: "Looks.",
  input,
  citable: true,
  execute: () => "A fact.",
});
const pay = tool({
  name: "pay",
  description: "Pays.",
  input,
  needsApproval: true,
  execute: () => "Paid.",
});

function clerk(store: Store, turns: Parameters<typeof scriptedModel>[0]): ReActAgent {
  return new ReActAgent({ name: "clerk", model: scriptedModel(turns), tools: [look, pay], store });
}

describe("a session after a compaction", () => {
  it("is read from the first message that the model sees", async () => {
    const prompts: string[][] = [];
    const model = scriptedModel(({ prompt }) => {
      prompts.push(prompt.map(({ content }) => JSON.stringify(content)));
      return "Done.";
    });
    const before = sqliteStore(path);
    const agent = new ReActAgent({ name: "clerk", model, store: before });
    for (let task = 0; task < 60; task++) await agent.call(`question ${task}`, { sessionId });
    await compact(before, "They talked a lot.", 118);
    await before.close();

    const { store, read } = counting(sqliteStore(path));
    const later = new ReActAgent({ name: "clerk", model, store });
    await later.call("And now?", { sessionId });
    expect(read.messages).toBe(3);
    const seen = prompts.at(-1)?.join() ?? "";
    expect(seen).toContain("They talked a lot.");
    expect(seen).toContain("question 59");
    expect(seen).toContain("And now?");
    expect(seen).not.toContain("question 58");
    const all = await store.session(sessionId);
    expect(all).toHaveLength(123);
    expect(texts(all.slice(-2))).toEqual(["And now?", "Done."]);
    await store.close();
  });

  it("gives no reference number twice, and still resolves those that the summary cites", async () => {
    const before = sqliteStore(path);
    await clerk(before, [{ call: "look" }, "See [^1]."]).call("Look.", { sessionId });
    await compact(before, "They found it [^1].", 5);
    await before.close();

    const store = sqliteStore(path);
    const later = clerk(store, [{ call: "look" }, "Both [^1] and [^2]."]);
    const cited: number[] = [];
    for await (const event of later.run("Look again.", { sessionId })) {
      if (event.type === "task.text.annotation.added")
        cited.push((event.annotation as { reference_id: number }).reference_id);
    }
    expect(cited).toEqual([1, 2]);
    await store.close();
  });

  it("gives the next number if nothing that the model sees cites", async () => {
    const before = sqliteStore(path);
    await clerk(before, [{ call: "look" }, "Done."]).call("Look.", { sessionId });
    await compact(before, "They looked.", 5);
    await before.close();
    const store = sqliteStore(path);
    await clerk(store, [{ call: "look" }, "Done."]).call("Look again.", { sessionId });
    const numbers = JSON.stringify(await store.session(sessionId)).match(/ID: \d+/g);
    expect(numbers).toEqual(["ID: 1", "ID: 2"]);
    await store.close();
  });

  it("still allows a tool that was always allowed before", async () => {
    const before = sqliteStore(path);
    const asked = await clerk(before, [{ call: "pay" }]).call("Pay.", { sessionId });
    const [approval] = asked.approvals;
    const answer = { ...approval?.approve(), always: true } as never;
    await clerk(before, ["Done."]).call([answer], { sessionId });
    await compact(before, "They paid.", 9);
    await before.close();
    const store = sqliteStore(path);
    const reply = await clerk(store, [{ call: "pay" }, "Done."]).call("Again.", { sessionId });
    expect(reply.text).toBe("Done.");
    await store.close();
  });

  it("reads all messages of a task that began before the compaction", async () => {
    const before = sqliteStore(path);
    await clerk(before, ["Hello."]).call("Hi.", { sessionId });
    await clerk(before, [{ call: "pay" }]).call("Pay.", { sessionId });
    // It hides the open call.
    await compact(before, "They pay.", (await before.session(sessionId)).length);
    await before.close();

    const store = sqliteStore(path);
    const later = clerk(store, ["Done."]);
    const [approval] = await later.approvals({ sessionId });
    if (approval === undefined) throw new Error("Nothing waits.");
    const reply = await later.call([approval.approve()], { sessionId });
    expect(reply.text).toBe("Done.");
    expect(reply.metadata?.iteration).toBe(2);
    await store.close();
  });

  it("still knows a subagent that was created before", async () => {
    const agent = (store: Store, turns: Parameters<typeof scriptedModel>[0]) =>
      new HarnessAgent({
        name: "lead",
        model: scriptedModel(turns),
        workspace: join(folder, "workspace"),
        subagents: [{ name: "helper", description: "Helps.", systemPrompt: "Help." }],
        store,
      });
    const before = sqliteStore(path);
    const spawn = { call: "agent_spawn", input: { agent_id: "helper", label: "bob" } };
    await agent(before, [spawn, "Done."]).call("Start.", { sessionId });
    await compact(before, "They started bob.", 9);
    await before.close();
    const store = sqliteStore(path);
    await agent(store, [{ call: "agent_list" }, "Done."]).call("Who is there?", { sessionId });
    expect(JSON.stringify((await store.session(sessionId)).slice(-2))).toContain("label: bob");
    await store.close();
  });
});
