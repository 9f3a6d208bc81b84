// Law 8: the wire is linear. What an event costs does not depend on what came before it, at any depth.
import { describe, expect, it } from "vitest";
import { agentTool, ReActAgent } from "../src/index.ts";
import type { LogEvent, StreamFrame, TaskEvent } from "../src/protocol/index.ts";
import { decodeSse, encodeSse } from "../src/protocol/index.ts";
import { scriptedModel } from "../src/testing/index.ts";

const bytes = (text: string) => new TextEncoder().encode(text).length;
const chunk = 'words, "quoted", and 一 ';

/** The events of a run in which the agent at `depth` says a text of about `size` bytes. */
async function runAt(depth: number, size: number): Promise<readonly TaskEvent[]> {
  const text = Array.from({ length: Math.ceil(size / bytes(chunk)) }, () => chunk);
  let agent = new ReActAgent({ name: "researcher", model: scriptedModel([{ text }]) });
  for (let level = 1; level <= depth; level++) {
    agent = new ReActAgent({
      name: `lead-${level}`,
      model: scriptedModel([{ call: agent.name, input: { prompt: "go" } }, "done"]),
      tools: [agentTool(agent)],
    });
  }
  const events: TaskEvent[] = [];
  for await (const event of agent.run("go", { sessionId: "sess-001" })) events.push(event);
  return events;
}

describe.each([
  { name: "16 KB", size: 16_384 },
  { name: "1 MB", size: 1_048_576 },
])("a text of $name", ({ size }) => {
  it.each([0, 1, 2, 3])("at depth %i", { timeout: 60_000 }, async (depth) => {
    const events = await runAt(depth, size);
    const deltas = events.filter(
      (event) => event.type === "task.text.delta" && (event.source?.depth ?? 0) === depth,
    );
    expect(deltas.length).toBeGreaterThan(size / bytes(chunk) - 1);
    let text = "";
    for (const delta of deltas as (LogEvent & { type: "task.text.delta" })[]) {
      text += delta.delta;
      const frame = encodeSse(delta);
      const [sent] = decodeSse(frame) as [LogEvent];
      const source = sent.source === undefined ? 0 : bytes(JSON.stringify(sent.source));
      const around = bytes(frame) - bytes(JSON.stringify(delta.delta)) - source;
      if (around > 320) expect.fail(`a delta costs ${around} bytes around its text: ${frame}`);
      if (sent.source !== undefined) {
        const { path, agentId } = sent.source;
        const most = 64 + bytes(path) + bytes(agentId);
        if (source > most) expect.fail(`a source costs ${source} bytes: ${frame}`);
      }
    }
    // The content once as deltas, then at most twice whole: with its block, with its item.
    const encoded = JSON.stringify(text).length;
    const bearing = events
      .map((event: StreamFrame) => encodeSse(event))
      .filter((frame) => frame.length > encoded);
    expect(bearing.length).toBeLessThanOrEqual(2);
  });
});
