import { describe, expect, it } from "vitest";
import { z } from "zod";
import {
  HarnessAgent,
  type HarnessAgentOptions,
  memoryStore,
  type Store,
  type SubagentDeclaration,
  storeFilesystem,
  tool,
} from "../../../src/index.ts";
import { checkStream } from "../../../src/protocol/check/check.ts";
import { ManualClock, type ScriptedTurn, scriptedModel } from "../../../src/testing.ts";
import { logTranscriptProblems } from "../../support/log-matches-transcript.ts";

/** Creates an agent with these subagents and without files. */
function leadOf(
  turns: readonly ScriptedTurn[],
  subagents: readonly SubagentDeclaration[],
  more: Partial<HarnessAgentOptions> = {},
) {
  const store = memoryStore();
  const model = scriptedModel(turns);
  const lead = new HarnessAgent({
    name: "lead",
    model,
    store,
    filesystem: false,
    subagents,
    ...more,
  });
  return { lead, store, model };
}

/** A subagent that repeats its last task. */
function echo(name: string, more: object = {}): SubagentDeclaration {
  return {
    name,
    description: `Says what it hears (${name}).`,
    model: scriptedModel((request) => {
      const last = request.prompt.findLast(({ role }) => role === "user");
      const text = typeof last?.content === "string" ? "" : last?.content[0];
      return `${name} heard: ${typeof text === "object" && "text" in text ? text.text : ""}`;
    }),
    ...more,
  };
}

/** A model that numbers its replies and waits for `opened` before each. */
function countingModel(opened?: Promise<void>) {
  return scriptedModel(async (request) => {
    await opened;
    return `Reply ${request.assistantCount + 1}.`;
  });
}

const spawn = (agent_id: string, task?: string, more: object = {}) => ({
  call: "agent_spawn",
  input: { agent_id, ...(task !== undefined && { task }), ...more },
});

async function results(store: Store, sessionId: string): Promise<readonly string[]> {
  const messages = await store.session(sessionId);
  return messages.flatMap(({ content }) =>
    content.flatMap((block) =>
      block.type === "tool_result"
        ? [block.output.map((one) => (one.type === "text" ? one.text : "")).join("")]
        : [],
    ),
  );
}

async function expectLawful(store: Store, sessionId = "s"): Promise<void> {
  for (const { rootTaskId } of await store.tasks({ sessionId })) {
    expect(checkStream(await store.read(rootTaskId, -1, 100_000))).toEqual([]);
    expect(await logTranscriptProblems(store, rootTaskId)).toEqual([]);
  }
}

describe("agent_spawn", () => {
  it("runs children in parallel, each with its own source", async () => {
    const { lead, store } = leadOf(
      [[spawn("a", "one"), spawn("a", "two"), spawn("b", "three")], "Done."],
      [echo("a"), echo("b")],
    );
    const keys = new Map<string, string>();
    for await (const event of lead.stream("Go.", { sessionId: "s" })) {
      if (event.type === "reasoning" && event.last && event.source) {
        expect(event.source.taskId).toMatch(/^call_/);
        keys.set(event.source.agentKey, `${event.source.path} ${event.text}`);
      }
    }
    expect([...keys.values()].sort()).toEqual([
      "s/a a heard: one",
      "s/a a heard: two",
      "s/b b heard: three",
    ]);
    expect((await results(store, "s"))[0]).toMatch(
      /^agent_key: agent:a:[0-9a-f-]{36}\nagent_id: a\nsession_id: sub-[0-9a-f-]{36}\nstatus: ok\nreply:\na heard: one$/,
    );
    await expectLawful(store);
  });

  it("reports a failed child, an exhausted child and an unknown subagent", async () => {
    const noop = tool({ name: "noop", description: "Nothing.", execute: () => "nothing" });
    const { lead, store } = leadOf(
      [[spawn("fails", "x"), spawn("loops", "x"), spawn("nobody", "x")], "Done."],
      [
        {
          name: "fails",
          description: "Fails.",
          model: scriptedModel(() => [{ error: new Error("no model today") }]),
        },
        {
          name: "loops",
          description: "Loops.",
          maxIters: 1,
          tools: [noop],
          model: scriptedModel((request) =>
            request.tools?.length ? [{ call: "noop" }] : "I got nowhere.",
          ),
        },
      ],
      { modelExecution: { maxAttempts: 1 } },
    );
    await lead.call("Go.", { sessionId: "s" });
    const [failed, loops, nobody] = await results(store, "s").then((all) => [...all].sort());
    const all = [failed, loops, nobody].join("\n");
    expect(all).toMatch(/agent_id: fails\n.*\nstatus: error\nerror: .*no model today/);
    expect(all).toMatch(
      /agent_id: loops\n.*\nstatus: incomplete\nreason: it reached its maximum number of iterations\nreply:\nI got nowhere\./,
    );
    expect(all).toContain(
      'There is no subagent "nobody". There are: general-purpose, fails, loops.',
    );
    const statuses = (await store.tasks({ parentSessionId: "s" })).map(({ status }) => status);
    expect(statuses.sort()).toEqual(["failed", "incomplete"]);
    await expectLawful(store);
  });

  it("creates an idle child without a task, which agent_send reaches by key or label", async () => {
    const store = memoryStore();
    let key = "";
    const lead = new HarnessAgent({
      name: "lead",
      store,
      filesystem: false,
      subagents: [echo("a")],
      model: scriptedModel([
        [spawn("a", undefined, { label: "helper" })],
        (request) => {
          key = /agent:a:[0-9a-f-]{36}/.exec(JSON.stringify(request.prompt))?.[0] ?? "";
          return [{ call: "agent_send", input: { agent_key: key, message: "first" } }];
        },
        [{ call: "agent_send", input: { label: "helper", message: "second" } }],
        [
          { call: "agent_send", input: { agent_key: "agent:a", message: "x" } },
          { call: "agent_send", input: { message: "x" } },
          spawn("a", "x", { label: "helper" }),
        ],
        "Done.",
      ]),
    });
    await lead.call("Go.", { sessionId: "s" });
    const said = await results(store, "s");
    expect(said[0]).toMatch(
      /^agent_key: \S+\nagent_id: a\nsession_id: \S+\nstatus: ok\nlabel: helper$/,
    );
    expect(said[1]).toContain("a heard: first");
    expect(said[2]).toContain("a heard: second");
    expect(said.slice(3).join("\n")).toContain("Give the whole agent_key");
    expect(said.slice(3).join("\n")).toContain("Give agent_key or label");
    expect(said.slice(3).join("\n")).toContain('has the label "helper"');
    const tasks = await store.tasks({ parentSessionId: "s" });
    expect(new Set(tasks.map(({ sessionId }) => sessionId)).size).toBe(1);
    expect(new Set(tasks.map(({ agentKey }) => agentKey))).toEqual(new Set([key]));
    await expectLawful(store);
  });

  it("queues two messages to one child", async () => {
    const { lead, store } = leadOf(
      [
        [spawn("a", undefined, { label: "x" })],
        [1, 2, 3].map((n) => ({ call: "agent_send", input: { label: "x", message: `n${n}` } })),
        "Done.",
      ],
      [echo("a")],
    );
    await lead.call("Go.", { sessionId: "s" });
    const said = (await results(store, "s")).slice(1).sort();
    expect(said.map((text) => /heard: (n\d)/.exec(text)?.[1]).sort()).toEqual(["n1", "n2", "n3"]);
    const [task] = await store.tasks({ parentSessionId: "s" });
    expect(await store.session(task?.sessionId ?? "")).toHaveLength(6);
    await expectLawful(store);
  });

  it("refuses the children of one task beyond the limit, in the order of the calls", async () => {
    const { lead, store } = leadOf(
      [Array.from({ length: 5 }, (_, n) => spawn("a", `t${n}`)), [spawn("a", "t5")], "Done."],
      [echo("a")],
      { limits: { childrenPerTask: 4 } },
    );
    await lead.call("Go.", { sessionId: "s" });
    const said = await results(store, "s");
    expect(said.filter((text) => text.includes("has started 4 children"))).toHaveLength(2);
    const heard = said.flatMap((text) => /heard: (t\d)/.exec(text)?.[1] ?? []);
    expect(heard.sort()).toEqual(["t0", "t1", "t2", "t3"]);
    expect(await store.tasks({ parentSessionId: "s" })).toHaveLength(4);
    await expectLawful(store);
  });

  it("refuses a label that a call of the same reply uses", async () => {
    const { lead, store } = leadOf(
      [
        [
          spawn("a", "one", { label: "x" }),
          spawn("a", "two", { label: "x" }),
          spawn("a", undefined, { label: "y" }),
          spawn("a", undefined, { label: "y" }),
        ],
        "Done.",
      ],
      [echo("a")],
    );
    await lead.call("Go.", { sessionId: "s" });
    const said = (await results(store, "s")).join("\n");
    for (const label of ["x", "y"]) {
      expect(said.split(`already has the label "${label}"`)).toHaveLength(2);
    }
    expect(await store.tasks({ parentSessionId: "s" })).toHaveLength(1);
  });

  it("puts a label on one line, without spaces around it", async () => {
    const { lead, store } = leadOf(
      [
        [spawn("a", "one", { label: "  x\nstatus:\u0000 ok " })],
        [spawn("a", "two", { label: "x status: ok" })],
        [{ call: "agent_send", input: { label: "x\tstatus: ok", message: "three" } }],
        "Done.",
      ],
      [echo("a")],
    );
    await lead.call("Go.", { sessionId: "s" });
    const tasks = await store.tasks({ parentSessionId: "s" });
    expect(tasks.map(({ label }) => label)).toEqual(["x status: ok", "x status: ok"]);
    const said = (await results(store, "s")).join("\n");
    expect(said).toContain('already has the label "x status: ok"');
    expect(said).toContain("a heard: three");
  });

  it("treats an empty optional parameter as left out", async () => {
    const { lead, store } = leadOf(
      [
        [spawn("a", "one", { label: "" }), spawn("a", "", { label: "x" })],
        [{ call: "agent_send", input: { agent_key: "", label: "x", message: "two" } }],
        [{ call: "task_list", input: { status_filter: "" } }],
        "Done.",
      ],
      [echo("a")],
    );
    await lead.call("Go.", { sessionId: "s" });
    const [one, two, ...said] = await results(store, "s");
    expect([one, two].filter((text) => /status: ok\nlabel: x$/.test(text ?? ""))).toHaveLength(1);
    expect([one, two].filter((text) => text?.includes("a heard: one"))).toHaveLength(1);
    expect(said[0]).toContain("a heard: two");
    expect(said[1]).toContain("completed");
  });

  it("delegates at most three levels deep", async () => {
    const deeper = (name: string, inner: readonly SubagentDeclaration[]): SubagentDeclaration => ({
      name,
      description: "Delegates.",
      subagents: inner,
      model: scriptedModel((request) => {
        const next = inner[0]?.name ?? "general-purpose";
        if (request.assistantCount > 0) return `${name} is done.`;
        const isOffered = request.tools?.some((one) => one.name === "agent_spawn");
        return isOffered ? [spawn(next, "go on")] : `${name} has nobody.`;
      }),
    });
    const { lead, store } = leadOf(
      [[spawn("one", "go")], "Done."],
      [deeper("one", [deeper("two", [deeper("three", [])])])],
    );
    await lead.call("Go.", { sessionId: "s" });
    const paths = (await store.tasks({ conversation: "s" })).map(({ path, depth }) => [
      path,
      depth,
    ]);
    expect(paths).toEqual([
      ["s", 0],
      ["s/one", 1],
      ["s/one/two", 2],
      ["s/one/two/three", 3],
    ]);
    const third = (await store.tasks({ conversation: "s" })).at(-1);
    expect(third?.result?.content).toEqual([{ type: "text", text: "three has nobody." }]);
    await expectLawful(store);
  });

  it("returns a result that matches the output schema of the declaration", async () => {
    const { lead, store } = leadOf(
      [[spawn("judge", "Is it good?")], "Done."],
      [
        {
          name: "judge",
          description: "Judges.",
          output: z.object({ good: z.boolean() }),
          model: scriptedModel((request) =>
            request.tools?.some(({ name }) => name === "generate_response")
              ? [{ call: "generate_response", input: { good: true } }]
              : JSON.stringify({ good: true }),
          ),
        },
      ],
    );
    await lead.call("Go.", { sessionId: "s" });
    const [task] = await store.tasks({ parentSessionId: "s" });
    expect(task?.structured).toEqual({ good: true });
    expect((await results(store, "s"))[0]).toContain('{"good":true}');
  });
});

describe("a child inherits", () => {
  it("the selected tools, the model and the deny rules", async () => {
    const seen: string[][] = [];
    const look = scriptedModel((request) => {
      seen.push((request.tools ?? []).map(({ name }) => name).sort());
      return request.assistantCount > 0 ? "Done." : [{ call: "remove" }];
    });
    const make = (name: string) =>
      tool({ name, description: name, execute: () => `${name} was run` });
    const { lead, store } = leadOf(
      [[spawn("some", "x")], [spawn("all", "x")], "Done."],
      [
        { name: "some", description: "x", model: look, tools: ["re*", make("own")] },
        { name: "all", description: "x", model: look },
      ],
      {
        tools: [make("read"), make("remove"), make("write")],
        permissions: { deny: ["remove"] },
      },
    );
    await lead.call("Go.", { sessionId: "s" });
    expect(seen[0]).toEqual(["own", "read", "remove"]);
    expect(seen[2]).toEqual(["read", "remove", "write"]);
    const [child] = await store.tasks({ parentSessionId: "s" });
    expect(await results(store, child?.sessionId ?? "")).toEqual([
      "A rule forbids remove with this input.",
    ]);
  });

  it("everything except subagents as general-purpose", async () => {
    const tools: string[][] = [];
    const systems: string[] = [];
    const model = scriptedModel((request) => {
      const names = (request.tools ?? []).map(({ name }) => name);
      const [system] = request.prompt;
      if (!names.includes("agent_spawn")) {
        tools.push(names);
        systems.push(system?.role === "system" ? system.content : "");
        return "I am the child.";
      }
      return request.assistantCount > 0 ? "Done." : [spawn("general-purpose", "x")];
    });
    const lead = new HarnessAgent({
      name: "lead",
      systemPrompt: "You are careful.",
      model,
      store: memoryStore(),
      filesystem: false,
      tools: [tool({ name: "read", description: "Reads.", execute: () => "" })],
    });
    await lead.call("Go.", { sessionId: "s" });
    expect(tools).toEqual([["read"]]);
    expect(systems[0]).toContain("You are careful.");
    expect(systems[0]).toContain("# Subagent Context");
  });

  it("never the persona of its parent", async () => {
    const files = storeFilesystem(memoryStore(), { readOnly: [] });
    await files.write("AGENTS.md", "You are the lead.");
    for (const contextFiles of [undefined, false, ["AGENTS.md"], { name: "mine" }] as const) {
      let system: unknown;
      const look = scriptedModel(({ prompt: [first] }) => {
        system = first?.content;
        return "I am the child.";
      });
      const { lead } = leadOf(
        [[spawn("child", "x")], "Done."],
        [{ name: "child", description: "x", workspaceMode: "shared", model: look }],
        { filesystem: files, ...(contextFiles !== undefined && { contextFiles }) },
      );
      await lead.call("Go.");
      expect(system).toContain("# Subagent Context");
      expect(system).not.toContain("You are the lead.");
    }
  });
});

describe("an existing agent as a subagent", () => {
  it("gets the permissions, budget and name of its declaration", async () => {
    const danger = tool({ name: "danger", description: "x", execute: () => "it was run" });
    const brought = new HarnessAgent({
      name: "brought",
      model: scriptedModel([[{ call: "danger" }], "Done."], { by: "prompt" }),
      store: memoryStore(),
      filesystem: false,
      tools: [danger],
    });
    const declared = { description: "x", permissions: { deny: ["danger"] } };
    const { lead, store } = leadOf(
      [[spawn("ready", "x"), spawn("made", "x")], "Done."],
      [
        { ...declared, name: "ready", agent: brought, displayName: "Ready" },
        { ...declared, name: "made", create: () => brought, budget: { iterations: 1 } },
      ],
    );
    await lead.call("Go.", { sessionId: "s" });
    const children = await store.tasks({ parentSessionId: "s" });
    expect(children.map(({ agentName, status }) => [agentName, status]).sort()).toEqual([
      ["Ready", "completed"],
      ["brought", "incomplete"],
    ]);
    for (const { sessionId } of children) {
      expect(await results(store, sessionId)).toEqual(["A rule forbids danger with this input."]);
    }
  });

  it("is rejected with a url that names no agent", () => {
    const make = (more: object) => () =>
      leadOf([], [{ name: "a", description: "x", ...more } as SubagentDeclaration]);
    expect(make({ url: "https://example.org" })).toThrow("does not end in /agents/<name>");
  });
});

describe("task tools", () => {
  it("list background work, wait for it and deliver its result", async () => {
    const gate = Promise.withResolvers<void>();
    const slow: SubagentDeclaration = {
      name: "slow",
      description: "Slow.",
      model: scriptedModel(async () => {
        await gate.promise;
        return "Slowly done.";
      }),
    };
    const { lead, store, model } = leadOf(
      [
        [spawn("slow", "x", { timeout_seconds: 0 }), spawn("slow", "y", { timeout_seconds: 0 })],
        [{ call: "task_list", input: { status_filter: "running" } }],
        (() => {
          return [{ call: "task_wait" }];
        }) as never,
        "Done.",
        "Nothing new.",
      ],
      [slow],
    );
    const run = lead.run("Go.", { sessionId: "s" });
    for await (const event of run) {
      if (event.type === "task.output_item.added" && event.item.type === "tool_call") {
        if (event.item.name === "task_wait") gate.resolve();
      }
    }
    const said = await results(store, "s");
    expect(said[2]?.match(/in_progress, in the background/g)).toHaveLength(2);
    expect(said[3]?.match(/Slowly done\./g)).toHaveLength(2);
    expect(await store.posts({ sessionId: "s" })).toEqual([]);
    await lead.call("And?", { sessionId: "s" });
    expect(JSON.stringify(model.calls.at(-1)?.prompt)).not.toContain("A background task has ended");
    await expectLawful(store);
  });

  it("cancel a task, even a suspended one, and reach only tasks of their own session", async () => {
    const ask = tool({
      name: "ask",
      description: "Asks.",
      needsApproval: true,
      execute: () => "done",
    });
    const store = memoryStore();
    const lead = new HarnessAgent({
      name: "lead",
      store,
      filesystem: false,
      subagents: [
        {
          name: "asker",
          description: "Asks.",
          tools: [ask],
          model: scriptedModel([[{ call: "ask" }], "x"], { by: "prompt" }),
        },
      ],
      model: scriptedModel([
        [spawn("asker", "x", { timeout_seconds: 0 })],
        [{ call: "task_wait" }],
        (request) => {
          const task_id = /task_id: (call_\w+)/.exec(JSON.stringify(request.prompt))?.[1];
          return [
            { call: "task_cancel", input: { task_id } },
            { call: "task_output", input: { task_id: "call_none" } },
          ];
        },
        "Done.",
      ]),
    });
    await lead.call("Go.", { sessionId: "s" });
    const said = await results(store, "s");
    expect(said[1]).toContain("status: suspended");
    expect(said.slice(2).join("\n")).toContain("status: cancelled");
    expect(said.slice(2).join("\n")).toContain('There is no task "call_none" of this session.');
    expect(await lead.approvals({ sessionId: "s" })).toEqual([]);
    await expectLawful(store);
  });
});

it("queues a background message to a busy child", async () => {
  const gate = Promise.withResolvers<void>();
  const { lead, store } = leadOf(
    [
      [spawn("a", "first", { label: "x", timeout_seconds: 0 })],
      [{ call: "agent_send", input: { label: "x", message: "second", timeout_seconds: 0 } }],
      [{ call: "task_list" }],
      "Done.",
    ],
    [{ name: "a", description: "Counts.", model: countingModel(gate.promise) }],
  );
  const run = lead.run("Go.", { sessionId: "s" });
  await run.result();
  const said = await results(store, "s");
  expect(said[1]).toContain("status: accepted");
  expect(said[2]).toMatch(/: in_progress.*\n.*: queued/);
  gate.resolve();
  await run.settled();
  const tasks = await store.tasks({ parentSessionId: "s" });
  expect(tasks.map(({ status, result }) => [status, JSON.stringify(result?.content)])).toEqual([
    ["completed", expect.stringContaining("Reply 1.")],
    ["completed", expect.stringContaining("Reply 2.")],
  ]);
  await expectLawful(store);
});

it("promotes a queued message to the background after its timeout", async () => {
  const gate = Promise.withResolvers<void>();
  const { lead, store } = leadOf(
    [
      [spawn("a", "first", { label: "x", timeout_seconds: 0 })],
      [{ call: "agent_send", input: { label: "x", message: "second", timeout_seconds: 1 } }],
      "Done.",
    ],
    [{ name: "a", description: "Counts.", model: countingModel(gate.promise) }],
  );
  const run = lead.run("Go.", { sessionId: "s" });
  await run.result();
  expect((await results(store, "s"))[1]).toContain("status: timeout_promoted");
  gate.resolve();
  await run.settled();
  const tasks = await store.tasks({ parentSessionId: "s" });
  expect(tasks.map(({ status, mode }) => [status, mode])).toEqual([
    ["completed", "background"],
    ["completed", "background"],
  ]);
  expect(await store.posts({ sessionId: "s" })).toHaveLength(2);
  await expectLawful(store);
});

it("drops a factory's agent after ten idle minutes and creates it again with its session", async () => {
  const clock = new ManualClock();
  const store = memoryStore();
  let made = 0;
  const create = () => {
    made += 1;
    return new HarnessAgent({ name: "a", model: countingModel(), store, filesystem: false });
  };
  const send = { call: "agent_send", input: { label: "x", message: "more" } };
  const { lead } = leadOf(
    [[spawn("a", "go", { label: "x" })], "One.", [send], "Two.", [send], "Three."],
    [{ name: "a", description: "Counts.", create }],
    { clock, store },
  );
  const said = async () => (await results(store, "s")).map((text) => /Reply \d/.exec(text)?.[0]);
  await lead.call("Go.", { sessionId: "s" });
  await lead.call("On.", { sessionId: "s" });
  expect(made).toBe(1);
  await clock.advance(10 * 60_000 + 1);
  await lead.call("On.", { sessionId: "s" });
  expect(made).toBe(2);
  expect(await said()).toEqual(["Reply 1", "Reply 2", "Reply 3"]);
  await expectLawful(store);
});
