import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { checkStream } from "../src/protocol/check/check.ts";
import type { LogEvent, StreamFrame } from "../src/protocol/event.ts";
import { taskEventTypes } from "../src/protocol/grammar/index.ts";
import { materialize } from "../src/protocol/materialize.ts";
import { emptyTree, reduce } from "../src/protocol/reduce.ts";
import type { SnapshotTask } from "../src/protocol/task.ts";

function readJson(name: string): unknown {
  return JSON.parse(readFileSync(new URL(`corpus/${name}`, import.meta.url), "utf8"));
}

/** One strict JSON object per line, and a newline at the end. */
function readLines<T>(name: string): T[] {
  const text = readFileSync(new URL(`corpus/${name}`, import.meta.url), "utf8");
  expect(text.endsWith("\n")).toBe(true);
  return text
    .slice(0, -1)
    .split("\n")
    .map((line) => {
      const event = JSON.parse(line);
      expect(JSON.stringify(event)).toBe(line);
      return event;
    });
}

describe("the samples of the first form of the protocol", () => {
  const streams = [
    { name: "response", filtered: false, doubled: 24, ranges: [30, 31] },
    { name: "child", filtered: false, doubled: 24, ranges: [30, 31] },
    // An excerpt: the items before the one that holds the child are not in it.
    { name: "embedded", filtered: true, doubled: 20, ranges: [26, 27] },
  ];
  const read = (name: string) => readLines<StreamFrame>(`seed-004/${name}.jsonl`);

  it("are 93 events of 11 types", () => {
    const events = streams.flatMap(({ name }) => read(name));
    expect(events).toHaveLength(93);
    expect(new Set(events.map(({ type }) => type)).size).toBe(11);
  });

  it.each(streams)("$name folds to its document", ({ name }) => {
    const tree = reduce(emptyTree(), read(name), { legacy: true });
    const document = materialize(tree, undefined, { seed: true });
    expect(document).toEqual(readJson(`seed-004/${name}.expected.json`));
  });

  it("embedded folds to the child's own document as well", () => {
    const tree = reduce(emptyTree(), read("embedded"), { legacy: true });
    expect(materialize(tree, "call_1234xyz", { seed: true })).toEqual(
      readJson("seed-004/child.expected.json"),
    );
  });

  it.each(streams)("$name has wrong ranges and an image sent twice", (stream) => {
    const { name, filtered, doubled, ranges } = stream;
    expect(checkStream(read(name), { legacy: true, filtered })).toEqual([
      { index: doubled, rule: "A5", message: "the part at 1 is opened again" },
      ...ranges.map((index) => ({ index, rule: "A1", message: '44..47 is "tur", not "[^1]"' })),
    ]);
  });
});

describe("the canonical log", () => {
  const events = readLines<LogEvent>("canonical.jsonl");

  it("uses every type of event that a log has", () => {
    const logTypes = taskEventTypes.filter((type) => type !== "task.snapshot" && type !== "error");
    expect(new Set(events.map(({ type }) => type))).toEqual(new Set(logTypes));
  });

  it("is legal", () => {
    expect(checkStream(events)).toEqual([]);
  });

  it("folds to its tree and its document, with no event ignored", () => {
    const tree = reduce(emptyTree(), events);
    expect(JSON.parse(JSON.stringify(tree))).toEqual(readJson("canonical.tree.json"));
    expect(materialize(tree)).toEqual(readJson("canonical.document.json"));
    expect(tree).toMatchObject({ safeCursor: events.length - 1, gaps: [], unknown: 0, ignored: 0 });
  });

  it("has the expected tasks, and background children outlive the root", () => {
    const { tasks, rootId } = reduce(emptyTree(), events);
    expect(rootId).toBe("task_lead");
    expect(Object.entries(tasks).map(([id, { status, mode }]) => [id, status, mode])).toEqual([
      ["task_lead", "completed", undefined],
      ["call_research", "completed", "sync"],
      ["call_archive", "incomplete", "background"],
      ["call_poster", "completed", "background"],
      ["call_translate", "failed", "sync"],
      ["call_courier", "cancelled", "sync"],
      ["call_station", "completed", "sync"],
    ]);
    const end = events.findIndex(
      ({ type, task_id }) => type === "task.completed" && task_id === rootId,
    );
    expect(new Set(events.slice(end + 1).map(({ task_id }) => task_id))).toEqual(
      new Set(["call_poster", "call_archive"]),
    );
  });

  it("can be read from snapshots", () => {
    const frames = readLines<StreamFrame>("canonical.frames.jsonl");
    expect(checkStream(frames)).toEqual([]);
    const types = new Set<string>(frames.map(({ type }) => type));
    for (const type of [
      "task.snapshot",
      "error",
      "stream.opened",
      "stream.heartbeat",
      "stream.closed",
    ]) {
      expect(types).toContain(type);
    }
    const whole = reduce(emptyTree(), events);
    const late = reduce(emptyTree(), frames);
    expect(late).toMatchObject({ safeCursor: whole.safeCursor, gaps: [], unknown: 0, ignored: 0 });
    for (const frame of frames) {
      if (frame.type !== "task.snapshot") continue;
      const { children: _, ...task } =
        whole.tasks[frame.task_id] ?? ({} as SnapshotTask & { children: [] });
      expect(late.tasks[frame.task_id]).toMatchObject(task);
    }
  });
});
