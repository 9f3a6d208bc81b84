import { DatabaseSync } from "node:sqlite";
import { expect } from "vitest";
import { textOf } from "../../../src/contract/message.ts";
import { sqliteStore } from "../../../src/store/sqlite.ts";
import {
  ids,
  numberOf,
  range,
  record,
  textOfEvent,
} from "../../../src/testing/store-contract/samples.ts";
import { log, sessionId, stepCommits } from "./crash-steps.ts";

/**
 * Opens the database of a killed writer and writes one more step. Checks that every confirmed step is there and that no
 * step is incomplete. `lines` is the output of the writer. Returns the number of steps.
 */
export async function checkDatabase(path: string, lines: readonly string[]): Promise<number> {
  const store = sqliteStore(path);
  try {
    const events = await store.read(log, -1, 1_000_000);
    const texts = events.map(textOfEvent);
    expect(events.map(numberOf)).toEqual(range(0, events.length));

    const messages = await store.session(sessionId);
    const steps = messages.length;
    const written = range(0, steps).map((n) => stepCommits(n).step);
    expect(texts.filter((text) => text.startsWith("step"))).toEqual(
      written.flatMap((step) => (step.events ?? []).map(textOfEvent)),
    );
    expect(messages.map((message) => textOf(message.content))).toEqual(
      written.map((step) => textOf(step.appends?.[0]?.messages[0]?.content ?? [])),
    );
    const found = async (n: number) =>
      (await store.search({ text: String(n), limit: 200 })).map(({ index }) => index);
    if (steps > 0) expect(await found(steps - 1)).toContain(steps - 1);
    expect(await found(steps)).not.toContain(steps);
    expect(await store.task("task_1")).toEqual(
      steps === 0 ? undefined : record({ committedOutput: steps }),
    );
    expect(ids(await store.posts({}))).toEqual(steps === 0 ? [] : [`post_${steps - 1}`]);

    const deltas = texts.filter((text) => text.startsWith("delta"));
    expect(new Set(deltas).size).toBe(deltas.length);
    for (const text of deltas) {
      const [, n] = text.split(" ");
      expect(deltas).toEqual(expect.arrayContaining([`delta ${n} a`, `delta ${n} b`]));
    }
    for (const line of lines) {
      const [what, n] = line.split(" ");
      if (what === "step") expect(Number(n)).toBeLessThan(steps);
      if (what === "deltas") expect(deltas).toContain(`delta ${n} a`);
    }

    const lease = await store.acquire(sessionId, "next", 0);
    expect(lease).toBeDefined();
    if (lease) await store.commit({ lease, log, ...stepCommits(steps).step });
    expect(await store.session(sessionId)).toHaveLength(steps + 1);
    return steps + 1;
  } finally {
    await store.close();
    checkPages(path);
  }
}

function checkPages(path: string): void {
  const database = new DatabaseSync(path);
  expect(database.prepare("PRAGMA integrity_check").all()).toEqual([{ integrity_check: "ok" }]);
  database.close();
}
