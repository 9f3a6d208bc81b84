import { getEventListeners } from "node:events";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import {
  agentTool,
  type Hook,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  type Run,
  type StandardSchema,
  tool,
} from "../../src/index.ts";
import { ManualClock, type Script, scriptedModel } from "../../src/testing.ts";
import { expiringStore, losingStore } from "./support/losing-store.ts";
import { whatIsLeft } from "./support/run-script.ts";
import { turns } from "./support/tools.ts";

const unhandled: unknown[] = [];
const note = (reason: unknown) => unhandled.push(reason);
beforeEach(() => {
  unhandled.length = 0;
  process.on("unhandledRejection", note);
});
afterEach(() => {
  process.off("unhandledRejection", note);
});

const graceMs = 5_000;
const script: Script = [[{ call: "echo", input: { text: "a" } }], "summed up"];

/** Code of the user's that does not come back by itself. */
class Hanging {
  readonly #began = Promise.withResolvers<void>();
  readonly #promises: PromiseWithResolvers<never>[] = [];
  readonly began = this.#began.promise;

  hang = (): Promise<never> => {
    const promise = Promise.withResolvers<never>();
    this.#promises.push(promise);
    this.#began.resolve();
    return promise.promise;
  };

  /** It comes to an end after all, when nobody waits for it any more. */
  fail(): void {
    for (const { reject } of this.#promises) reject(new Error("Too late."));
  }
}

interface Scene {
  readonly options: Partial<ReActAgentOptions>;
  readonly script?: Script;
  readonly output?: StandardSchema;
}

function echo(more: Partial<Parameters<typeof tool>[0]> = {}) {
  const input = z.object({ text: z.string() });
  const execute = ({ text }: { text: string }) => text;
  return tool({ name: "echo", description: "Says it again.", input, execute, ...more } as never);
}

function hookAt(point: keyof Hook, hang: () => Promise<never>): Scene {
  return { options: { hooks: [{ name: "slow", [point]: hang }] } };
}

const schemaThatHangs = (hang: () => Promise<never>): StandardSchema => {
  const { "~standard": standard } = z.object({ text: z.string() });
  return { "~standard": { ...standard, validate: hang } } as StandardSchema;
};

const scenes: Readonly<Record<string, (hang: () => Promise<never>) => Scene>> = {
  "a preCall hook": (hang) => hookAt("preCall", hang),
  "a preReasoning hook": (hang) => hookAt("preReasoning", hang),
  "a postReasoning hook": (hang) => hookAt("postReasoning", hang),
  "a preActing hook": (hang) => hookAt("preActing", hang),
  "a postActing hook": (hang) => hookAt("postActing", hang),
  "a preSummary hook": (hang) => hookAt("preSummary", hang),
  "a postSummary hook": (hang) => hookAt("postSummary", hang),
  "a postCall hook": (hang) => hookAt("postCall", hang),
  "a postCall hook of a task that waits": (hang) => {
    const hooks = [{ name: "slow", postCall: hang }];
    return { options: { hooks, tools: [echo({ needsApproval: true })] } };
  },
  needsApproval: (hang) => ({ options: { tools: [echo({ needsApproval: hang })] } }),
  "the schema of a tool": (hang) => ({
    options: { tools: [echo({ input: schemaThatHangs(hang) })] },
  }),
  "the schema of the answer": (hang) => ({
    options: {},
    script: [[{ call: "generate_response", input: { text: "a" } }]],
    output: schemaThatHangs(hang),
  }),
  "the schema of the answer of a model that keeps to it": (hang) => {
    const model = { ...scriptedModel(['{"text":"a"}']), provider: "openai.responses" };
    return { options: { model: model as never, tools: [] }, output: schemaThatHangs(hang) };
  },
  "a tool source": (hang) => ({ options: { toolSources: [{ refresh: hang, tools: () => [] }] } }),
};

function start(scene: Scene, clock: ManualClock) {
  const store = memoryStore();
  const model = scriptedModel(scene.script ?? script);
  const settings = { tools: [echo()], maxIters: 1, ...scene.options };
  const agent = new ReActAgent({ name: "lead", model, store, clock, ...settings });
  const stop = new AbortController();
  const run = agent.run("Go.", {
    sessionId: "s",
    signal: stop.signal,
    ...(scene.output && { output: scene.output }),
  }) as Run<unknown>;
  return { store, run, stop };
}

/** Cancels, and expects that the run waits out the grace and not a moment more. */
async function waitOut(run: Run<unknown>, stop: AbortController, clock: ManualClock) {
  let isSettled = false;
  const settle = () => {
    isSettled = true;
  };
  run.result().then(settle, settle);
  stop.abort(new Error("That is enough."));
  await clock.advance(graceMs - 1);
  await turns(10);
  expect(isSettled).toBe(false);
  await clock.advance(1);
  await turns(20);
  expect(isSettled).toBe(true);
  expect(getEventListeners(stop.signal, "abort")).toEqual([]);
  expect(clock.pending).toBe(0);
}

describe("a cancel ends, after a grace of five seconds,", () => {
  it.each(Object.entries(scenes))("%s that hangs", async (_, sceneOf) => {
    const hanging = new Hanging();
    const clock = new ManualClock();
    const { store, run, stop } = start(sceneOf(hanging.hang), clock);
    await hanging.began;
    await waitOut(run, stop, clock);
    const reply = await run.result();
    expect(reply.generateReason).toBe("interrupted");
    const { events } = await whatIsLeft(store, reply);
    expect(events.at(-1)?.type).toBe("task.cancelled");
    expect((await store.task(reply.task.taskId))?.status).toBe("cancelled");
    // The session is free, and what comes late is not heard.
    hanging.fail();
    const next = new ReActAgent({ name: "lead", model: scriptedModel(["ok"]), store });
    expect((await next.call("Go on.", { sessionId: "s" })).text).toBe("ok");
    await turns(3);
    expect(unhandled).toEqual([]);
  });

  it("a hanging prepareInput, with an error and no task", async () => {
    const hanging = new Hanging();
    const clock = new ManualClock();
    const { store, run, stop } = start({ options: { prepareInput: hanging.hang } }, clock);
    await hanging.began;
    await waitOut(run, stop, clock);
    await expect(run.result()).rejects.toMatchObject({ name: "RivuletError", code: "cancelled" });
    expect(await store.tasks({ sessionId: "s" })).toEqual([]);
    hanging.fail();
    await turns(3);
    expect(unhandled).toEqual([]);
  });

  it("a hanging onError hook, without hiding the error", async () => {
    const hanging = new Hanging();
    const clock = new ManualClock();
    const refusal = Object.assign(new Error("no"), { statusCode: 401 });
    const scene = { ...hookAt("onError", hanging.hang), script: [{ error: refusal }] };
    const { run, stop } = start(scene, clock);
    await hanging.began;
    await waitOut(run, stop, clock);
    await expect(run.result()).rejects.toMatchObject({ code: "unauthorized" });
  });

  it("a hanging tool source during a takeover", async () => {
    const { store, expire } = expiringStore();
    const model = scriptedModel(script);
    const losing = losingStore(store, 1, "after"); // the call is open and has no result
    const lost = new ReActAgent({ name: "lead", model, tools: [echo()], store: losing });
    await expect(lost.call("Go.", { sessionId: "s" })).rejects.toThrow();
    expire();
    const hanging = new Hanging();
    const clock = new ManualClock();
    const toolSources = [{ refresh: hanging.hang, tools: () => [] }];
    const agent = new ReActAgent({ name: "lead", model, toolSources, store, clock });
    const stop = new AbortController();
    const run = agent.run(undefined, { sessionId: "s", signal: stop.signal });
    await hanging.began;
    await waitOut(run, stop, clock);
    const reply = await run.result();
    expect(reply.generateReason).toBe("interrupted");
    const { results } = await whatIsLeft(store, reply);
    expect(results).toMatchObject([{ state: "interrupted" }]);
  });

  it("a hanging postCall hook, and keeps the reply", async () => {
    const hanging = new Hanging();
    const clock = new ManualClock();
    const call = { call: "echo", input: { text: "a" } };
    const scene = { ...hookAt("postReasoning", hanging.hang), script: [["Let me see.", call]] };
    const { store, run, stop } = start(scene as Scene, clock);
    await hanging.began;
    await waitOut(run, stop, clock);
    const reply = await run.result();
    expect(reply.text).toBe("Let me see.");
    const { results, messages } = await whatIsLeft(store, reply);
    expect(results).toEqual([]);
    expect(messages.at(-1)?.content).toMatchObject([{ type: "text" }]);
  });

  it("a tool and the hooks after it, which share the grace period", async () => {
    const clock = new ManualClock();
    const hanging = new Hanging();
    const later = new Hanging();
    const hooks: Hook[] = [
      { name: "slow", postActing: later.hang, postCall: later.hang },
      { name: "slower", postCall: later.hang },
    ];
    const tools = [echo({ execute: hanging.hang })];
    const { store, run, stop } = start({ options: { tools, hooks } }, clock);
    await hanging.began;
    stop.abort(new Error("That is enough."));
    await clock.advance(5_500);
    const reply = await run.result();
    expect(reply.generateReason).toBe("interrupted");
    const { results } = await whatIsLeft(store, reply);
    expect(results).toMatchObject([{ state: "interrupted" }]);
    expect(clock.pending).toBe(0);
  });

  it("a hanging hook of a child", async () => {
    const hanging = new Hanging();
    const clock = new ManualClock();
    const hooks = [{ name: "slow", preReasoning: hanging.hang }];
    const helper = new ReActAgent({ name: "helper", model: scriptedModel(["x"]), hooks });
    const calls = [{ call: "helper", input: { prompt: "Go." } }];
    const scene = { script: [calls], options: { tools: [agentTool(helper)] } };
    const { store, run, stop } = start(scene, clock);
    await hanging.began;
    await waitOut(run, stop, clock);
    const reply = await run.result();
    expect(reply.generateReason).toBe("interrupted");
    await whatIsLeft(store, reply);
  });
});

describe("user code", () => {
  it("may take any time without a cancel", async () => {
    const clock = new ManualClock();
    const waits: Hook = { name: "slow", preActing: () => clock.sleep(86_400_000) };
    const { run } = start({ options: { hooks: [waits] } }, clock);
    await turns(20);
    await clock.advance(86_400_000);
    expect((await run.result()).text).toBe("summed up");
  });

  it("may finish within the grace period, and its result counts", async () => {
    const clock = new ManualClock();
    const began = Promise.withResolvers<void>();
    const { store, run, stop } = start(
      {
        options: {
          hooks: [
            {
              name: "slow",
              async postActing(_, _call, result) {
                began.resolve();
                await clock.sleep(graceMs - 1);
                return { ...result, output: [{ type: "text", text: "masked" }] };
              },
            },
          ],
        },
      },
      clock,
    );
    await began.promise;
    stop.abort();
    await clock.advance(graceMs - 1);
    const reply = await run.result();
    expect(reply.generateReason).toBe("interrupted");
    const { results } = await whatIsLeft(store, reply);
    expect(results).toMatchObject([{ state: "success", output: [{ text: "masked" }] }]);
  });

  it("may throw the abort reason, which is not a failure", async () => {
    const stop = new AbortController();
    const began = Promise.withResolvers<void>();
    const hook: Hook = {
      name: "polite",
      preReasoning: () =>
        new Promise((_, reject) => {
          stop.signal.addEventListener("abort", () => reject(stop.signal.reason), { once: true });
          began.resolve();
        }),
    };
    const agent = new ReActAgent({ name: "lead", model: scriptedModel(["x"]), hooks: [hook] });
    const reply = agent.call("Go.", { signal: stop.signal });
    await began.promise;
    stop.abort();
    expect((await reply).generateReason).toBe("interrupted");
  });

  it("may hang in one call while another fails the task; the failure is reported", async () => {
    const hanging = new Hanging();
    const clock = new ManualClock();
    const hook: Hook = {
      name: "rude",
      preActing(_, { input }) {
        if ((input as { text: string }).text === "slow") return hanging.hang();
        throw new Error("I will not.");
      },
    };
    const call = (text: string) => ({ call: "echo", input: { text } });
    const { store, run } = start(
      { script: [[call("slow"), call("bad")]], options: { hooks: [hook] } },
      clock,
    );
    await hanging.began;
    await turns(10);
    await clock.advance(graceMs);
    await expect(run.result()).rejects.toMatchObject({ code: "hook_failed" });
    const [task] = await store.tasks({ sessionId: "s" });
    expect(task?.status).toBe("failed");
    await whatIsLeft(store, { task: task as never });
    hanging.fail();
    await turns(3);
    expect(unhandled).toEqual([]);
  });
});
