// Behaviour of subagents (seed 003) that no other test states by itself.
import { describe, expect, it } from "vitest";
import {
  HarnessAgent,
  type HarnessAgentOptions,
  memoryStore,
  type Store,
  type SubagentDeclaration,
  storeFilesystem,
  tool,
} from "../../src/index.ts";
import { ManualClock, type ScriptedTurn, scriptedModel } from "../../src/testing.ts";

const spawn = (agent_id: string, more: object = {}) => ({
  call: "agent_spawn",
  input: { agent_id, task: "Do it.", ...more },
});

const worker: SubagentDeclaration = {
  name: "worker",
  description: "Works.",
  model: scriptedModel(() => "It is done."),
};

function leadOf(turns: readonly ScriptedTurn[], more: Partial<HarnessAgentOptions> = {}) {
  const store = memoryStore();
  const model = scriptedModel(turns);
  const lead = new HarnessAgent({
    name: "lead",
    model,
    store,
    filesystem: false,
    subagents: [worker],
    ...more,
  });
  return { lead, model, store };
}

/** Returns the texts of the tool results of a session. */
async function results(store: Store, sessionId = "s"): Promise<readonly string[]> {
  const messages = await store.session(sessionId);
  return messages.flatMap(({ content }) =>
    content.flatMap((block) =>
      block.type === "tool_result"
        ? [block.output.map((part) => (part.type === "text" ? part.text : "")).join("")]
        : [],
    ),
  );
}

const delegationTools = [
  ...["agent_list", "agent_send", "agent_spawn"],
  ...["task_cancel", "task_list", "task_output", "task_wait"],
];

describe("the tools on offer", () => {
  it("the six tools of the seed and task_wait are offered", async () => {
    const { lead, model } = leadOf(["Hello."]);
    await lead.call("Hello.");
    expect(model.calls[0]?.tools?.map(({ name }) => name).sort()).toEqual(delegationTools);
  });

  it("subagents: false offers no subagent tools and no prompt about them", async () => {
    const { lead, model } = leadOf(["Hello."], { subagents: false });
    await lead.call("Hello.");
    expect(model.calls[0]?.tools ?? []).toEqual([]);
    expect(JSON.stringify(model.calls[0]?.prompt)).not.toContain("agent_spawn");
  });

  it("a leaf is offered no subagent tools", async () => {
    const model = scriptedModel(() => "It is done.");
    const { lead } = leadOf([[spawn("leaf")], "Done."], {
      subagents: [{ name: "leaf", description: "Works.", model }],
    });
    await lead.call("Go.");
    expect(model.calls).toHaveLength(1);
    expect(model.calls[0]?.tools ?? []).toEqual([]);
  });
});

describe("general-purpose", () => {
  const generalPurpose = [[spawn("general-purpose")], "I am the child.", "Done."] as const;

  it("general-purpose runs the parent's hooks", async () => {
    const seen: (number | undefined)[] = [];
    const { lead } = leadOf(generalPurpose, {
      hooks: [{ name: "watch", preCall: ({ source }) => void seen.push(source?.depth) }],
    });
    await lead.call("Go.");
    expect(seen).toEqual([undefined, 1]);
  });

  it("general-purpose has the parent's execution settings", async () => {
    let attempts = 0;
    const flaky = tool({
      name: "flaky",
      description: "Fails once.",
      execute: () => {
        attempts += 1;
        if (attempts === 1) throw new Error("not yet");
        return "now";
      },
    });
    const { lead } = leadOf(
      [[spawn("general-purpose")], [{ call: "flaky" }], "I am the child.", "Done."],
      {
        tools: [flaky],
        execution: { maxAttempts: 2, initialBackoffMs: 0, retryOn: () => true },
      },
    );
    await lead.call("Go.");
    expect(attempts).toBe(2);
  });

  it("general-purpose reads the parent's context files", async () => {
    const filesystem = storeFilesystem(memoryStore());
    await filesystem.write("NOTES.md", "The door is green.");
    const { lead, model } = leadOf(generalPurpose, { filesystem, contextFiles: ["NOTES.md"] });
    await lead.call("Go.");
    expect(JSON.stringify(model.calls[1]?.prompt[0])).toContain("The door is green.");
  });

  it("general-purpose has the parent's switches", async () => {
    const filesystem = storeFilesystem(memoryStore());
    await filesystem.write("MEMORY.md", "The door is green.");
    const { lead, model } = leadOf(generalPurpose, { filesystem, contextFiles: false });
    await lead.call("Go.");
    expect(JSON.stringify(model.calls[1]?.prompt[0])).not.toContain("The door is green.");
  });

  it("general-purpose has the parent's compaction and eviction", async () => {
    const long = tool({
      name: "long",
      description: "Returns a long text.",
      execute: () => "word ".repeat(4_000),
    });
    const work = [[spawn("general-purpose")], [{ call: "long" }], "Worked.", "Done."];
    const run = async (more: Partial<HarnessAgentOptions>) => {
      const filesystem = storeFilesystem(memoryStore());
      const { lead, model } = leadOf(work, { filesystem, tools: [long], ...more });
      const { text } = await lead.call("Go.");
      return { text, prompt: JSON.stringify(model.calls[2]?.prompt) };
    };
    const evicted = await run({ eviction: { maxChars: 1_000 } });
    expect(evicted.text).toBe("Done.");
    expect(evicted.prompt.length).toBeLessThan(10_000);
    expect((await run({ eviction: false })).prompt.length).toBeGreaterThan(20_000);
    const compacted = await run({ eviction: false, compaction: { window: 4_000 } });
    expect(compacted.prompt.length).toBeLessThan(10_000);
  });
});

it("a child has its parent's user", async () => {
  const users: (string | undefined)[] = [];
  const look = tool({
    name: "look",
    description: "Looks.",
    execute: (_, { userId }) => void users.push(userId),
  });
  const { lead } = leadOf([[spawn("worker")], "Done."], {
    subagents: [
      {
        name: "worker",
        description: "Works.",
        tools: [look],
        model: scriptedModel([[{ call: "look" }], "Done."]),
      },
    ],
  });
  await lead.call("Go.", { userId: "ada" });
  expect(users).toEqual(["ada"]);
});

it("a spawn waits 30 seconds by default, then the child is promoted", async () => {
  const clock = new ManualClock();
  const started = Promise.withResolvers<void>();
  const finish = Promise.withResolvers<void>();
  const slow = scriptedModel(async () => {
    started.resolve();
    await finish.promise;
    return "At last.";
  });
  const { lead, store } = leadOf([[spawn("worker")], "Done."], {
    clock,
    subagents: [{ name: "worker", description: "Works.", model: slow }],
  });
  const run = lead.run("Go.", { sessionId: "s" });
  await started.promise;
  await clock.advance(29_999);
  expect(await results(store)).toEqual([]);
  await clock.advance(1);
  await run.result();
  expect((await results(store))[0]).toContain("status: timeout_promoted");
  finish.resolve();
  await run.settled();
});

it("timeout_seconds over 600 is an error result", async () => {
  const { lead, store } = leadOf([[spawn("worker", { timeout_seconds: 601 })], "Done."]);
  await lead.call("Go.", { sessionId: "s" });
  expect((await results(store))[0]).toContain("timeout_seconds");
  expect(await store.tasks({ parentSessionId: "s" })).toEqual([]);
});

it("agent_send without a message is an error result", async () => {
  const { lead, store } = leadOf([[{ call: "agent_send", input: { label: "x" } }], "Done."]);
  await lead.call("Go.", { sessionId: "s" });
  expect((await results(store))[0]).toContain("message");
});

it("agent_list lists children with key, id and status", async () => {
  const script = [[spawn("worker", { label: "first" })], [{ call: "agent_list" }], "Done."];
  const { lead, store } = leadOf(script);
  await lead.call("Go.", { sessionId: "s" });
  const list = (await results(store))[1];
  expect(list).toContain("- worker: Works.");
  expect(list).toMatch(
    /agent_key: agent:worker:[0-9a-f-]{36}\nagent_id: worker\nsession_id: sub-[0-9a-f-]{36}\nstatus: completed\nlabel: first/,
  );
});

describe("the task tools", () => {
  /** Spawns a background child that works until `finish`, and plays the calls of `script` with its task id. */
  async function withBackgroundTask(script: readonly ((task_id: string) => object)[]) {
    const finish = Promise.withResolvers<void>();
    const slow = scriptedModel(async () => {
      await finish.promise;
      return "At last.";
    });
    const turns = script.map((call, index) => (request: { readonly prompt: unknown }) => {
      const [id = ""] = /call_\w+/.exec(JSON.stringify(request.prompt)) ?? [];
      if (index === script.length - 1) finish.resolve();
      return [call(id)];
    });
    const { lead, store } = leadOf(
      [[spawn("worker", { timeout_seconds: 0 })], ...(turns as never[]), "Done."],
      { subagents: [{ name: "worker", description: "Works.", model: slow }] },
    );
    const run = lead.run("Go.", { sessionId: "s" });
    await run.settled();
    return (await results(store)).slice(1);
  }

  it("task_output waits by default and reports the state with block false", async () => {
    const said = await withBackgroundTask([
      (task_id) => ({ call: "task_output", input: { task_id, block: false } }),
      (task_id) => ({ call: "task_output", input: { task_id } }),
    ]);
    expect(said[0]).toContain("status: running");
    expect(said[1]).toContain("status: ok");
    expect(said[1]).toContain("At last.");
  });

  it("task_output waits 30 seconds by default and at most 600", async () => {
    const clock = new ManualClock();
    const started = Promise.withResolvers<void>();
    const finish = Promise.withResolvers<void>();
    const slow = scriptedModel(async () => {
      started.resolve();
      await finish.promise;
      return "At last.";
    });
    const asked: string[] = [];
    const lead = new HarnessAgent({
      name: "lead",
      clock,
      store: memoryStore(),
      filesystem: false,
      subagents: [{ name: "worker", description: "Works.", model: slow }],
      model: scriptedModel(({ prompt, assistantCount }) => {
        const task_id = /task_id: (call_\w+)/.exec(JSON.stringify(prompt))?.[1];
        asked.push(JSON.stringify(prompt.at(-1)));
        if (assistantCount === 0) return [spawn("worker", { timeout_seconds: 0 })];
        if (assistantCount === 1)
          return [{ call: "task_output", input: { task_id, timeout: 600_001 } }];
        return assistantCount === 2 ? [{ call: "task_output", input: { task_id } }] : "Done.";
      }),
    });
    const run = lead.run("Go.");
    await started.promise;
    await clock.advance(29_999);
    expect(asked).toHaveLength(3);
    expect(asked[2]).toContain("600000");
    await clock.advance(1);
    await run.result();
    expect(asked[3]).toContain("status: running");
    finish.resolve();
    await run.settled();
  });

  it("task_list filters by status", async () => {
    const said = await withBackgroundTask([
      () => ({ call: "task_list", input: { status_filter: "running" } }),
      () => ({ call: "task_list", input: { status_filter: "completed" } }),
      (task_id) => ({ call: "task_output", input: { task_id } }),
    ]);
    expect(said[0]).toMatch(/^- call_\w+ worker: in_progress, in the background$/);
    expect(said[1]).toBe("There are no such tasks.");
  });
});

it("a declaration without a description is refused", () => {
  const declaration = { name: "worker", model: scriptedModel([]) } as never;
  expect(() => leadOf([], { subagents: [declaration] })).toThrow(/description/);
});
