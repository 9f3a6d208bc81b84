import type { AddCase } from "./cases.ts";
import {
  added,
  begin,
  call,
  childCreated,
  created,
  custom,
  done,
  end,
  finished,
  lifecycle,
  message,
  numbered,
  onBlock,
  result,
  started,
  textBlock,
  textDone,
  withChild,
} from "./events.ts";
import type { Frame } from "./kit.ts";

const log = numbered(...withChild);
const isChild = (event: Frame) => event.task_id === "call_1";
const ofRoot = log.filter((event) => !isChild(event));
const ofChild = log.filter(isChild);
/** A message of a task, closed at once. */
const says = (task_id: string, text: string, output_index = 0): Frame => ({
  ...done(output_index, { ...message(`msg_${task_id}`), block_list: [textBlock(text)] }),
  task_id,
});
const block = (output_index: number, block_index: number, item: Frame): Frame =>
  onBlock("block.done", output_index, block_index, { item });

/** Adds the vectors about links between tasks, and about the document of nested tasks. */
export function addChildCases(add: AddCase, addDocument: AddCase): void {
  addLinks(add);
  addRoots(add);
  addDocuments(addDocument);
}

function addLinks(add: AddCase): void {
  add("child-first", "The whole child, and then its parent.", [...ofChild, ...ofRoot]);
  add("parent-first", "The whole parent, and then its child.", [...ofRoot, ...ofChild]);
  add(
    "parent-alone",
    "A view of the root alone still names its children and how they ended.",
    ofRoot,
    "filtered",
  );
  add("child-alone", "A stream of a child's subtree.", ofChild, "filtered");
  add(
    "started-alone",
    "A child that is only announced.",
    numbered(
      ...begin,
      added(0, result("fco_1", "call_1")),
      started("call_1", 0, "fco_1", { remote: true }),
    ),
    "partial",
  );
  add(
    "finished-alone",
    "The parent says how a child ended that sends no events, and its usage.",
    numbered(
      ...begin,
      finished("call_1", 0, "fco_1", {
        status: "failed",
        usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
      }),
    ),
    "partial",
  );
  add(
    "own-events-win",
    "The child's own events say its agent, its usage and its end.",
    numbered(
      ...begin,
      { ...childCreated("call_1", "fco_1", { agent_id: "real" }) },
      lifecycle(
        "completed",
        { usage: { input_tokens: 5, output_tokens: 5, total_tokens: 10 } },
        "call_1",
      ),
      started("call_1", 0, "fco_1"),
      finished("call_1", 0, "fco_1", {
        status: "failed",
        usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
      }),
    ),
    "partial",
  );
  const promoted = {
    type: "task.child.promoted",
    child_task_id: "call_1",
    call_id: "call_1",
    item_id: "fco_1",
    output_index: 0,
    mode: "background",
    reason: "sync_timeout",
  };
  add(
    "promoted-first",
    "A promotion counts in any order.",
    numbered(...begin, promoted, started("call_1", 0, "fco_1"), childCreated("call_1", "fco_1")),
    "partial",
  );
  add(
    "waits-for-item",
    "A child without an index takes its place when its tool result arrives.",
    numbered(
      childCreated("call_2", "fco_2"),
      childCreated("call_1", "fco_1"),
      ...begin,
      added(0, result("fco_0", "call_0")),
      added(1, result("fco_2", "call_9")),
      added(2, result("fco_9", "call_1")),
    ),
    "partial",
  );
  add(
    "order",
    "Children are ordered by item, then by id; those without an item come last.",
    numbered(
      ...begin,
      ...["call_b", "call_a"].map((id) => childCreated(id, "fco_none")),
      started("call_z", 1, "fco_1"),
      started("call_y", 1, "fco_1"),
      started("call_x", 0, "fco_0"),
    ),
    "partial",
  );
  add(
    "other-parent",
    "A child keeps its first parent, and is not its own.",
    numbered(
      ...begin,
      childCreated("call_1", "fco_1"),
      { ...started("call_1", 0, "fco_1"), task_id: "task_other" },
      { ...started("task_r", 0, "fco_1") },
      { ...created("call_2", { parent_task_id: "call_2" }) },
    ),
    "partial",
  );
  add(
    "parent-says-call",
    "The parent's event says which call and item started a child.",
    numbered(
      ...begin,
      childCreated("call_1", "fco_wrong", { parent_call_id: "call_wrong" }),
      started("call_1", 3, "fco_1"),
      lifecycle("in_progress", { parent_task_id: "task_r", parent_call_id: "call_late" }, "call_1"),
    ),
    "partial",
  );
  add(
    "background",
    "A background child outlives its parent.",
    numbered(
      ...begin,
      done(0, call("fc_1", "call_1", { arguments: "{}" })),
      added(1, result("fco_1", "call_1")),
      started("call_1", 1, "fco_1", { mode: "background" }),
      childCreated("call_1", "fco_1", { mode: "background" }),
      done(1, { type: "tool_result", id: "fco_1", call_id: "call_1", child_task_id: "call_1" }),
      end,
      lifecycle("in_progress", {}, "call_1"),
      says("call_1", "Later."),
      lifecycle("completed", {}, "call_1"),
    ),
  );
  add(
    "cycle",
    "Two tasks that name each other as parent.",
    numbered(
      created("task_a", { parent_task_id: "task_b" }),
      created("task_b", { parent_task_id: "task_a" }),
    ),
    "partial",
  );
}

function addRoots(add: AddCase): void {
  add(
    "root-late",
    "Until the root's events arrive, the topmost task with events is the root.",
    numbered(created("call_2", { parent_task_id: "call_1" }), custom(1, "a", "call_2")),
    "partial",
  );
  add(
    "root-climbs",
    "The root moves up when the events of a parent arrive.",
    numbered(
      created("call_2", { parent_task_id: "call_1" }),
      created("call_1", { parent_task_id: "task_r" }),
      ...begin,
    ),
    "partial",
  );
  add(
    "root-unlinked",
    "A task without a parent becomes the root if the root so far has a parent without events.",
    numbered(created("call_2", { parent_task_id: "call_1" }), created("task_x")),
    "partial",
  );
  add(
    "root-stays",
    "A second task without a parent does not replace the root.",
    numbered(...begin, created("task_x"), custom(1, "a", "task_x")),
    "partial",
  );
  add(
    "root-announced",
    "The announcement of a child moves the root up.",
    numbered(custom(1, "a", "call_1"), custom(1, "a", "task_r"), started("call_1", 0, "fco_1")),
    "partial",
  );
  add("none", "Without events there is no root and no document.", []);
  add(
    "parked-only",
    "A task whose first event is missing has a record, but is not the root.",
    log.slice(1, 3),
    "partial",
  );
}

function addDocuments(add: AddCase): void {
  const twoResults = [
    ...begin,
    added(0, result("fco_1", "call_1")),
    started("call_1", 0, "fco_1"),
    childCreated("call_1", "fco_1"),
    says("call_1", "From the child."),
  ];
  add(
    "placed",
    "A task block says where the child's output stands.",
    numbered(
      ...twoResults,
      { ...textDone("before"), item_id: "fco_1" },
      block(0, 1, { type: "task", task_id: "call_1" }),
      { ...textDone("after", 2), item_id: "fco_1" },
    ),
    "partial",
  );
  add(
    "placed-twice",
    "A second task block stays a reference, and so does one for another task.",
    numbered(
      ...twoResults,
      block(0, 0, { type: "task", task_id: "call_1" }),
      block(0, 1, { type: "task", task_id: "call_1" }),
      block(0, 2, { type: "task", task_id: "call_other" }),
      block(0, 3, { type: "task", task_id: "task_r" }),
      added(1, message()),
      block(1, 0, { type: "task", task_id: "call_1" }),
    ),
    "partial",
  );
  add(
    "in-message",
    "A message may hold a child as well.",
    numbered(
      ...begin,
      added(0, message()),
      started("call_1", 0, "msg_1"),
      childCreated("call_1", "msg_1"),
      says("call_1", "From the child."),
    ),
    "partial",
  );
  add(
    "unplaced",
    "A child whose item is unknown is not in the document; a discarded item holds none.",
    numbered(
      ...begin,
      childCreated("call_1", "fco_none"),
      says("call_1", "Nowhere."),
      added(0, result("fco_2", "call_2")),
      started("call_2", 0, "fco_2"),
      childCreated("call_2", "fco_2"),
      says("call_2", "Discarded."),
      {
        type: "task.output_item.discarded",
        output_index: 0,
        item_id: "fco_2",
        reason: "tool_retry",
      },
    ),
    "partial",
  );
  const deep = Array.from({ length: 104 }, (_, level) => {
    const id = `c${level}`;
    const output = [result(`r${level + 1}`, `c${level + 1}`)];
    const parent = { parent_task_id: `c${level - 1}`, parent_call_id: id };
    const task = { id, object: "task", status: "queued", ...(level > 0 && parent), output };
    return { type: "task.created", task_id: id, task };
  });
  add("deep", "A document has at most 100 levels of tasks.", numbered(...deep), "partial");
  add(
    "content",
    "What only the model sees is not in the document.",
    numbered(
      ...begin,
      added(0, { ...result("fco_1", "call_1"), content: [textBlock("for the model")] }),
      done(0, {
        type: "tool_result",
        id: "fco_1",
        call_id: "call_1",
        content: [textBlock("more")],
        block_list: [textBlock("for people")],
      }),
    ),
    "partial",
  );
  add(
    "seed",
    "The document in its first form: reference numbers as ids, no additions.",
    numbered(
      ...begin,
      done(
        0,
        result("fco_1", "call_1", {
          message_id: "m",
          block_list: [
            {
              type: "text",
              text: "A.[^1]",
              id: "b",
              reference_id: 1,
              annotations: [
                {
                  type: "reference_to_block",
                  reference_id: 1,
                  start_index: 2,
                  end_index: 6,
                  marker: "[^1]",
                },
              ],
            },
            { type: "chart", annotations: ["odd", { type: "x", y: 1 }] },
          ],
        }),
      ),
      added(1, call("fc_1", "call_2", { provider_call_id: "p" })),
    ),
    "partial",
    "seed",
  );
}
