import { emptyTree, reduce, type TaskStatus, type Tree } from "rivulet/protocol";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Heals } from "./heals.ts";

const reconnecting = { status: "reconnecting", attempt: 1 } as const;
const open = { status: "open" } as const;

function treeOf(status: TaskStatus): Tree {
  const task = { id: "task_r", object: "task", status: "queued" } as const;
  const at = { task_id: "task_r", task_seq: 0, sequence_number: 0, created_at: 0 };
  const tree = reduce(emptyTree(), { type: "task.created", ...at, task });
  const [node] = Object.values(tree.tasks);
  if (node === undefined) throw new Error("The tree has no task.");
  return { ...tree, tasks: { task_r: { ...node, status } } };
}

describe("an interruption", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  function interrupted(tree: Tree): Heals {
    const heals = new Heals();
    heals.follow(reconnecting, tree, 7, () => {});
    vi.advanceTimersByTime(500);
    expect(heals.healing?.status).toBe("held");
    return heals;
  }

  it("of a running agent lasts until its next event", () => {
    const tree = treeOf("in_progress");
    const heals = interrupted(tree);
    heals.follow(open, tree, 7, () => {});
    expect(heals.healing?.status).toBe("held");
    heals.follow(open, tree, 8, () => {});
    expect(heals.healing?.status).toBe("healed");
  });

  it("ends with the run, if the connection closes before it was seen open", () => {
    const heals = interrupted(treeOf("in_progress"));
    heals.follow({ status: "closed" }, treeOf("completed"), 9, () => {});
    expect(heals.healing?.status).toBe("healed");
    vi.advanceTimersByTime(10_000);
    expect(heals.healing).toBeUndefined();
  });

  it("of a run that waits for a person ends with the connection", () => {
    const tree = treeOf("suspended");
    const heals = interrupted(tree);
    heals.follow(open, tree, 7, () => {});
    expect(heals.healing?.status).toBe("healed");
  });
});
