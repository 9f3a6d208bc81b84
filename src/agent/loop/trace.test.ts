import { setImmediate } from "node:timers/promises";
import type { Span, Tracer } from "@opentelemetry/api";
import {
  context,
  ProxyTracer,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  AlwaysOffSampler,
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { afterEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { createIds } from "../../base/id.ts";
import type { TaskEvent } from "../../protocol/event.ts";
import { ManualClock, scriptedModel } from "../../testing.ts";
import { agentTool } from "../agent-tool.ts";
import { ReActAgent } from "../react-agent.ts";
import { tool } from "../tool/tool.ts";

const exporter = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
const tracer = provider.getTracer("test");

afterEach(() => {
  exporter.reset();
  vi.restoreAllMocks();
  trace.disable();
  context.disable();
});

const named = (name: string) => exporter.getFinishedSpans().filter((span) => span.name === name);
const only = (name: string): ReadableSpan => {
  const [span, ...others] = named(name);
  if (span === undefined || others.length > 0) throw new Error(`Not exactly one: ${name}`);
  return span;
};
const parentOf = (span: ReadableSpan) =>
  exporter
    .getFinishedSpans()
    .find((other) => other.spanContext().spanId === span.parentSpanContext?.spanId);
const pathOf = (span: ReadableSpan): string => {
  const parent = parentOf(span);
  if (!parent && span.parentSpanContext) throw new Error(`${span.name}: its parent never ended.`);
  return parent ? `${pathOf(parent)} > ${span.name}` : span.name;
};
/** The path of each span, sorted, because they end in any order. */
const paths = () => exporter.getFinishedSpans().map(pathOf).sort();

/** A tool that returns once `count` of its calls run at the same time. */
function meeting(name: string, count: number) {
  const all = Promise.withResolvers<void>();
  let arrived = 0;
  return tool({
    name,
    description: "Meets.",
    input: z.object({}),
    async execute() {
      if (++arrived === count) all.resolve();
      await all.promise;
      return "met";
    },
  });
}

const echo = tool({
  name: "echo",
  description: "Echoes.",
  input: z.object({ text: z.string() }),
  execute: ({ text }) => `heard ${text}`,
});
const callEcho = [{ call: "echo", input: { text: "x" } }];

describe("nesting, with no context manager", () => {
  it("nests parallel tools and children correctly", async () => {
    const meet = meeting("meet", 3);
    const helper = (name: string) =>
      new ReActAgent({ name, model: scriptedModel([[{ call: "meet" }], "done"]), tools: [meet] });
    const lead = new ReActAgent({
      name: "lead",
      tracer,
      model: scriptedModel([
        [
          { call: "one", input: { prompt: "go" } },
          { call: "meet" },
          { call: "two", input: { prompt: "go" } },
        ],
        "all done",
      ]),
      tools: [agentTool(helper("one")), agentTool(helper("two")), meet],
    });
    await lead.call("go");
    const child = (name: string) => [
      `invoke_agent lead > execute_tool ${name}`,
      `invoke_agent lead > execute_tool ${name} > invoke_agent ${name}`,
      `invoke_agent lead > execute_tool ${name} > invoke_agent ${name} > chat scripted`,
      `invoke_agent lead > execute_tool ${name} > invoke_agent ${name} > chat scripted`,
      `invoke_agent lead > execute_tool ${name} > invoke_agent ${name} > execute_tool meet`,
    ];
    expect(paths()).toEqual(
      [
        "invoke_agent lead",
        "invoke_agent lead > chat scripted",
        "invoke_agent lead > chat scripted",
        "invoke_agent lead > execute_tool meet",
        ...child("one"),
        ...child("two"),
      ].sort(),
    );
    const traces = exporter.getFinishedSpans().map((span) => span.spanContext().traceId);
    expect(new Set(traces).size).toBe(1);
  });

  it("puts each run of one agent under its own call", async () => {
    const helper = new ReActAgent({
      name: "helper",
      model: scriptedModel([[{ call: "meet" }], "done"], { by: "prompt" }),
      tools: [meeting("meet", 3)],
    });
    const ask = { call: "helper", input: { prompt: "go" } };
    const model = scriptedModel([[ask, ask, ask], "done"]);
    await new ReActAgent({ name: "lead", tracer, model, tools: [agentTool(helper)] }).call("go");
    const children = named("invoke_agent helper");
    expect(children).toHaveLength(3);
    for (const child of children) {
      const taskId = child.attributes["rivulet.task.id"];
      expect(parentOf(child)?.attributes["gen_ai.tool.call.id"]).toBe(taskId);
    }
    for (const call of named("execute_tool meet")) {
      const taskId = call.attributes["rivulet.task.id"];
      expect(parentOf(call)?.attributes["rivulet.task.id"]).toBe(taskId);
    }
  });

  it("continues in a child that was answered", async () => {
    const careful = tool({ ...echoLike("rm"), needsApproval: true });
    const script = [[{ call: "rm", input: { text: "x" } }], "removed"];
    const helper = new ReActAgent({
      name: "helper",
      model: scriptedModel(script),
      tools: [careful],
    });
    const lead = new ReActAgent({
      name: "lead",
      tracer,
      model: scriptedModel([[{ call: "helper", input: { prompt: "go" } }], "done"]),
      tools: [agentTool(helper)],
    });
    const { approvals, task } = await lead.call("go", { sessionId: "s1" });
    expect(paths()).toEqual([
      "invoke_agent lead",
      "invoke_agent lead > chat scripted",
      "invoke_agent lead > execute_tool helper",
      "invoke_agent lead > execute_tool helper > invoke_agent helper",
      "invoke_agent lead > execute_tool helper > invoke_agent helper > chat scripted",
    ]);
    expect(only("invoke_agent lead").attributes["rivulet.task.status"]).toBe("suspended");
    expect(only("invoke_agent helper").attributes["rivulet.task.status"]).toBe("suspended");
    expect(only("execute_tool helper").attributes["rivulet.tool.state"]).toBe("suspended");
    expect(exporter.getFinishedSpans().map(({ status }) => status.code)).not.toContain(
      SpanStatusCode.ERROR,
    );

    exporter.reset();
    await lead.call(
      approvals.map((approval) => approval.approve()),
      { sessionId: "s1" },
    );
    expect(paths()).toEqual([
      "invoke_agent lead",
      "invoke_agent lead > chat scripted",
      "invoke_agent lead > execute_tool helper",
      "invoke_agent lead > execute_tool helper > invoke_agent helper",
      "invoke_agent lead > execute_tool helper > invoke_agent helper > chat scripted",
      "invoke_agent lead > execute_tool helper > invoke_agent helper > execute_tool rm",
    ]);
    expect(only("invoke_agent lead").attributes).toMatchObject({
      "rivulet.task.id": task.taskId,
      "rivulet.task.status": "completed",
    });
  });
});

describe("with a context manager", () => {
  const withManager = () =>
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());

  it("nests inside the user's spans, and the user's spans inside its own", async () => {
    withManager();
    trace.setGlobalTracerProvider(provider);
    const mine = (name: string) => tracer.startActiveSpan(name, (span) => span.end());
    const busy = (name: string) =>
      tool({
        name,
        description: "Traces.",
        input: z.object({}),
        async execute() {
          await setImmediate();
          mine(`inside ${name}`);
          return "ok";
        },
      });
    const traced = () => {
      mine("inside chat");
      return "done";
    };
    const script = [[{ call: "a" }, { call: "b" }], traced];
    const agent = new ReActAgent({
      name: "lead",
      model: scriptedModel(script),
      tools: [busy("a"), busy("b")],
      hooks: [{ name: "traced", preCall: () => mine("inside hook") }],
    });
    await tracer.startActiveSpan("request", (span) =>
      agent.call("go").finally(() => {
        span.end();
      }),
    );
    expect(paths()).toEqual([
      "request",
      "request > invoke_agent lead",
      "request > invoke_agent lead > chat scripted",
      "request > invoke_agent lead > chat scripted",
      "request > invoke_agent lead > chat scripted > inside chat",
      "request > invoke_agent lead > execute_tool a",
      "request > invoke_agent lead > execute_tool a > inside a",
      "request > invoke_agent lead > execute_tool b",
      "request > invoke_agent lead > execute_tool b > inside b",
      "request > invoke_agent lead > inside hook",
    ]);
  });

  it("passes on the context of an unsampled trace", async () => {
    withManager();
    const unsampled = new BasicTracerProvider({ sampler: new AlwaysOffSampler() });
    let active: Span | undefined;
    const look = tool({
      ...echoLike("look"),
      execute: () => {
        active = trace.getActiveSpan();
        return "seen";
      },
    });
    const model = scriptedModel([[{ call: "look", input: { text: "x" } }], "done"]);
    const own = unsampled.getTracer("unsampled");
    await new ReActAgent({ name: "lead", tracer: own, model, tools: [look] }).call("go");
    expect(active?.isRecording()).toBe(false);
    expect(active?.spanContext().traceId).toMatch(/[1-9a-f]/);
  });
});

describe("attributes", () => {
  it("has ids, model, usage and finish reason, but no content", async () => {
    const secret = "xyzzy";
    const agent = new ReActAgent({
      name: "lead",
      agentId: "lead-agent",
      description: "Leads.",
      tracer,
      systemPrompt: `system ${secret}`,
      model: scriptedModel(
        [
          [
            { thinking: `think ${secret}` },
            { call: "echo", input: { text: `argument ${secret}` } },
            {
              usage: {
                inputTokens: 100,
                cachedInputTokens: 40,
                outputTokens: 20,
                reasoningTokens: 5,
              },
            },
          ],
          [`answer ${secret}`, { usage: { inputTokens: 130, outputTokens: 7 } }],
        ],
        { modelId: "test-1" },
      ),
      tools: [echo],
    });
    const { task } = await agent.call(`prompt ${secret}`, { sessionId: "s1" });
    const common = {
      "gen_ai.agent.id": "lead-agent",
      "gen_ai.agent.name": "lead",
      "gen_ai.conversation.id": "s1",
      "rivulet.task.id": task.taskId,
      "rivulet.task.root_id": task.taskId,
    };
    const root = only("invoke_agent lead");
    expect(root.kind).toBe(SpanKind.INTERNAL);
    expect(root.attributes).toEqual({
      ...common,
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.description": "Leads.",
      "rivulet.task.status": "completed",
    });
    const chat = {
      ...common,
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "scripted",
      "gen_ai.request.model": "test-1",
      "gen_ai.request.stream": true,
      "gen_ai.response.model": "test-1",
    };
    const [first, second] = named("chat test-1");
    expect(first?.kind).toBe(SpanKind.CLIENT);
    expect(first?.attributes).toEqual({
      ...chat,
      "gen_ai.response.finish_reasons": ["tool_calls"],
      "gen_ai.usage.input_tokens": 100,
      "gen_ai.usage.output_tokens": 20,
      "gen_ai.usage.cache_read.input_tokens": 40,
      "gen_ai.usage.reasoning.output_tokens": 5,
    });
    expect(second?.attributes).toMatchObject({
      ...chat,
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.usage.input_tokens": 130,
      "gen_ai.usage.output_tokens": 7,
    });
    const call = only("execute_tool echo");
    expect(call.kind).toBe(SpanKind.INTERNAL);
    expect(call.attributes).toEqual({
      ...common,
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "echo",
      "gen_ai.tool.call.id": expect.stringMatching(/^call_/),
      "rivulet.tool.state": "success",
    });
    for (const { attributes, events, status } of exporter.getFinishedSpans()) {
      expect(status.code).toBe(SpanStatusCode.UNSET);
      expect(JSON.stringify([attributes, events])).not.toContain(secret);
    }
  });

  it("distinguishes a child from its root", async () => {
    const helper = new ReActAgent({ name: "helper", model: scriptedModel(["hi"]) });
    const script = [[{ call: "ask", input: { prompt: "go" } }], "done"];
    const tools = [agentTool(helper, { name: "ask" })];
    const lead = new ReActAgent({ name: "lead", tracer, model: scriptedModel(script), tools });
    const { task } = await lead.call("go", { sessionId: "s1" });
    expect(only("invoke_agent helper").attributes).toMatchObject({
      "gen_ai.agent.id": "ask",
      "gen_ai.agent.name": "helper",
      "gen_ai.conversation.id": expect.stringMatching(/^sub-/),
      "rivulet.task.id": only("execute_tool ask").attributes["gen_ai.tool.call.id"],
      "rivulet.task.root_id": task.taskId,
    });
  });

  it("names the requested and the responding model", async () => {
    const bad = {
      ...scriptedModel([[{ error: refusal }]], { modelId: "a" }),
      provider: "xai.chat",
    };
    const good = { ...scriptedModel(["hi"], { modelId: "b" }), provider: "mistral.chat" };
    await new ReActAgent({ name: "lead", tracer, model: [bad, good] }).call("go");
    const { attributes, status } = only("chat a");
    expect(status.code).toBe(SpanStatusCode.UNSET);
    expect(attributes).toMatchObject({
      "gen_ai.provider.name": "mistral_ai",
      "gen_ai.request.model": "a",
      "gen_ai.response.model": "b",
    });
  });

  it.each([
    ["openai.responses", "openai"],
    ["anthropic.messages", "anthropic"],
    ["azure.chat", "azure.ai.openai"],
    ["amazon-bedrock", "aws.bedrock"],
    ["google.generative-ai", "gcp.gemini"],
    ["google.vertex.chat", "gcp.vertex_ai"],
    ["googleVertex.anthropic.messages", "gcp.vertex_ai"],
    ["moonshotai.chat", "moonshot_ai"],
    ["xai.responses", "x_ai"],
    ["my-own", "my-own"],
  ])("maps the provider %s to its conventional name", async (sdk, conventional) => {
    const model = { ...scriptedModel(["hi"]), provider: sdk };
    await new ReActAgent({ name: "lead", tracer, model }).call("go");
    expect(only("chat scripted").attributes["gen_ai.provider.name"]).toBe(conventional);
  });

  it("reads the model from an id before it is loaded", async () => {
    const agent = new ReActAgent({ name: "lead", tracer, model: "google-vertex:gemini-x" });
    await agent.call("go").catch(() => {});
    expect(only("chat gemini-x").attributes).toMatchObject({
      "gen_ai.provider.name": "gcp.vertex_ai",
      "gen_ai.request.model": "gemini-x",
      "error.type": "provider_not_installed",
    });
  });
});

describe("errors", () => {
  const failureOf = ({ attributes, status }: ReadableSpan) => [
    status.code === SpanStatusCode.ERROR && attributes["error.type"],
    status.message,
  ];

  it("marks the call of a tool that throws, and nothing above it", async () => {
    const broken = tool({
      ...echoLike("broken"),
      execute() {
        throw new Error("out of order");
      },
    });
    const model = scriptedModel([[{ call: "broken", input: { text: "x" } }], "sorry"]);
    await new ReActAgent({ name: "lead", tracer, model, tools: [broken] }).call("go");
    expect(failureOf(only("execute_tool broken"))).toEqual(["tool_failed", "out of order"]);
    expect(only("execute_tool broken").attributes["rivulet.tool.state"]).toBe("error");
    expect(failureOf(only("invoke_agent lead"))).toEqual([false, undefined]);
  });

  it("marks a model call that fails, its task, and the call that ran it", async () => {
    const helper = new ReActAgent({ name: "helper", model: scriptedModel([[{ error: refusal }]]) });
    const script = [[{ call: "helper", input: { prompt: "go" } }], "sorry"];
    const tools = [agentTool(helper)];
    const model = scriptedModel(script, { modelId: "lead-model" });
    await new ReActAgent({ name: "lead", tracer, model, tools }).call("go");
    expect(failureOf(only("chat scripted"))[0]).toBe("unauthorized");
    expect(failureOf(only("invoke_agent helper"))[0]).toBe("unauthorized");
    expect(only("invoke_agent helper").attributes["rivulet.task.status"]).toBe("failed");
    expect(failureOf(only("execute_tool helper"))[0]).toBe("tool_failed");
    expect(failureOf(only("invoke_agent lead"))[0]).toBe(false);
  });

  it("marks a root task that fails", async () => {
    const agent = new ReActAgent({
      name: "lead",
      tracer,
      model: scriptedModel([[{ error: refusal }]]),
    });
    const error = await agent.call("go").catch((reason: unknown) => reason);
    expect(failureOf(only("invoke_agent lead"))).toEqual([
      "unauthorized",
      (error as Error).message,
    ]);
  });

  it("marks a run whose postCall hook fails", async () => {
    const hook = {
      name: "rude",
      postCall() {
        throw new Error("no");
      },
    };
    const agent = new ReActAgent({
      name: "lead",
      tracer,
      model: scriptedModel(["hi"]),
      hooks: [hook],
    });
    await expect(agent.call("go")).rejects.toThrow("rude");
    expect(failureOf(only("invoke_agent lead"))[0]).toBe("hook_failed");
    expect(only("invoke_agent lead").attributes["rivulet.task.status"]).toBe("failed");
  });

  it("does not mark a cancel", async () => {
    const model = scriptedModel([callEcho, ["half", { hang: true }]]);
    const run = new ReActAgent({ name: "lead", tracer, model, tools: [echo] }).run("go");
    for await (const event of run) {
      if (event.type === "task.text.delta") void run.cancel();
    }
    await run.result();
    expect(paths()).toHaveLength(4);
    expect(exporter.getFinishedSpans().map((span) => failureOf(span)[0])).toEqual(
      Array(4).fill(false),
    );
    expect(only("invoke_agent lead").attributes["rivulet.task.status"]).toBe("cancelled");
  });

  it("ends the span of a tool that is cancelled", async () => {
    const agentRun = new ReActAgent({
      name: "lead",
      tracer,
      model: scriptedModel([[{ call: "wait", input: { text: "x" } }]]),
      tools: [
        tool({
          ...echoLike("wait"),
          execute: (_, { signal }) => {
            const stopped = new Promise<string>((_resolve, reject) => {
              signal.addEventListener("abort", () => reject(signal.reason));
            });
            void agentRun.cancel();
            return stopped;
          },
        }),
      ],
    }).run("go");
    await agentRun.result();
    const { attributes, status } = only("execute_tool wait");
    expect(attributes["rivulet.tool.state"]).toBe("interrupted");
    expect(status.code).toBe(SpanStatusCode.UNSET);
  });
});

describe("tracing errors do not break a run:", () => {
  const broken = () => {
    throw new Error("no");
  };
  const spanWithout = (...methods: string[]) => ({
    ...trace.wrapSpanContext({ traceId: "", spanId: "", traceFlags: 0 }),
    ...Object.fromEntries(methods.map((method) => [method, broken])),
  });
  const tracers: Readonly<Record<string, unknown>> = {
    "a tracer that throws": { startSpan: broken, startActiveSpan: broken },
    "a tracer without spans": { startSpan: () => undefined },
    "spans that throw": {
      startSpan: () => spanWithout("setAttribute", "setAttributes", "setStatus", "end"),
    },
  };

  async function works(tracer: unknown) {
    const failing = tool({ name: "fail", description: "Fails.", execute: broken });
    const helper = new ReActAgent({ name: "helper", model: scriptedModel(["done"]) });
    const agent = new ReActAgent({
      name: "lead",
      model: scriptedModel([
        [...callEcho, { call: "fail" }, { call: "helper", input: { prompt: "Go." } }],
        "done",
      ]),
      tools: [echo, failing, agentTool(helper)],
      ...(tracer !== undefined && { tracer: tracer as Tracer }),
    });
    const run = agent.run("go");
    const events: TaskEvent[] = [];
    for await (const event of run) events.push(event);
    expect((await run.result()).text).toBe("done");
    expect(events.at(-1)?.type).toBe("task.completed");
  }

  it.each(Object.entries(tracers))("%s", (_, tracer) => works(tracer));

  it("a provider that throws", async () => {
    trace.setGlobalTracerProvider({ getTracer: broken });
    await works(undefined);
  });

  it("a context manager that throws, before or after it has called", async () => {
    const noContext = {
      active: broken,
      with: broken,
      bind: <T>(_: unknown, target: T) => target,
      enable: () => noContext,
      disable: () => noContext,
    };
    context.setGlobalContextManager(noContext as never);
    await works(tracer);
    context.disable();
    const callsFirst = (_: unknown, call: () => unknown) => {
      call();
      throw new Error("no");
    };
    context.setGlobalContextManager({ ...noContext, with: callsFirst } as never);
    await works(tracer);
  });
});

describe("cost", () => {
  const script = [callEcho, { text: ["a", "b", "c"] }];
  /** The same run with different tracers. */
  const runWith = async (own?: Tracer): Promise<readonly TaskEvent[]> => {
    const clock = new ManualClock(1_000);
    const ids = createIds({ clock, random: (bytes) => bytes.fill(7) });
    const agent = new ReActAgent({
      name: "lead",
      model: scriptedModel(script),
      tools: [echo],
      clock,
      ids,
      ...(own && { tracer: own }),
    });
    const events: TaskEvent[] = [];
    for await (const event of agent.run("go")) events.push(event);
    return events;
  };

  it("runs the same with a tracer, without one, and with nothing registered", async () => {
    const plain = await runWith();
    expect(plain.at(-1)?.type).toBe("task.completed");
    expect(exporter.getFinishedSpans()).toHaveLength(0);
    expect(await runWith(tracer)).toEqual(plain);
    expect(exporter.getFinishedSpans()).toHaveLength(4);
    trace.setGlobalTracerProvider(provider);
    expect(await runWith()).toEqual(plain);
    expect(exporter.getFinishedSpans()).toHaveLength(8);
    trace.disable();
    expect(await runWith()).toEqual(plain);
    expect(exporter.getFinishedSpans()).toHaveLength(8);
  });

  it("makes no span when nothing is registered", async () => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    const startSpan = vi.spyOn(ProxyTracer.prototype, "startSpan");
    const setSpan = vi.spyOn(trace, "setSpan");
    const seen: unknown[] = [];
    const look = tool({
      ...echoLike("look"),
      execute: () => {
        seen.push(context.active());
        return "seen";
      },
    });
    const traced = () => {
      seen.push(context.active());
      return "done";
    };
    const model = scriptedModel([[{ call: "look", input: { text: "x" } }], traced]);
    await new ReActAgent({ name: "lead", model, tools: [look] }).call("go");
    expect(seen).toEqual([ROOT_CONTEXT, ROOT_CONTEXT]);
    expect(startSpan).not.toHaveBeenCalled();
    expect(setSpan).not.toHaveBeenCalled();
  });

  it("makes as many spans for a thousand chunks as for one", async () => {
    const touchesOf = async (chunks: number) => {
      let touches = 0;
      const counting: Tracer = {
        startSpan(name, options, parent) {
          return new Proxy(tracer.startSpan(name, options, parent), {
            get(span, key: keyof Span) {
              touches++;
              return span[key].bind(span);
            },
          });
        },
        startActiveSpan: tracer.startActiveSpan.bind(tracer),
      };
      const model = scriptedModel([{ text: Array<string>(chunks).fill("word ") }]);
      const { text } = await new ReActAgent({ name: "lead", tracer: counting, model }).call("go");
      expect(text).toHaveLength(5 * chunks);
      return touches;
    };
    const few = await touchesOf(1);
    expect(few).toBeGreaterThan(0);
    expect(await touchesOf(1_000)).toBe(few);
  });
});

/** The error for an invalid API key. */
const refusal = Object.assign(new Error("no"), { statusCode: 401 });

function echoLike(name: string) {
  return {
    name,
    description: "Takes a text.",
    input: z.object({ text: z.string() }),
    execute: () => "ok" as string | Promise<string>,
  };
}
