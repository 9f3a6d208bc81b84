import { describe, expect, it } from "vitest";
import type { Commit } from "../../contract/store.ts";
import { memoryStore } from "../../store/memory.ts";
import { type ScriptedTurn, scriptedModel } from "../../testing.ts";
import { ReActAgent } from "../react-agent.ts";
import { tool } from "../tool/tool.ts";

/** A memory store that keeps its commits, without those of single deltas. */
function recordingStore() {
  const store = memoryStore();
  const commits: Omit<Commit, "lease">[] = [];
  const commit: typeof store.commit = (written, ...rest) => {
    if (written.tasks?.length) commits.push(written);
    return store.commit(written, ...rest);
  };
  return { commits, store: { ...store, commit } };
}

function events({ events = [] }: Omit<Commit, "lease">): readonly string[] {
  return events.map((event) =>
    event.type === "task.output_item.added" || event.type === "task.output_item.done"
      ? `${event.type} ${event.item.type}`
      : event.type,
  );
}

describe("the calls of a turn", () => {
  const order: string[] = [];
  const note = tool({ name: "note", description: "Notes.", execute: () => order.push("run") });

  it("are recorded as started in the commit of their turn", async () => {
    const { store, commits } = recordingStore();
    const turns: ScriptedTurn[] = [[{ call: "note", input: {} }], "Done."];
    const agent = new ReActAgent({ name: "a", model: scriptedModel(turns), tools: [note], store });
    await agent.call("Go.");
    const turn = commits.find(({ appends = [] }) =>
      appends.some(({ messages }) => messages.some(({ role }) => role === "assistant")),
    );
    const added = "task.output_item.added tool_result";
    expect(turn && events(turn)).toContain(added);
    expect(commits.filter((commit) => events(commit).includes(added))).toHaveLength(1);
  });

  it("cost two commits per step: the turn and the result", async () => {
    const { store, commits } = recordingStore();
    const steps = 10;
    const turns: ScriptedTurn[] = Array.from({ length: steps }, () => [
      { call: "note", input: {} },
    ]);
    const model = scriptedModel([...turns, "Done."]);
    const agent = new ReActAgent({ name: "a", model, tools: [note], store, maxIters: steps + 1 });
    await agent.call("Go.");
    // The beginning, the last turn and the end have one each.
    expect(commits).toHaveLength(2 * steps + 3);
  });

  it("start when everything before them is durable", async () => {
    const { store } = recordingStore();
    const held = Promise.withResolvers<void>();
    const turn = Promise.withResolvers<void>();
    const commit: typeof store.commit = async (written, ...rest) => {
      if (events(written).includes("task.output_item.added tool_result")) {
        order.push("turn");
        turn.resolve();
        await held.promise;
        order.push("durable");
      }
      return store.commit(written, ...rest);
    };
    const turns: ScriptedTurn[] = [[{ call: "note", input: {} }], "Done."];
    const held_ = { ...store, commit };
    const model = scriptedModel(turns);
    order.length = 0;
    const agent = new ReActAgent({ name: "a", model, tools: [note], store: held_ });
    const reply = agent.call("Go.");
    await turn.promise;
    await new Promise((resolve) => setImmediate(resolve));
    expect(order).toEqual(["turn"]);
    held.resolve();
    await reply;
    expect(order).toEqual(["turn", "durable", "run"]);
  });

  it.each([true, false])("run all, and each once, with parallel: %s", async (parallel) => {
    const count = 300;
    const ran: number[] = [];
    const run = tool({
      name: "run",
      description: "Runs.",
      execute: async (_, { callId, messages }) => {
        ran.push(messages.length);
        await new Promise((resolve) => setImmediate(resolve));
        return callId;
      },
    });
    const turn = Array.from({ length: count }, () => ({ call: "run", input: {} }));
    const model = scriptedModel([turn, "Done."]);
    const agent = new ReActAgent({ name: "a", model, tools: [run], parallel });
    const { text } = await agent.call("Go.");
    expect(text).toBe("Done.");
    expect(ran).toHaveLength(count);
    // Input and turn; a call that runs alone also sees the results before it.
    expect(ran.every((length, at) => length === (parallel ? 2 : at + 2))).toBe(true);
  });
});
