import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";

const source = (file: string) => JSON.stringify(new URL(file, import.meta.url).href);

/** The real and the estimated memory of 100,000 events of one kind, measured in a process of its own. */
async function measured(
  make: string,
): Promise<{ readonly real: number; readonly estimate: number }> {
  const program = `
    import { memoryStore } from ${source("../../src/store/memory.ts")};
    import { TaskEmitter } from ${source("../../src/agent/events/emit.ts")};
    const store = memoryStore();
    const lease = await store.acquire("s", "me", 1e9);
    let events = [];
    const log = { append: (event) => events.push(event), merge: () => false };
    const emitter = new TaskEmitter("task_1", log, undefined, { now: () => Date.now() });
    const message = { type: "message", status: "in_progress", role: "assistant", block_list: [] };
    const item = emitter.addItem({ ...message, id: "m" });
    const text = item.addPart("text", true);
    const thought = item.addPart("summary", true);
    const emit = ${make};
    const heap = () => { gc(); gc(); return process.memoryUsage().heapUsed; };
    const before = heap();
    for (let from = 0; from < 100_000; from += 500) {
      for (let i = from; i < from + 500; i++) emit(emitter, i);
      await store.commit({ lease, log: "t", events });
      events = [];
    }
    console.log(JSON.stringify({ real: heap() - before, estimate: store.memory.logBytes("t") }));
  `;
  const run = promisify(execFile);
  const flags = ["--expose-gc", "--input-type=module", "--disable-warning=ExperimentalWarning"];
  const { stdout } = await run(process.execPath, [...flags, "-e", program]);
  return JSON.parse(stdout);
}

describe("sizeOfEvent", () => {
  it.each([
    ["short deltas", `(e, i) => e.appendText(text, "a few words " + i)`],
    ["long deltas", `(e, i) => e.appendText(text, ("é" + i + " ").repeat(40).slice(1))`],
    ["deltas of wide characters", `(e, i) => e.appendText(text, "流れ" + i)`],
    ["thinking", `(e, i) => e.appendText(thought, "a few words " + i)`],
    [
      "items",
      `(e, i) => e.append({ type: "task.output_item.done", output_index: i, item: {
        type: "message", id: "m" + i, status: "completed", role: "assistant",
        block_list: [{ type: "text", text: "a few words " + i }],
      } })`,
    ],
  ])("estimates the memory of events as objects: %s", async (kind, make) => {
    const { real, estimate } = await measured(make);
    expect(estimate / real).toBeGreaterThan(0.5);
    // A log packs its deltas, so they take less than they would as objects.
    expect(estimate / real).toBeLessThan(kind === "items" ? 2 : 10);
  });
});
