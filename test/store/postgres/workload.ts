import { expect } from "vitest";
import type { Store } from "../../../src/contract/store.ts";
import {
  acquire,
  delta,
  message,
  range,
  record,
  textOfEvent,
} from "../../../src/testing/store-contract/samples.ts";

/** Every so many commits, one is a step: it adds a message and writes the record. */
const stepEvery = 5;

/** Commits to several conversations at once, each waiting for its own; calls `onCommit` after each. */
export async function writeWorkload(
  store: Store,
  { conversations, commits }: { readonly conversations: number; readonly commits: number },
  onCommit: () => void = () => {},
): Promise<void> {
  await Promise.all(
    range(0, conversations).map(async (n) => {
      const [sessionId, log] = [`sess_${n}`, `task_${n}`];
      const lease = await acquire(store, sessionId, { ttlMs: 600_000 });
      for (const i of range(0, commits)) {
        const steps = Math.floor(i / stepEvery);
        const isStep = i % stepEvery === 0;
        await store.commit({
          ...{ lease, log, events: [delta(`${n}:${i}a`, log), delta(`${n}:${i}b`, log)] },
          ...(isStep && {
            appends: [{ sessionId, at: steps, messages: [message(`${n}:${i}`)] }],
            tasks: [record({ taskId: log, sessionId, committedOutput: steps + 1 })],
          }),
        });
        onCommit();
      }
    }),
  );
}

/** Throws unless every commit of the workload is in the store, once and in order. */
export async function expectWorkload(
  store: Store,
  { conversations, commits }: { readonly conversations: number; readonly commits: number },
): Promise<void> {
  for (const n of range(0, conversations)) {
    const [sessionId, log] = [`sess_${n}`, `task_${n}`];
    const texts: string[] = [];
    for (;;) {
      const page = await store.read(log, texts.length - 1, 10_000);
      if (page.length === 0) break;
      texts.push(...page.map(textOfEvent));
    }
    expect(texts).toEqual(range(0, commits).flatMap((i) => [`${n}:${i}a`, `${n}:${i}b`]));
    const steps = range(0, commits).filter((i) => i % stepEvery === 0);
    const written = (await store.session(sessionId)).map(({ content: [block] }) =>
      block?.type === "text" ? block.text : undefined,
    );
    expect(written).toEqual(steps.map((i) => `${n}:${i}`));
    expect((await store.task(log))?.committedOutput).toBe(steps.length);
  }
}
