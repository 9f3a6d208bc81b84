import { describe, expect, it } from "vitest";
import { z } from "zod";
import { agentTool, ReActAgent, type ReActAgentOptions, tool } from "../../src/agent/index.ts";
import { RivuletError } from "../../src/base/error.ts";
import type { Agent, AgentEvent, Run } from "../../src/contract/agent.ts";
import { HarnessAgent } from "../../src/harness/index.ts";
import type { TaskEvent } from "../../src/protocol/event.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { scriptedModel } from "../../src/testing.ts";
import { collect } from "../agent/support/collect.ts";
import { comparable, serveAgents } from "./support/serving.ts";

/** The behaviour of an Agent as a record that is the same for a local and a remote agent. */
interface Scenario {
  readonly title: string;
  readonly agent: () => Agent;
  readonly play: (agent: Agent) => Promise<unknown>;
}

type Script = Parameters<typeof scriptedModel>[0];
const model = (script: Script) => scriptedModel(script, { by: "prompt" });
const react = (script: Script, more: Partial<ReActAgentOptions> = {}) =>
  new ReActAgent({
    name: "lead",
    store: memoryStore({ flushMs: 0 }),
    model: model(script),
    ...more,
  });

const sessionId = "s-1";
const echo = tool({
  name: "echo",
  description: "Repeats.",
  execute(_, { emit, progress }) {
    emit("one ");
    progress({ progress: 1, total: 2, message: "half" });
    emit("two");
    return "for the model";
  },
});
const remove = tool({
  name: "remove",
  description: "Deletes a file.",
  input: z.object({ path: z.string() }),
  needsApproval: true,
  execute: ({ path }) => `Removed ${path}.`,
});
const outside = tool({ name: "outside", description: "Runs elsewhere.", input: z.object({}) });
const waits = tool({
  name: "waits",
  description: "Waits for its end.",
  execute: (_, { signal, emit }) => {
    emit("waiting");
    return new Promise<string>((resolve) => {
      signal.addEventListener("abort", () => resolve("stopped"), { once: true });
    });
  },
});

const child = (script: Script, more: Partial<ReActAgentOptions> = {}) =>
  agentTool(new ReActAgent({ name: "helper", model: model(script), ...more }));
const callHelper = { call: "helper", input: { prompt: "x" } };

const nested = () =>
  react(
    [[{ thinking: "Hm." }, "Wait. ", callHelper, { call: "echo" }], { text: ["The ", "end."] }],
    {
      tools: [
        echo,
        child([["Ask. ", { call: "deep", input: { prompt: "y" } }], { text: ["Hel", "ped."] }], {
          tools: [
            agentTool(new ReActAgent({ name: "deep", model: model([{ text: ["De", "ep."] }]) })),
          ],
        }),
      ],
    },
  );

const removing = () =>
  react([["Sure. ", { call: "remove", input: { path: "a" } }, { call: "echo" }], "Done."], {
    tools: [remove, echo],
  });

const background = () =>
  new HarnessAgent({
    name: "lead",
    store: memoryStore({ flushMs: 0 }),
    filesystem: false,
    subagents: [{ name: "helper", description: "Helps." }],
    model: scriptedModel(({ tools, assistantCount }) => {
      if (!tools?.some(({ name }) => name === "agent_spawn"))
        return [{ delayMs: 20 }, { text: ["In ", "the back."] }];
      const input = { agent_id: "helper", task: "Work.", timeout_seconds: 0 };
      return assistantCount > 0 ? "Started." : { call: "agent_spawn", input };
    }),
  });

/** The error that a call throws. */
async function thrown(work: () => unknown): Promise<unknown> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof RivuletError)) throw error;
    const { code, retryable, message } = error;
    return { code, retryable, message };
  }
  throw new Error("nothing was thrown");
}

/** The events up to the error that ends an iteration. */
async function streamed<T>(events: AsyncIterable<T>) {
  const list: T[] = [];
  try {
    for await (const event of events) list.push(event);
  } catch (error) {
    return { list, error: await thrown(() => Promise.reject(error)) };
  }
  return { list };
}

/** Events without what only the wire shortens or the clock decides. */
const plain = (events: readonly TaskEvent[]) =>
  events.map(({ source, ...event }: TaskEvent & { source?: { path: string } }) => ({
    ...JSON.parse(JSON.stringify(event, (key, value) => (/_at$/.test(key) ? 0 : value))),
    path: source?.path,
  }));

async function untilText(run: Run<unknown>, text: string): Promise<void> {
  for await (const event of run.events({ after: -1, until: "tree" }))
    if (event.type === "task.text.delta" && event.delta === text) return;
}

const scenarios: readonly Scenario[] = [
  {
    title: "streams a tree of agents",
    agent: nested,
    play: (agent) => collect(agent.stream("Go.", { sessionId })),
  },
  {
    title: "streams accumulated text",
    agent: nested,
    play: (agent) => collect(agent.stream("Go.", { sessionId, incremental: false })),
  },
  {
    title: "streams whole messages of some types",
    agent: nested,
    play: (agent) =>
      collect(
        agent.stream("Go.", { sessionId, chunks: false, types: ["reasoning", "agent_result"] }),
      ),
  },
  {
    title: "iterates task events, then gives the reply",
    agent: nested,
    async play(agent) {
      const run = agent.run("Go.", { sessionId });
      const events = plain(await collect(run));
      const again = plain(await collect(run.events({ after: 4 })));
      await run.settled();
      return { events, again, reply: await run.result(), task: await run.task };
    },
  },
  {
    title: "gives the reply without an iteration",
    agent: nested,
    play: (agent) => agent.call("Go.", { sessionId }),
  },
  {
    title: "remembers the session",
    agent: () => react(["One.", "Two."]),
    async play(agent) {
      const first = await agent.call("A", { sessionId });
      const second = await agent.call([{ role: "user", content: "B" }], { sessionId });
      return { first, second, differ: first.task.taskId !== second.task.taskId };
    },
  },
  {
    title: "suspends for an approval and continues with the answer",
    agent: removing,
    async play(agent) {
      const asked = await agent.call("Clean up.", { sessionId });
      const listed = await agent.approvals({ sessionId });
      const answers = asked.approvals.map((approval) => approval.approve());
      const events = await collect(agent.stream(answers, { sessionId }));
      return { asked, listed, answers, events, left: await agent.approvals({ sessionId }) };
    },
  },
  {
    title: "denies, edits and answers",
    agent: () =>
      react(
        [
          [
            { call: "remove", input: { path: "a" } },
            { call: "remove", input: { path: "b" } },
            { call: "outside" },
          ],
          "Done.",
        ],
        { tools: [remove, outside] },
      ),
    async play(agent) {
      const asked = await agent.call("Go.", { sessionId });
      const [a, b, c] = asked.approvals;
      const given = [a?.deny("No."), b?.edit({ path: "c" }), c?.answer("Result.")];
      const answers = given.filter((answer) => answer !== undefined);
      const run = agent.run(answers, { sessionId });
      const events = plain(await collect(run));
      return { asked, events, reply: await run.result() };
    },
  },
  {
    title: "takes the answer to a grandchild's approval",
    agent: () =>
      react([callHelper, "End."], {
        tools: [child([{ call: "remove", input: { path: "deep" } }, "Ok."], { tools: [remove] })],
      }),
    async play(agent) {
      const first = await collect(agent.stream("Go.", { sessionId }));
      const approvals = await agent.approvals({ sessionId });
      const reply = await agent.call(approvals.map((approval) => approval.approve()));
      return { first, approvals, reply };
    },
  },
  {
    title: "refuses text while the session is suspended, or denies what waits",
    agent: removing,
    async play(agent) {
      await agent.call("Clean up.", { sessionId });
      const refused = await thrown(() => agent.call("And?", { sessionId }));
      return { refused, reply: await agent.call("Stop.", { sessionId, onSuspended: "deny" }) };
    },
  },
  {
    title: "returns structured output",
    agent: () => react([{ call: "generate_response", input: { city: "Paris" } }]),
    play: (agent) =>
      agent.call("Where?", {
        sessionId,
        output: z.object({ city: z.string().transform((city) => city.toUpperCase()) }),
      }),
  },
  {
    title: "fails with the error of the model",
    agent: () => react([{ error: new Error("broken") }], { modelExecution: { maxAttempts: 1 } }),
    async play(agent) {
      const call = await thrown(() => agent.call("Go.", { sessionId }));
      const stream = await streamed(agent.stream("Go.", { sessionId: "s-2" }));
      const run = agent.run("Go.", { sessionId: "s-3" });
      const events = await streamed(run);
      return { call, stream, events: { ...events, list: plain(events.list) } };
    },
  },
  {
    title: "cancels",
    agent: () => react([["Part. ", { call: "waits" }], "Never."], { tools: [waits] }),
    async play(agent) {
      const run = agent.run("Go.", { sessionId });
      await untilText(run, "waiting");
      await run.cancel("enough");
      const { generateReason, text } = await run.result();
      return { generateReason, text };
    },
  },
  {
    title: "cancels with a signal",
    agent: () => react([{ call: "waits" }, "Never."], { tools: [waits] }),
    async play(agent) {
      const controller = new AbortController();
      const run = agent.run("Go.", { sessionId, signal: controller.signal });
      await untilText(run, "waiting");
      controller.abort(new Error("stop"));
      const { generateReason } = await run.result();
      return { generateReason };
    },
  },
  {
    title: "steers",
    agent: () =>
      react(
        ({ prompt }) => {
          const text = JSON.stringify(prompt);
          if (text.includes("Be brief.")) return "Ok.";
          return { call: "pause" };
        },
        {
          maxIters: 1_000_000,
          tools: [
            tool({
              name: "pause",
              description: "Waits.",
              execute: async (_, { callId }) => {
                await new Promise((resolve) => setTimeout(resolve, 2));
                return callId;
              },
            }),
          ],
        },
      ),
    async play(agent) {
      const run = agent.run("Go.", { sessionId });
      await run.task;
      await run.steer("Be brief.");
      const events = await collect(run);
      const hints = events.filter(({ type }) => type === "task.hint.added");
      return { reply: (await run.result()).text, hints: hints.length };
    },
  },
  {
    title: "refuses a busy session",
    agent: () => react([{ call: "waits" }, "Never."], { tools: [waits] }),
    async play(agent) {
      const run = agent.run("Go.", { sessionId });
      await untilText(run, "waiting");
      const busy = await thrown(() => agent.call("Me too.", { sessionId, onBusy: "fail" }));
      await run.cancel();
      return busy;
    },
  },
  {
    title: "attaches to a task and to a session",
    agent: nested,
    async play(agent) {
      const reply = await agent.call("Go.", { sessionId });
      const { taskId } = reply.task;
      const bySession = agent.attach?.({ sessionId }) as Run<unknown>;
      const byTask = agent.attach?.({ taskId }, { after: 5 }) as Run<unknown>;
      return {
        events: plain(await collect(bySession)),
        reply: await bySession.result(),
        rest: plain(await collect(byTask)),
        same: await byTask.result(),
        unknown: await thrown(() => agent.attach?.({ taskId: "task_none" }).result()),
        unknownSession: await thrown(() => agent.attach?.({ sessionId: "none" }).result()),
      };
    },
  },
  {
    title: "attaches to a suspended task",
    agent: removing,
    async play(agent) {
      const asked = await agent.call("Clean up.", { sessionId });
      const run = agent.attach?.({ sessionId }) as Run<unknown>;
      const events = await collect(run);
      const last = events.at(-1) as TaskEvent & { sequence_number: number };
      const rest = agent.attach?.({ sessionId }, { after: last.sequence_number });
      await run.settled();
      return {
        events: plain(events),
        rest: await collect(rest as Run<unknown>),
        same: (await run.result()).approvals.length === asked.approvals.length,
      };
    },
  },
  {
    title: "ends at its limits",
    agent: () =>
      react([{ call: "echo" }, { call: "echo" }, "Sum."], { tools: [echo], maxIters: 2 }),
    async play(agent) {
      const limited = await agent.call("Go.", { sessionId });
      const spent = await agent.call("Go.", { sessionId: "s-2", budget: { iterations: 1 } });
      return { limited, spent };
    },
  },
  {
    title: "stops where a hook asks for it",
    agent: () =>
      react([["Plan. ", { call: "echo" }], "Done."], {
        tools: [echo],
        hooks: [
          {
            name: "hook",
            postReasoning: (_, message) =>
              message.content.length > 1 ? { stop: true } : undefined,
          },
        ],
      }),
    async play(agent) {
      const stopped = await agent.call("Go.", { sessionId });
      return { stopped, reply: await agent.call(undefined, { sessionId }) };
    },
  },
  {
    title: "replies with what a hook returns",
    agent: () =>
      react(["Done."], {
        hooks: [
          {
            name: "hook",
            postCall: (_, reply) => ({ ...reply, content: [{ type: "text", text: "Edited." }] }),
          },
        ],
      }),
    async play(agent) {
      const events = await collect(agent.stream("Go.", { sessionId }));
      return { events, reply: await agent.call("Again.", { sessionId: "s-2" }) };
    },
  },
  {
    title: "follows background work to its end",
    agent: background,
    async play(agent) {
      const rooted = await collect(agent.run("Go.", { sessionId: "s-2" }));
      const events: AgentEvent[] = [];
      for await (const event of agent.stream("Go.", { sessionId, until: "tree" }))
        events.push(event);
      const of = (path?: string) =>
        events
          .filter(({ source }) => source?.path === path)
          .map(({ type, text }) => ({ type, text }));
      return { lead: of(), helper: of(`${sessionId}/helper`), root: rooted.length > 0 };
    },
  },
  {
    title: "rejects bad calls",
    agent: () => react(["Never."]),
    async play(agent) {
      const call = (options: object) => thrown(() => agent.call("Go.", options as never));
      return [
        await call({ sesionId: "x" }),
        await call({ sessionId: 5 }),
        await call({ sessionId: "a/b" }),
        await call({ until: "never" }),
        await call({ budget: { tokens: -1 } }),
        await call({ onBusy: "wait" }),
        await thrown(() => agent.call(undefined, { sessionId })),
        await thrown(() => agent.call([] as never, { sessionId: "none" })),
        await thrown(() => agent.call({ role: "user", content: 5 } as never)),
        await thrown(() => agent.approvals({ sessionId: "none" })),
        await thrown(() => collect(agent.stream("Go.", { types: ["resoning"] as never }))),
      ];
    },
  },
];

describe.each(scenarios)("any agent $title", ({ agent, play }) => {
  it("locally and remotely alike", async () => {
    const local = await play(agent());
    await using served = await serveAgents([agent()]);
    const remote = await play(served.remote.agent("lead"));
    expect(comparable(remote)).toEqual(comparable(local));
  });
});
