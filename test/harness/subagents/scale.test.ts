// Many children in one turn, in several turns and in a long session.
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { textOf } from "../../../src/contract/message.ts";
import {
  type AgentEvent,
  HarnessAgent,
  memoryStore,
  type SubagentDeclaration,
} from "../../../src/index.ts";
import type { LogEvent } from "../../../src/protocol/event.ts";
import { emptyTree, reduce } from "../../../src/protocol/reduce.ts";
import { type ScriptedRequest, type ScriptedTurn, scriptedModel } from "../../../src/testing.ts";
import { expectLawful, readLog } from "../../agent/support/laws.ts";
import type { SpawnReport } from "./spawns/run.ts";

const run = promisify(execFile);
const chunks = 200;

/** Returns the unique chunks of the child with this number. */
const words = (child: string) => Array.from({ length: chunks }, (_, at) => `${child}.${at} 一\n`);

/** Returns the number in a child's task. */
function askedFor({ prompt }: ScriptedRequest): string {
  const [first] = prompt.flatMap(({ role, content }) => (role === "user" ? content : []));
  return first?.type === "text" ? (/child (\d+)/.exec(first.text)?.[1] ?? "") : "";
}

/** A child that waits until all parallel children run, then streams its chunks. */
function worker(atOnce: number): SubagentDeclaration {
  let waiting: (() => void)[] = [];
  return {
    name: "worker",
    description: "Works.",
    model: scriptedModel(async (request) => {
      await new Promise<void>((resolve) => {
        waiting.push(resolve);
        if (waiting.length < atOnce) return;
        for (const go of waiting) go();
        waiting = [];
      });
      return { text: words(askedFor(request)) };
    }),
  };
}

function spawns(from: number, count: number): ScriptedTurn {
  return Array.from({ length: count }, (_, index) => ({
    call: "agent_spawn",
    input: { agent_id: "worker", task: `You are child ${from + index}.`, timeout_seconds: 600 },
  }));
}

describe.each([
  { name: "50 at once", batches: [50], limits: { childrenPerTask: 50, parallelChildren: 50 } },
  { name: "8 at once, in 4 batches", batches: [8, 8, 8, 8], limits: {} },
])("children of 200 chunks each, $name", ({ batches, limits }) => {
  it("lose no chunk, keep their order and have the right source", async () => {
    const store = memoryStore();
    const [atOnce = 0] = batches;
    const turns = batches.map((count, index) => spawns(index * count, count));
    const model = scriptedModel([...turns, "Done."]);
    const subagents = [worker(atOnce)];
    const options = { model, store, filesystem: false, subagents, limits } as const;
    const lead = new HarnessAgent({ name: "lead", ...options });
    const streamed: AgentEvent[] = [];
    for await (const event of lead.stream("Go.", { sessionId: "s" })) streamed.push(event);

    const total = batches.reduce((sum, count) => sum + count, 0);
    const children = await store.tasks({ parentSessionId: "s" });
    expect(children.map(({ status }) => status)).toEqual(Array(total).fill("completed"));
    const [root] = await store.tasks({ sessionId: "s" });
    await expectLawful(store, root?.taskId ?? "");

    // The arguments of a call tell which child it started.
    const events = (await readLog(store, root?.taskId ?? "")) as readonly LogEvent[];
    const numbers = new Map<string, string>();
    for (const event of events) {
      if (event.type !== "task.output_item.done" || event.item.type !== "tool_call") continue;
      const { call_id = "", arguments: input = "" } = event.item;
      numbers.set(call_id, /child (\d+)/.exec(input)?.[1] ?? "");
    }
    expect(new Set(numbers.values()).size).toBe(total);
    const tree = reduce(emptyTree(), events);
    const keys = new Set<string>();
    for (const { taskId, agentKey, sessionId } of children) {
      const expected = words(numbers.get(taskId) ?? "");
      const own = events.filter((event) => event.task_id === taskId);
      const source = { agentKey, sessionId, taskId, agentId: "worker", agentName: "worker" };
      for (const event of own) {
        const place = { parentSessionId: "s", depth: 1, path: "s/worker" };
        expect(event.source).toEqual({ ...source, ...place });
      }
      const deltas = own.flatMap((event) => (event.type === "task.text.delta" ? event.delta : []));
      expect(deltas).toEqual(expected);
      const [message] = tree.tasks[taskId]?.output ?? [];
      const said = message?.type === "message" ? message.block_list : [];
      expect(said).toMatchObject([{ type: "text", text: expected.join("") }]);
      expect(textOf((await store.session(sessionId)).at(-1)?.content ?? [])).toBe(
        expected.join(""),
      );
      const seen = streamed.filter((event) => event.source?.taskId === taskId);
      expect(seen.filter(({ last }) => !last).map(({ text }) => text)).toEqual(expected);
      expect(seen.filter(({ last }) => last).map(({ type }) => type)).toEqual([
        "reasoning",
        "agent_result",
      ]);
      keys.add(agentKey);
    }
    expect(keys.size).toBe(total);

    // Their events are interleaved.
    const speakers = events.filter(({ type }) => type === "task.text.delta");
    const changes = speakers.filter(({ task_id }, at) => task_id !== speakers[at - 1]?.task_id);
    expect(changes.length).toBeGreaterThan(2 * total);
  });
});

describe("a session with 512 children, one after the other", () => {
  it("keeps none of them in memory, and lists them", async () => {
    const directory = await mkdtemp(join(tmpdir(), "spawns-"));
    const program = fileURLToPath(new URL("spawns/run.ts", import.meta.url));
    const database = join(directory, "store.db");
    try {
      const { stdout } = await run(process.execPath, [
        "--expose-gc",
        program,
        database,
        "16",
        "32",
      ]);
      const { spawned, held, heapPerSpawn, agentList, taskList } = JSON.parse(
        stdout,
      ) as SpawnReport;
      expect(spawned).toBe(512);
      // The agents of the last turn have not been idle long enough to be dropped.
      expect(held).toEqual({
        agents: [0, 512],
        settings: [8, 512],
        tasks: [0, 512],
        calls: [0, 512],
      });
      console.log(`the heap has grown by ${heapPerSpawn} bytes for each child`);
      // The store keeps the lead's transcript, which has two messages for each child.
      expect(heapPerSpawn).toBeLessThan(6_144);

      expect(agentList).toContain("started (412 older ones are not shown):");
      expect(agentList.match(/^agent_key: agent:worker:/gm)).toHaveLength(100);
      expect(new Set(agentList.match(/agent:worker:\S+/g)).size).toBe(100);
      expect(agentList.match(/^status: completed$/gm)).toHaveLength(100);
      expect(taskList).toMatch(/^\(412 older ones are not shown\)\n/);
      expect(taskList.match(/^- call_\w+ worker: completed$/gm)).toHaveLength(100);
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});
