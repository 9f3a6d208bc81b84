import { describe, expect, it } from "vitest";
import type { TaskSnapshot } from "../protocol/event.ts";
import type { Item, SnapshotTask } from "../protocol/task.ts";
import { replay } from "./replay.ts";

const textBlock = (text: string) => ({ type: "text", text }) as const;

function message(text: string, status: Item["status"]): Item {
  const block_list = [textBlock(text)];
  return { type: "message", id: text, status, role: "assistant", block_list };
}
function call(callId: string): Item {
  const id = `fc_${callId}`;
  return {
    type: "tool_call",
    id,
    status: "completed",
    call_id: callId,
    name: "x",
    arguments: "{}",
  };
}
function result(callId: string, status: Item["status"], more: object = {}): Item {
  const block_list = [textBlock(`of ${callId}`)];
  return { type: "tool_result", id: `fco_${callId}`, status, call_id: callId, block_list, ...more };
}
function snapshot(id: string, output: readonly Item[], more: Partial<SnapshotTask> = {}) {
  const task = { id, object: "task", status: "in_progress", output, ...more } as SnapshotTask;
  const through = { through_sequence_number: 9, through_task_seq: 9, created_at: 0 };
  return { type: "task.snapshot", task_id: id, ...through, task } satisfies TaskSnapshot;
}
/** Who says what, of which item. */
function told(...snapshots: readonly TaskSnapshot[]): readonly string[] {
  return replay(snapshots).map((event) => {
    const index = "output_index" in event ? ` ${event.output_index}` : "";
    const delta = "delta" in event ? ` ${event.delta}` : "";
    return `${event.task_id} ${event.type.replace("task.", "")}${index}${delta}`;
  });
}

describe("replay", () => {
  it("tells each item, and each turn as over that has no open item", () => {
    const gone: Item = { type: "discarded", id: "d", reason: "edited" };
    const output = [message("a", "completed"), call("c"), result("c", "completed"), gone];
    const begun = [
      "t snapshot",
      "t output_item.added 0",
      "t text.delta 0 a",
      "t output_item.done 0",
      "t output_item.added 1",
      "t output_item.done 1",
      "t usage",
      "t output_item.added 2",
      "t output_item.done 2",
    ];
    expect(told(snapshot("t", output))).toEqual(begun);
    expect(told(snapshot("t", [...output, message("b", "completed")]))).toEqual([
      ...begun,
      "t output_item.added 4",
      "t text.delta 4 b",
      "t output_item.done 4",
      "t usage",
    ]);
    expect(told(snapshot("t", [...output, message("b", "in_progress")]))).toEqual([
      ...begun,
      "t output_item.added 4",
      "t text.delta 4 b",
    ]);
  });

  it("tells what a tool has said so far only while it runs", () => {
    const output = [call("c"), result("c", "in_progress")];
    expect(told(snapshot("t", output)).slice(-2)).toEqual([
      "t output_item.added 1",
      "t text.delta 1 of c",
    ]);
  });

  it("tells a child within its call, and one whose call is unknown after all others", () => {
    const output = [call("c"), result("c", "completed", { child_task_id: "c" })];
    const ended = { status: "completed" } as const;
    const root = snapshot("t", output, ended);
    expect(told(root, snapshot("c", [], ended), snapshot("other", []))).toEqual([
      "t snapshot",
      "t output_item.added 0",
      "t output_item.done 0",
      "t usage",
      "t output_item.added 1",
      "c snapshot",
      "c completed",
      "t output_item.done 1",
      "t completed",
      "other snapshot",
    ]);
  });

  it("tells what is asked, and nothing of what was answered", () => {
    const approvals = [
      { approval_id: "one", kind: "tool_call", call_id: "c", name: "x", decision: "approve" },
      { approval_id: "two", kind: "tool_call", call_id: "d", name: "y", arguments: "{}" },
    ] as const;
    const suspension = { reason: "approval", approval_ids: ["two"] } as const;
    const task = { status: "suspended", approvals, suspension } as const;
    expect(replay([snapshot("t", [], task)])).toMatchObject([
      { type: "task.snapshot" },
      { type: "task.approval.requested", approval_id: "two", call_id: "d", name: "y" },
      { type: "task.suspended", reason: "approval", approval_ids: ["two"] },
    ]);
  });
});
