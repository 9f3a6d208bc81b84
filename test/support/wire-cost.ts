import { expect } from "vitest";
import {
  decodeSse,
  encodeSse,
  type LogEvent,
  type StreamFrame,
  type TaskEvent,
} from "../../src/protocol.ts";

/** The bytes of a text on the wire. */
const bytes = (text: string) => new TextEncoder().encode(text).length;

/** Text with characters that cost more than one byte on the wire. */
const chunk = 'words, "quoted", and 一 ';

/** Returns the chunks of a text of about `size` bytes. */
export function chunksOf(size: number): readonly string[] {
  return Array.from({ length: Math.ceil(size / bytes(chunk)) }, () => chunk);
}

/** Expects a limit of the cost per event in a run where the agent at `depth` streams such a text. */
export function expectLinear(events: readonly TaskEvent[], depth: number, size: number): void {
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
  // The content is sent once as deltas and at most twice complete: with its block and with its item.
  const encoded = JSON.stringify(text).length;
  const bearing = events
    .map((event: StreamFrame) => encodeSse(event))
    .filter((frame) => frame.length > encoded);
  expect(bearing.length).toBeLessThanOrEqual(2);
}
