import { describe, expect, it } from "vitest";
import { z } from "zod";
import { type Message, textOf } from "../../src/contract/message.ts";
import {
  agentTool,
  type Hook,
  memoryStore,
  ReActAgent,
  type Reply,
  Toolkit,
  tool,
} from "../../src/index.ts";
import type { TaskEvent } from "../../src/protocol.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { type ScriptedRequest, scriptedModel } from "../../src/testing.ts";
import { collect } from "./support/collect.ts";
import { expectLawful } from "./support/laws.ts";
import { turns } from "./support/tools.ts";

const sessions = isDeep ? 2_000 : 200;
const number = z.object({ n: z.number() });

/** What the user said first: the number of the session. */
function numberIn({ prompt }: ScriptedRequest): number {
  const said = prompt.find(({ role }) => role === "user");
  return Number(/\d+/.exec(JSON.stringify(said?.content))?.[0]);
}

describe("200 sessions on one frozen agent", () => {
  const counting: Hook = {
    name: "counting",
    preReasoning({ state }) {
      state.set("reasonings", Number(state.get("reasonings") ?? 0) + 1);
    },
    postCall({ state, task }, reply) {
      if (reply.generateReason === "model_stop") ended.set(task.sessionId, state.get("reasonings"));
    },
  };
  const ended = new Map<string, unknown>();
  const store = memoryStore({ retention: { logs: { maxBytes: Infinity } } });
  const helper = new ReActAgent({
    name: "helper",
    model: scriptedModel((request) => `helped ${numberIn(request)}`),
  });
  const agent = new ReActAgent({
    name: "lead",
    store,
    hooks: [counting],
    toolkit: new Toolkit({
      tools: [
        tool({
          name: "work",
          description: "Works.",
          input: number,
          async execute({ n }, { progress, emit }) {
            for (let step = 0; step < 3; step++) {
              progress({ progress: n, message: `session ${n}` });
              emit(`${n} `);
              await turns(n % 3);
            }
            return `worked ${n}`;
          },
        }),
        tool({
          name: "ask",
          description: "Asks.",
          input: number,
          needsApproval: true,
          execute: ({ n }) => `asked ${n}`,
        }),
        agentTool(helper),
      ],
      groups: {
        more: {
          description: "More.",
          tools: [tool({ name: "extra", description: "Is extra.", execute: () => "extra" })],
        },
      },
    }),
    model: scriptedModel((request) => {
      const n = numberIn(request);
      const groups = n % 2 === 0 ? ["more"] : [];
      const script = [
        [{ call: "reset_equipped_tools", input: { groups } }],
        [
          { call: "extra" },
          { call: "work", input: { n } },
          { call: "helper", input: { prompt: `Help ${n}.` } },
          ...(n % 3 === 0 ? [{ call: "ask", input: { n } }] : []),
        ],
        { text: ["done", ` ${n}`] },
      ];
      return script[request.assistantCount] ?? "too much";
    }),
  });

  it("share no events, progress, groups, approvals and hook state", async () => {
    expect(Object.isFrozen(agent)).toBe(true);
    const numbers = Array.from({ length: sessions }, (_, n) => n);
    const runs = numbers.map((n) => agent.run(`Session ${n}`, { sessionId: `s${n}` }));
    const logs = await Promise.all(runs.map(collect));
    const replies = await Promise.all(runs.map((run) => run.result()));
    for (const n of numbers) {
      const events = logs[n] as readonly TaskEvent[];
      const reply = replies[n] as Reply;
      expect(events.every((event) => belongsTo(event, reply, n))).toBe(true);
      expect(progressOf(events)).toEqual(Array(3).fill(n));
      expect(reply.approvals.map(({ call }) => call.input)).toEqual(n % 3 === 0 ? [{ n }] : []);
    }
    const finals = await Promise.all(
      numbers.map((n) => {
        const { approvals } = replies[n] as Reply;
        return approvals.length === 0
          ? (replies[n] as Reply)
          : agent.call(approvals.map((one) => one.approve()));
      }),
    );
    for (const n of numbers) {
      expect(finals[n]?.text).toBe(`done ${n}`);
      expect(finals[n]?.task).toEqual(replies[n]?.task);
    }
    for (const n of numbers) await expectSession(n, finals[n] as Reply);
  });

  async function expectSession(n: number, reply: Reply) {
    const messages = await store.session(`s${n}`);
    expect(resultsOf(messages)).toEqual({
      reset_equipped_tools: expect.stringContaining(n % 2 === 0 ? "more" : "No group"),
      extra: n % 2 === 0 ? "extra" : expect.stringContaining("not active"),
      work: `worked ${n}`,
      helper: `helped ${n}`,
      ...(n % 3 === 0 && { ask: `asked ${n}` }),
    });
    expect(ended.get(`s${n}`)).toBe(n % 3 === 0 ? 1 : 3); // an answer is a run of its own
    await expectLawful(store, reply.task.rootTaskId, `session ${n}`);
  }
});

/** Whether an event is of this session's tree, and says nothing of another session. */
function belongsTo(event: TaskEvent, { task }: Reply, n: number): boolean {
  const { source } = event as { source?: { path?: string } };
  if (event.task_id !== task.taskId && source?.path !== `s${n}/helper`) return false;
  const others = JSON.stringify(event).match(/(?:session|helped|worked|Session|Help) \d+/g) ?? [];
  return others.every((words) => words.endsWith(` ${n}`));
}

function progressOf(events: readonly TaskEvent[]): readonly number[] {
  return events.flatMap((event) =>
    event.type === "task.tool_result.progress" ? [event.progress] : [],
  );
}

function resultsOf(messages: readonly Message[]): Readonly<Record<string, string>> {
  const blocks = messages.flatMap(({ content }) => content);
  return Object.fromEntries(
    blocks.flatMap((block) =>
      block.type === "tool_result" ? [[block.name, textOf(block.output)]] : [],
    ),
  );
}

describe("one session", () => {
  /** An agent whose replies wait until they are let go, in order. */
  function waitingAgent() {
    const started: string[] = [];
    const gates: (() => void)[] = [];
    const model = scriptedModel(async (request) => {
      const said = request.prompt.findLast(({ role }) => role === "user");
      started.push(/"text":"(.*?)"/.exec(JSON.stringify(said))?.[1] ?? "");
      await new Promise<void>((resolve) => gates.push(resolve));
      return "ok";
    });
    const store = memoryStore();
    const agent = new ReActAgent({ name: "lead", model, store });
    /** Resolves when so many replies have begun, and none follows them at once. */
    async function begun(count: number): Promise<void> {
      while (started.length < count) await turns(1);
      await turns(5);
    }
    return { agent, store, started, begun, release: () => gates.shift()?.() };
  }

  it("runs one task at a time, in the order of the calls", async () => {
    const { agent, started, begun, release } = waitingAgent();
    const calls = ["one", "two", "three"].map((text) => agent.call(text, { sessionId: "s" }));
    for (const count of [1, 2, 3]) {
      await begun(count);
      expect(started).toEqual(["one", "two", "three"].slice(0, count));
      release();
    }
    const replies = await Promise.all(calls);
    expect(new Set(replies.map(({ task }) => task.taskId)).size).toBe(3);
  });

  it('throws agent_busy at once with onBusy: "fail"', async () => {
    const { agent, store, begun, release } = waitingAgent();
    const first = agent.call("one", { sessionId: "s" });
    await begun(1);
    const busy = agent.call("two", { sessionId: "s", onBusy: "fail" });
    await expect(busy).rejects.toMatchObject({ code: "agent_busy", retryable: true });
    expect(await store.tasks({ sessionId: "s" })).toHaveLength(1);
    const other = agent.call("three", { sessionId: "other", onBusy: "fail" });
    await begun(2);
    release();
    release();
    expect((await Promise.all([first, other])).map(({ text }) => text)).toEqual(["ok", "ok"]);
  });

  it("is free as soon as the caller sees the end, after any outcome", async () => {
    const model = scriptedModel([
      "fine",
      { error: Object.assign(new Error("no"), { statusCode: 401 }) },
      ["half", { hang: true }],
      "fine again",
    ]);
    const agent = new ReActAgent({ name: "lead", model });
    const options = { sessionId: "s", onBusy: "fail" } as const;
    expect((await agent.call("one", options)).text).toBe("fine");
    await expect(agent.call("two", options)).rejects.toMatchObject({ code: "unauthorized" });
    const run = agent.run("three", options);
    for await (const event of run) if (event.type === "task.text.delta") void run.cancel();
    const last = agent.run("four", options); // the iteration above has ended: the slot is free
    for await (const _ of last);
    expect(
      (
        await agent
          .run("five", options)
          .result()
          .catch((error) => error)
      ).code,
    ).toBe("script_exhausted");
    expect((await last.result()).text).toBe("fine again");
  });

  it("keeps the order of queued calls when one is cancelled", async () => {
    const { agent, started, begun, release } = waitingAgent();
    const stop = new AbortController();
    const first = agent.call("one", { sessionId: "s" });
    const second = agent.call("two", { sessionId: "s", signal: stop.signal });
    const rejected = expect(second).rejects.toMatchObject({ code: "cancelled" });
    await begun(1);
    stop.abort();
    await rejected;
    const third = agent.call("three", { sessionId: "s" });
    await begun(1);
    expect(started).toEqual(["one"]);
    release();
    await first;
    await begun(2);
    release();
    await third;
    expect(started).toEqual(["one", "three"]);
  });

  it("keeps messages over several tasks and numbers iterations per task", async () => {
    const store = memoryStore();
    const model = scriptedModel(["one", "two"]);
    const agent = new ReActAgent({ name: "lead", model, store });
    const first = await agent.call("a", { sessionId: "s" });
    const second = await agent.call("b", { sessionId: "s" });
    expect(second.task.taskId).not.toBe(first.task.taskId);
    expect(JSON.stringify(model.calls[1]?.prompt)).toContain("one");
    const messages = await store.session("s");
    expect(messages.map(({ metadata }) => metadata)).toMatchObject([
      { input: true, taskId: first.task.taskId },
      { iteration: 1, taskId: first.task.taskId },
      { input: true, taskId: second.task.taskId },
      { iteration: 1, taskId: second.task.taskId },
    ]);
  });
});

describe("session ids", () => {
  const agent = new ReActAgent({ name: "lead", model: scriptedModel(() => "ok") });

  it.each(["", "a/b", "x".repeat(129)])("rejects %j", async (sessionId) => {
    const code = "invalid_session_id";
    await expect(agent.call("hi", { sessionId })).rejects.toMatchObject({ code });
  });

  it.each(["a", "x".repeat(128), "ä b:c", "__proto__"])("accepts %j", async (sessionId) => {
    expect((await agent.call("hi", { sessionId })).task.sessionId).toBe(sessionId);
  });

  it("are generated when missing", async () => {
    const [one, other] = await Promise.all([agent.call("hi"), agent.call("hi")]);
    expect(one.task.sessionId).toMatch(/^sess_[0-9A-Z]{26}$/);
    expect(other.task.sessionId).not.toBe(one.task.sessionId);
  });
});
