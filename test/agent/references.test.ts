import { describe, expect, it } from "vitest";
import { type ToolResultBlock, textOf } from "../../src/contract/message.ts";
import { agentTool, ReActAgent, tool } from "../../src/index.ts";
import type { Annotation, MessageItem, ToolResultItem } from "../../src/protocol/task.ts";
import { scriptedModel } from "../../src/testing.ts";
import { expiringStore } from "./support/losing-store.ts";
import { runScript, whatIsLeft } from "./support/run-script.ts";

const fact = (name: string, text: string) =>
  tool({ name, description: "Tells a fact.", citable: true, execute: () => text });
const sky = fact("sky", "The sky is blue.");
const sea = fact("sea", "The sea is salty.");

function annotationsOf(item: unknown): readonly Annotation[] {
  const [block] = (item as MessageItem).block_list;
  return block?.type === "text" ? (block.annotations ?? []) : [];
}

describe("a citable result", () => {
  it("has a number, in markers for the model and on blocks for people", async () => {
    const { results, output } = await runScript([[{ call: "sky" }, { call: "sea" }], "done"], {
      tools: [sky, sea],
    });
    expect((results[0] as ToolResultBlock).output).toEqual([
      { type: "text", text: "<referencable-item>\nID: 1", tags: ["added_by_reference_manager"] },
      { type: "text", text: "The sky is blue." },
      { type: "text", text: "</referencable-item>", tags: ["added_by_reference_manager"] },
    ]);
    const shown = output.filter((item) => item.type === "tool_result");
    expect(shown.map(({ block_list }) => block_list)).toEqual([
      [{ type: "text", text: "The sky is blue.", reference_id: 1 }],
      [{ type: "text", text: "The sea is salty.", reference_id: 2 }],
    ]);
  });

  it("is cited at the marker's place while streaming, for any chunking", async () => {
    const text = "Blue 🌊[^1], salty[^2], [^3] and [^1].";
    for (let cut = 1; cut < text.length; cut++) {
      const answer = { text: [text.slice(0, cut), text.slice(cut)] };
      const script = [[{ call: "sky" }, { call: "sea" }], answer];
      const { reply, output, events } = await runScript(script, { tools: [sky, sea] });
      expect(reply.text).toBe(text);
      const annotations = annotationsOf(output.at(-1));
      expect(annotations.map(({ reference_id }) => reference_id)).toEqual([1, 2, 1]);
      for (const { start_index, end_index, marker, reference_id, target } of annotations) {
        expect(text.slice(start_index, end_index)).toBe(marker);
        const item = output.find(({ id }) => id === target?.item_id) as ToolResultItem;
        expect(item.block_list[target?.block_index ?? -1]?.reference_id).toBe(reference_id);
      }
      const told = events.filter((event) => event.type === "task.text.annotation.added");
      expect(told).toHaveLength(3);
    }
  });

  it("is every successful result with references: true", async () => {
    const plain = tool({ name: "plain", description: "Is plain.", execute: () => "plain" });
    const fails = tool({
      name: "fails",
      description: "Fails.",
      citable: true,
      execute: () => {
        throw new Error("no");
      },
    });
    const { output } = await runScript([[{ call: "plain" }, { call: "fails" }], "done"], {
      tools: [plain, fails],
      references: true,
    });
    const shown = output.filter((item) => item.type === "tool_result");
    expect(shown.map(({ block_list }) => block_list[0]?.reference_id)).toEqual([1, undefined]);
  });

  it("has its number on all streamed blocks", async () => {
    const streams = tool({
      name: "streams",
      description: "Streams.",
      citable: true,
      execute(_, { emit }) {
        emit("First. ");
        emit({ type: "image", source: { url: "https://example.com/a.png" } });
        emit("Second.");
        return "both";
      },
    });
    const { output } = await runScript([[{ call: "streams" }], "See [^1]."], { tools: [streams] });
    const item = output.find(({ type }) => type === "tool_result") as ToolResultItem;
    expect(item.block_list.map(({ reference_id }) => reference_id)).toEqual([1, 1, 1]);
    expect(annotationsOf(output.at(-1))).toHaveLength(1);
  });

  it("keeps its number in later tasks", async () => {
    const { agent, store } = await runScript(
      [[{ call: "sky" }], "Blue[^1].", [{ call: "sea" }], "Both: [^1][^2]."],
      {
        tools: [sky, sea],
      },
    );
    const reply = await agent.call("And the sea?", { sessionId: "s" });
    const { output } = await whatIsLeft(store, reply);
    const annotations = annotationsOf(output.at(-1));
    expect(annotations.map(({ reference_id }) => reference_id)).toEqual([1, 2]);
    expect(annotations[0]?.target?.task_id).not.toBe(annotations[1]?.target?.task_id);
  });
});

describe("a child's citation", () => {
  const helper = (answer: string) =>
    agentTool(
      new ReActAgent({
        name: "helper",
        model: scriptedModel([
          [{ call: "sea" }, { call: "sky" }],
          [{ thinking: "So." }, answer],
        ]),
        tools: [sky, sea],
      }),
    );
  const ask = { call: "helper", input: { prompt: "x" } };

  it("comes first in the parent's result, renumbered and citable", async () => {
    const script = [[{ call: "sky" }], [ask], "Blue[^1] and blue[^2]."];
    const tools = [sky, helper("It is blue[^2].")];
    const { results, output, tree } = await runScript(script, { tools });
    const [own, childs] = results as [ToolResultBlock, ToolResultBlock];
    expect(textOf(own.output)).toContain("ID: 1");
    expect(childs.output.map((block) => block.type === "text" && block.text)).toEqual([
      "<referencable-item>\nID: 2",
      "The sky is blue.",
      "</referencable-item>",
      "It is blue[^2].",
    ]);
    const [first, second] = annotationsOf(output.at(-1));
    expect(first?.target?.item_id).toBe(output.find(({ type }) => type === "tool_result")?.id);
    const child = tree.tasks[childs.id];
    const cited = child?.output.find(({ id }) => id === second?.target?.item_id) as ToolResultItem;
    expect(second?.target?.task_id).toBe(childs.id);
    expect(cited.block_list[0]).toMatchObject({ text: "The sky is blue." });
  });

  it("does not include uncited results", async () => {
    const { results } = await runScript([[ask], "done"], { tools: [helper("Nothing to cite.")] });
    expect((results[0] as ToolResultBlock).output).toEqual([
      { type: "text", text: "Nothing to cite." },
    ]);
  });

  it("reaches a grandparent with the original block's address", async () => {
    const lead = (
      name: string,
      tools: Parameters<typeof runScript>[1],
      call: string,
      answer: string,
    ) =>
      agentTool(
        new ReActAgent({
          name,
          model: scriptedModel([[{ call, input: { prompt: "x" } }], answer]),
          ...tools,
        }),
      );
    const middle = lead("middle", { tools: [helper("Salty[^1].")] }, "helper", "Salt, says [^1].");
    const asks = [{ call: "middle", input: { prompt: "x" } }];
    const { tree, output, results } = await runScript([asks, "Salt[^1]."], { tools: [middle] });
    const [annotation] = annotationsOf(output.at(-1));
    const deepest = Object.values(tree.tasks).find(({ agentId }) => agentId === "helper");
    expect(annotation?.target?.task_id).toBe(deepest?.id);
    expect(textOf((results[0] as ToolResultBlock).output)).toContain("The sea is salty.");
  });

  it("survives a crash between the child's end and the parent's result", async () => {
    const { store: inner, expire } = expiringStore();
    let gone = false;
    const store = {
      ...inner,
      async commit(commit: Parameters<typeof inner.commit>[0]) {
        if (gone) throw Object.assign(new Error("gone"), { code: "fenced" });
        const written = await inner.commit(commit);
        gone =
          commit.tasks?.some(({ depth, status }) => depth === 1 && status === "completed") ?? false;
        return written;
      },
    };
    const make = (on: typeof inner) =>
      new ReActAgent({
        name: "lead",
        model: scriptedModel([[ask], "Salt[^1]."], { by: "prompt" }),
        tools: [helper("Salty[^1].")],
        store: on,
      });
    await make(store)
      .call("Go.", { sessionId: "s" })
      .catch(() => {});
    expect(gone).toBe(true);
    expire();
    const reply = await make(inner).call(undefined, { sessionId: "s" });
    const { results, output } = await whatIsLeft(inner, reply);
    expect(textOf((results[0] as ToolResultBlock).output)).toContain("The sea is salty.");
    expect(annotationsOf(output.at(-1))).toHaveLength(1);
  });
});
