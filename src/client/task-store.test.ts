import { createElement } from "react";
import { renderToString } from "react-dom/server";
import { expect, it, vi } from "vitest";
import { begin, log, withChild } from "../../test/support/hand-log.ts";
import type { Run } from "../contract/agent.ts";
import type { LogEvent, TaskEvent } from "../protocol/event.ts";
import { useApprovals, useConnection, useTask } from "../react.ts";
import { createTaskStore } from "./task-store.ts";

const events = log(...begin, ...withChild("call_1")) as unknown as readonly LogEvent[];

/** A run whose events arrive when the test sends them. */
function fakeRun() {
  const cursors: (number | undefined)[] = [];
  const sent: TaskEvent[] = [];
  let wake = () => {};
  let left = 0;
  let end: Error | true | undefined;
  const run = {
    events({ after = -1 }: { after?: number } = {}) {
      cursors.push(after);
      let at = after + 1;
      let isLeft = false;
      return {
        [Symbol.asyncIterator]: () => ({
          async next() {
            for (;;) {
              if (isLeft) return { value: undefined, done: true };
              if (at < sent.length) return { value: sent[at++], done: false };
              if (end instanceof Error) throw end;
              if (end) return { value: undefined, done: true };
              await new Promise<void>((resolve) => {
                wake = resolve;
              });
            }
          },
          async return() {
            isLeft = true;
            left += 1;
            wake();
            return { value: undefined, done: true };
          },
        }),
      };
    },
    result: () => Promise.reject(new Error("not asked for")),
  } as unknown as Run<unknown>;
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  return {
    run,
    cursors,
    async send(...more: readonly TaskEvent[]) {
      sent.push(...more);
      wake();
      await settle();
    },
    async finish(error?: Error) {
      end = error ?? true;
      wake();
      await settle();
    },
    left: () => left,
  };
}

/** Frames that a test shows by hand. */
function frames() {
  const updates: (() => void)[] = [];
  return {
    schedule: (update: () => void) => void updates.push(update),
    show: () => {
      for (const update of updates.splice(0)) update();
    },
    updates,
  };
}

it("notifies once per frame, however many events arrive", async () => {
  const { run, send } = fakeRun();
  const frame = frames();
  const store = createTaskStore(run, { schedule: frame.schedule });
  const onChange = vi.fn();
  store.subscribe(onChange);
  const empty = store.getSnapshot();
  await send(...events);
  expect(frame.updates).toHaveLength(1);
  expect(store.getSnapshot()).toBe(empty);
  frame.show();
  expect(onChange).toHaveBeenCalledTimes(1);
  expect(store.getSnapshot().tree.rootId).toBe("task_r");
  expect(store.getSnapshot()).toBe(store.getSnapshot());
});

it("keeps the tasks that an event does not change", async () => {
  const { run, send } = fakeRun();
  const frame = frames();
  const store = createTaskStore(run, { schedule: frame.schedule });
  store.subscribe(() => {});
  const created = events.findIndex(({ task_id }) => task_id === "call_1");
  await send(...events.slice(0, created + 1));
  frame.show();
  const before = store.getSnapshot().tree.tasks;
  await send(events[created + 1] as LogEvent);
  frame.show();
  const after = store.getSnapshot().tree.tasks;
  expect(events[created + 1]?.task_id).toBe("call_1");
  expect(after.call_1).not.toBe(before.call_1);
  expect(after.task_r).toBe(before.task_r);
});

it("follows while there is a subscriber, and resumes from its cursor", async () => {
  const { run, cursors, send, left } = fakeRun();
  const frame = frames();
  const store = createTaskStore(run, { schedule: frame.schedule });
  expect(cursors).toEqual([]);
  const leaveFirst = store.subscribe(() => {});
  const leaveSecond = store.subscribe(() => {});
  await send(...events.slice(0, 3));
  leaveFirst();
  leaveFirst();
  await send();
  expect(left()).toBe(0);
  leaveSecond();
  store.subscribe(() => {})(); // a component that mounts again at once
  store.subscribe(() => {});
  await send();
  expect({ cursors, left: left() }).toEqual({ cursors: [-1], left: 0 });
});

it("stops following without subscribers and reads the rest when one comes back", async () => {
  const { run, cursors, send, left } = fakeRun();
  const frame = frames();
  const store = createTaskStore(run, { schedule: frame.schedule });
  const leave = store.subscribe(() => {});
  await send(...events.slice(0, 3));
  leave();
  await send();
  expect(left()).toBe(1);
  store.subscribe(() => {});
  await send(...events.slice(3));
  frame.show();
  expect(cursors).toEqual([-1, 2]);
  expect(store.getSnapshot().tree.safeCursor).toBe(events.length - 1);
});

it("tells the end of the run, and why it ended", async () => {
  const ended = fakeRun();
  const frame = frames();
  const store = createTaskStore(ended.run, { schedule: frame.schedule });
  store.subscribe(() => {});
  await ended.send();
  frame.show();
  expect(store.getSnapshot().connection).toEqual({ status: "open" });
  await ended.finish();
  frame.show();
  expect(store.getSnapshot().connection).toEqual({ status: "closed" });
  const failed = fakeRun();
  const other = createTaskStore(failed.run, { schedule: frame.schedule });
  other.subscribe(() => {});
  await failed.finish(new Error("gone"));
  frame.show();
  expect(other.getSnapshot().connection).toMatchObject({
    status: "closed",
    error: { message: "gone" },
  });
});

it("uses animation frames, and a timer while the page is hidden", async () => {
  vi.useFakeTimers();
  const requestAnimationFrame = vi.fn();
  vi.stubGlobal("requestAnimationFrame", requestAnimationFrame);
  const { run } = fakeRun();
  const store = createTaskStore(run);
  const onChange = vi.fn();
  store.subscribe(onChange);
  expect(requestAnimationFrame).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(249);
  expect(onChange).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  requestAnimationFrame.mock.calls[0]?.[0]();
  expect(onChange).toHaveBeenCalledTimes(1);
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("rejects what is not a run, and a misspelled option", () => {
  expect(() => createTaskStore({} as never)).toThrow("`run` must be");
  const misspelled = { shedule: () => {} } as object;
  expect(() => createTaskStore(fakeRun().run, misspelled)).toThrow("no option `shedule`");
});

function Page({ run }: { readonly run: Run<unknown> }) {
  const status = useTask(run)?.status ?? "waiting";
  return createElement("p", null, status, useConnection(run)?.status, useApprovals(run).length);
}

it("renders on a server without a connection", () => {
  const { run, cursors } = fakeRun();
  const html = renderToString(createElement(Page, { run })).replaceAll("<!-- -->", " ");
  expect(html).toBe("<p>waiting connecting 0</p>");
  expect(cursors).toEqual([]);
});
