// Real agents emit the events of seed 004's samples, event for event.
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { checkStream } from "../../../src/protocol/check/check.ts";
import type { LogEvent } from "../../../src/protocol/event.ts";
import type { TaskEvent } from "../../../src/protocol.ts";
import { collect } from "../../agent/support/collect.ts";
import { corrected, inFirstForm, type PlainEvent } from "./seeds/first-form.ts";
import { askingAgent, weatherAgent } from "./seeds/weather.ts";

function samples(name: string): readonly PlainEvent[] {
  const path = new URL(`../../corpus/seed-004/${name}.jsonl`, import.meta.url);
  const lines = readFileSync(path, "utf8").trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line));
}

const isResult = (event: TaskEvent, type: string) =>
  event.type === type && "item" in event && event.item.type === "tool_result";

/** Returns the part of a run that the samples show: the events of the item that holds the child. */
function heldIn(events: readonly LogEvent[]): readonly LogEvent[] {
  const root = events[0]?.task_id;
  const own = (type: string) => (event: LogEvent) =>
    event.task_id === root && isResult(event, type);
  const first = events.findIndex(own("task.output_item.added"));
  return events.slice(first, events.findIndex(own("task.output_item.done")) + 1);
}

it("matches the sample of an agent's own stream", async () => {
  const events = (await collect(weatherAgent().run("Weather?"))) as readonly LogEvent[];
  expect(checkStream(events)).toEqual([]);
  expect(inFirstForm(events)).toEqual(corrected(samples("response")));
});

it("matches the sample of the agent as a child", async () => {
  const events = (await collect(askingAgent().run("Weather?"))) as readonly LogEvent[];
  const own = events.filter(({ source }) => source !== undefined);
  expect(inFirstForm(own)).toEqual(corrected(samples("child")));
});

it("matches the sample of the child inside its parent", async () => {
  const events = (await collect(askingAgent().run("Weather?"))) as readonly LogEvent[];
  expect(checkStream(events)).toEqual([]);
  const shown = inFirstForm(heldIn(events));
  expect(shown).toEqual(corrected(samples("embedded")));
  expect(shown).toHaveLength(24);
});
