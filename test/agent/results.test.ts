import { describe, expect, it } from "vitest";
import { z } from "zod";
import {
  agentTool,
  type Block,
  ContextStore,
  type Hook,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  type Tool,
  type ToolContext,
  Toolkit,
  tool,
} from "../../src/index.ts";
import { emptyTree, reduce } from "../../src/protocol/reduce.ts";
import type { ToolResultItem, WireImageBlock } from "../../src/protocol/task.ts";
import { scriptedModel } from "../../src/testing.ts";
import { collect } from "./support/collect.ts";
import { inShort, runScript } from "./support/run-script.ts";
import { turns } from "./support/tools.ts";

function acting(
  execute: (input: unknown, context: ToolContext) => unknown,
  more: Partial<Parameters<typeof tool>[0]> = {},
): Tool {
  return tool({ name: "act", description: "Acts.", ...more, execute });
}

/** One call of the tool `act`, and what came of it on both sides. */
async function result(act: Tool, more: Partial<ReActAgentOptions> = {}) {
  const played = await runScript([[{ call: "act" }], "done"], { tools: [act], ...more });
  const item = played.output.find((one) => one.type === "tool_result") as ToolResultItem;
  return { ...played, item, model: played.results.map(inShort)[0] };
}

const png = (data: string): Block => ({ type: "image", source: { data, mimeType: "image/png" } });

describe("a tool result", () => {
  it("shows one value to model and people", async () => {
    const { model, item } = await result(acting(() => "plain"));
    expect(model).toBe("success: plain");
    expect(item.block_list).toEqual([{ type: "text", text: "plain" }]);
  });

  it.each([
    ["content and display", { content: "for the model", display: "for people" }],
    ["the seed's names", { message_content: "for the model", block_list: "for people" }],
  ])("separates model and people: %s", async (_, returned) => {
    const { model, item, events } = await result(acting(() => returned));
    expect(model).toBe("success: for the model");
    expect(item.block_list).toEqual([{ type: "text", text: "for people" }]);
    expect(JSON.stringify(events)).not.toContain("for the model");
  });

  it("treats an object with other fields as a plain value", async () => {
    const { model } = await result(acting(() => ({ content: "a", pages: 3 })));
    expect(model).toBe('success: {"content":"a","pages":3}');
  });

  it("keeps the display when a hook edits only the content", async () => {
    const postActing: Hook["postActing"] = (_, _call, given) => ({
      ...given,
      output: [{ type: "text", text: "short" }],
      keepsDisplay: true,
    });
    const edits: Hook = { name: "shorten", postActing };
    const answers: Hook = { name: "answer", preActing: () => ({ result: "from a hook" }) };
    for (const [hooks, seen] of [
      [[edits], "from the tool"],
      [[answers, edits], "from a hook"],
    ] as const) {
      const { model, item } = await result(
        acting(() => "from the tool"),
        { hooks },
      );
      expect(model).toBe("success: short");
      expect(item.block_list).toEqual([{ type: "text", text: seen }]);
    }
  });

  it("streams the display", async () => {
    const act = acting(() => ({ content: "for the model", display: "for people" }));
    const model = scriptedModel([[{ call: "act" }], "done"]);
    const agent = new ReActAgent({ name: "lead", model, tools: [act] });
    const events = await collect(agent.stream("Go.", { types: ["tool_result"] }));
    expect(events).toMatchObject([{ last: true, text: "for people" }]);
  });
});

describe("a tool that emits", () => {
  it("text streams it and returns a string for the model only", async () => {
    const act = acting(async (_, { emit }) => {
      emit("One ");
      await turns(2);
      emit("two \ud83c");
      emit("\udf0a");
      return "for the model";
    });
    const { model, item, events } = await result(act);
    expect(model).toBe("success: for the model");
    expect(item.block_list).toEqual([{ type: "text", text: "One two 🌊" }]);
    const deltas = events.flatMap((event) =>
      event.type === "task.text.delta" && event.item_id === item.id ? [event.delta] : [],
    );
    expect(deltas).toEqual(["One ", "two ", "🌊"]);
  });

  it("text and returns a display shows both", async () => {
    const act = acting((_, { emit }) => {
      emit("Working. ");
      return { content: "for the model", display: "The table." };
    });
    const { item, model } = await result(act);
    expect(model).toBe("success: for the model");
    expect(item.block_list).toMatchObject([{ text: "Working. " }, { text: "The table." }]);
  });

  it("text and returns nothing reports that to the model", async () => {
    const { model, item } = await result(acting((_, { emit }) => emit("Seen.")));
    expect(model).toBe("success: (no output)");
    expect(item.block_list).toEqual([{ type: "text", text: "Seen." }]);
  });

  it("images in a row as a block each", async () => {
    const act = acting((_, { emit }) => {
      emit("Look: ");
      emit(png("AA=="));
      emit(png("AAE="));
      emit({ type: "image", source: { url: "https://example.com/last.png" } });
      emit("There.");
      return "painted";
    });
    const { item } = await result(act);
    expect(item.block_list).toMatchObject([
      { type: "text", text: "Look: " },
      { type: "image", image_url: { url: "data:image/png;base64,AA==" } },
      { type: "image", image_url: { url: "data:image/png;base64,AAE=" } },
      { type: "image", image_url: { url: "https://example.com/last.png" } },
      { type: "text", text: "There." },
    ]);
  });

  it("partial images replaces each by the next", async () => {
    const act = acting((_, { emit }) => {
      emit(png("AA=="), { partial: true });
      emit(png("AAE="), { partial: true });
      emit({ type: "image", source: { url: "https://example.com/last.png" } });
      emit(png("AAI="), { partial: true });
      emit("There.");
      return "painted";
    });
    const { item, events } = await result(act);
    expect(item.block_list).toMatchObject([
      { type: "image", image_url: { url: "https://example.com/last.png" } },
      { type: "image", image_url: { url: "data:image/png;base64,AAI=" } },
      { type: "text", text: "There." },
    ]);
    const partials = events.flatMap((event) =>
      event.type === "task.image.delta" ? [event.partial_image_index] : [],
    );
    expect(partials).toEqual([0, 1, 2, 0]);
  });

  it("a blob for an image over 64 KiB, and the bytes to the model", async () => {
    const store = memoryStore();
    const large = Buffer.alloc(100_000, 1).toString("base64");
    const act = acting((_, { emit }) => {
      emit(png(large));
      return { content: png(large), display: [png(large)] };
    });
    const { item, events, results } = await result(act, { store });
    const [first, second] = item.block_list as readonly WireImageBlock[];
    expect(first?.image_url.url).toMatch(/^task:\/\/task_.*\/blobs\/sha256-[0-9a-f]{64}$/);
    expect(second).toEqual(first);
    expect(JSON.stringify(events)).not.toContain(large);
    expect(JSON.stringify(results)).toContain(large);
    const [, path] = first?.image_url.url.split("task://") ?? [];
    const [taskId, , name] = path?.split("/") ?? [];
    const blob = await store.files.get(`blobs/${taskId}/${name}`);
    expect(Buffer.from(blob?.data ?? []).toString("base64")).toBe(large);
  });

  it("files and blocks of text", async () => {
    const act = acting((_, { emit }) => {
      emit({ type: "text", text: "A file: " });
      emit({ type: "file", source: { url: "https://example.com/a.csv", mimeType: "text/csv" } });
      return "ok";
    });
    const { item } = await result(act);
    expect(item.block_list).toMatchObject([
      { type: "text", text: "A file: " },
      { type: "file", url: "https://example.com/a.csv", mime_type: "text/csv" },
    ]);
  });

  it("before it fails keeps the output and appends the error", async () => {
    const act = acting((_, { emit }) => {
      emit("So far. ");
      throw new Error("disk full");
    });
    const { item, model } = await result(act);
    expect(model).toBe("error: Tool execution failed: disk full");
    expect(item.status).toBe("failed");
    expect(item.block_list[0]).toMatchObject({ text: "So far. " });
  });

  it("after its end is ignored", async () => {
    let emitLater = () => {};
    const act = acting((_, { emit, progress }) => {
      emitLater = () => {
        emit("late");
        progress({ progress: 1 });
      };
      return "ok";
    });
    const model = scriptedModel([
      [{ call: "act" }],
      () => {
        emitLater();
        return "done";
      },
    ]);
    const { events } = await runScript([], { tools: [act], model });
    expect(JSON.stringify(events)).not.toContain("late");
  });

  it("progress shows the latest value while it runs", async () => {
    const act = acting((_, { progress }) => {
      progress({ progress: 1, total: 2, message: "half" });
      progress({ progress: 2 });
      return "ok";
    });
    const { events, item } = await result(act);
    const told = events.filter((event) => event.type === "task.tool_result.progress");
    expect(told).toMatchObject([{ progress: 1, total: 2, message: "half" }, { progress: 2 }]);
    expect(item).not.toHaveProperty("progress");
  });

  it("calls the toolkit's onChunk with the call", async () => {
    const heard: unknown[] = [];
    const act = acting((_, { emit }) => {
      emit("a");
      emit(png("AA=="));
      return "ok";
    });
    const toolkit = new Toolkit({
      tools: [act],
      onChunk: ({ name }, chunk) =>
        heard.push([name, typeof chunk === "string" ? chunk : chunk.type]),
    });
    await runScript([[{ call: "act" }], "done"], { toolkit });
    expect(heard).toEqual([
      ["act", "a"],
      ["act", "image"],
    ]);
  });

  it("in two attempts shows only the second", async () => {
    const act = acting(
      (_, { emit, attempt }) => {
        emit(`Attempt ${attempt}. `);
        if (attempt === 1) throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
        return "ok";
      },
      { idempotent: true, execution: { initialBackoffMs: 1 } },
    );
    const { item } = await result(act);
    expect(item.block_list.map((block) => (block.type === "text" ? block.text : ""))).toEqual([
      "Attempt 2. ",
    ]);
  });
});

describe("the tool context", () => {
  class Database {
    readonly name: string;
    constructor(name: string) {
      this.name = name;
    }
  }

  it("prefers the call's values to the agent's and the toolkit's", async () => {
    const act = acting(async (_, context) => [
      await context.get("who"),
      await context.get("where"),
      await context.get("what"),
      (await context.get(Database))?.name,
      (await context.get("database", Database))?.name ?? "none",
    ]);
    const toolkit = new Toolkit({
      tools: [act],
      context: { who: "kit", where: "kit", what: "kit" },
    });
    const agent = new ReActAgent({
      name: "lead",
      model: scriptedModel([[{ call: "act" }], "done"]),
      toolkit,
      context: { who: "agent", where: "agent" },
    });
    const context = new ContextStore({ who: "call" }).with(new Database("main"));
    const run = agent.run("Go.", { context });
    const events = await collect(run);
    const item = events.findLast(
      (event) => event.type === "task.text.done" && event.output_index === 1,
    );
    expect(item).toMatchObject({ item: { text: '["call","agent","kit","main","none"]' } });
  });

  it("has ids, names and paths", async () => {
    const act = acting((_, context) => ({
      agent: context.agent,
      user: context.userId,
      attempt: context.attempt,
      session: context.sessionId,
      messages: context.messages.length,
    }));
    const model = scriptedModel([[{ call: "act" }], "done"]);
    const agent = new ReActAgent({ name: "lead", agentId: "kind", model, tools: [act] });
    const run = agent.run("Go.", { sessionId: "s", userId: "ann" });
    const done = (await collect(run)).find((event) => event.type === "task.text.done");
    expect(JSON.parse((done as { item: { text: string } }).item.text)).toEqual({
      agent: { name: "lead", agentId: "kind" },
      user: "ann",
      attempt: 1,
      session: "s",
      messages: 2,
    });
  });

  it("passes the caller's values to children's tools", async () => {
    const act = acting(async (_, context) => `for ${await context.get("who")}`);
    const helper = new ReActAgent({
      name: "helper",
      model: scriptedModel([[{ call: "act" }], "helped"]),
      tools: [act],
    });
    const model = scriptedModel([[{ call: "helper", input: { prompt: "x" } }], "done"]);
    const agent = new ReActAgent({ name: "lead", model, tools: [agentTool(helper)] });
    const events = await collect(agent.run("Go.", { context: { who: "ann" } }));
    expect(JSON.stringify(events)).toContain("for ann");
  });
});

describe("an agent as a tool", () => {
  const child = (script: Parameters<typeof scriptedModel>[0]) =>
    agentTool(
      new ReActAgent({ name: "helper", description: "Helps.", model: scriptedModel(script) }),
    );
  const ask = { call: "helper", input: { prompt: "Help." } };

  it("returns its final message to the model and shows its work to people", async () => {
    const script = [[{ thinking: "Hm." }, "The answer."]];
    const { results, tree, output } = await runScript([[ask], "done"], { tools: [child(script)] });
    expect(results.map(inShort)).toEqual(["success: The answer."]);
    const item = output.find(({ type }) => type === "tool_result") as ToolResultItem;
    expect(item.child_task_id).toBe(item.call_id);
    expect(item.block_list).toEqual([]);
    expect(tree.tasks[item.call_id]?.output.map(({ type }) => type)).toEqual([
      "reasoning",
      "message",
    ]);
  });

  it("reports that it ran out of iterations", async () => {
    const look = tool({ name: "look", description: "Looks.", execute: () => "seen" });
    const helper = new ReActAgent({
      name: "helper",
      model: scriptedModel([[{ call: "look" }], "So far."]),
      tools: [look],
      maxIters: 1,
    });
    const { results } = await runScript([[ask], "done"], { tools: [agentTool(helper)] });
    expect(results.map(inShort)).toEqual([
      "success: status: incomplete\nreason: it reached its maximum number of iterations\nSo far.",
    ]);
  });

  it("that fails returns an error result; the parent continues", async () => {
    const error = Object.assign(new Error("no"), { statusCode: 401 });
    const { results, reply } = await runScript([[ask], "done"], { tools: [child([{ error }])] });
    expect(results.map(inShort)).toEqual([
      expect.stringMatching(/^error: Tool execution failed: /),
    ]);
    expect(reply.text).toBe("done");
  });

  it("called twice in one batch runs two children", async () => {
    const script = ({ prompt }: { prompt: unknown }) =>
      `heard ${JSON.stringify(prompt).includes("one") ? 1 : 2}`;
    const asks = ["one", "two"].map((prompt) => ({ call: "helper", input: { prompt } }));
    const { results, tree, events } = await runScript([asks, "done"], { tools: [child(script)] });
    expect(results.map(inShort).sort()).toEqual(["success: heard 1", "success: heard 2"]);
    const sources = events.flatMap((event) => {
      const { source } = event as {
        source?: { agentKey: string; sessionId: string; path: string };
      };
      return event.type === "task.created" && source ? [source] : [];
    });
    expect(new Set(sources.map(({ path }) => path))).toEqual(new Set(["s/helper"]));
    expect(new Set(sources.map(({ agentKey }) => agentKey)).size).toBe(2);
    expect(new Set(sources.map(({ sessionId }) => sessionId)).size).toBe(2);
    expect(Object.keys(tree.tasks)).toHaveLength(3);
  });

  it("requires a prompt", async () => {
    const { results } = await runScript([[{ call: "helper" }], "done"], { tools: [child(["x"])] });
    expect(results.map(inShort)).toEqual([expect.stringMatching(/^error: .*prompt/s)]);
  });

  it("inside a custom tool streams the tool's output beside the child's", async () => {
    const helper = new ReActAgent({ name: "helper", model: scriptedModel(["The answer."]) });
    const act = tool({
      name: "act",
      description: "Acts.",
      input: z.object({}),
      async execute(_, { emit, runChild }) {
        emit("Asking. ");
        const { reply, status } = await runChild(helper, "Help.", { agentId: "helper" });
        return `${status}: ${reply?.text}`;
      },
    });
    const { results, output } = await runScript([[{ call: "act" }], "done"], { tools: [act] });
    expect(results.map(inShort)).toEqual(["success: completed: The answer."]);
    const item = output.find(({ type }) => type === "tool_result");
    expect(item).toMatchObject({
      block_list: [{ text: "Asking. " }],
      child_task_id: results[0]?.id,
    });
  });

  it("inside a custom tool that runs again after an answer streams its output once", async () => {
    const approve = tool({
      name: "send",
      description: "Sends.",
      input: z.object({}),
      needsApproval: true,
      execute: () => "sent",
    });
    const helper = new ReActAgent({
      name: "helper",
      model: scriptedModel([[{ call: "send" }], "It is sent."]),
      tools: [approve],
    });
    let runs = 0;
    const act = acting(async (_, { emit, runChild }) => {
      runs += 1;
      emit("Asking ");
      emit("politely. ");
      await runChild(helper, "Help.", { agentId: "helper" });
      emit("Thank you.");
      return "done";
    });
    const store = memoryStore();
    const model = scriptedModel([[{ call: "act" }], "done"]);
    const agent = new ReActAgent({ name: "lead", model, tools: [act], store });
    const [approval] = (await agent.call("Go.", { sessionId: "s" })).approvals;
    const run = agent.run(approval?.approve(), { sessionId: "s" });
    expect((await run.result()).text).toBe("done");
    expect(runs).toBe(2);
    const { rootTaskId } = await run.task;
    const tree = reduce(emptyTree(), await store.read(rootTaskId, -1, 1_000));
    const item = tree.tasks[rootTaskId]?.output.find(({ type }) => type === "tool_result");
    expect(item).toMatchObject({
      block_list: [{ text: "Asking politely. " }, { text: "Thank you." }],
    });
  });
});
