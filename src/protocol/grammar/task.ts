import {
  isAny,
  isFlag,
  isId,
  isIndex,
  isJson,
  isText,
  isTime,
  isTrue,
  optional,
} from "../shape.ts";
import { cost, errorShape, item, modelUsage, usage } from "./item.ts";

export const suspension = {
  /** The reason why the task waits. */
  reason: "~suspended",
  /** The approvals that the task waits for. */
  approval_ids: optional([isId]),
  /** The children that the task waits for. */
  waiting_on: optional([isId]),
  /** When the task stops waiting. */
  expires_at: optional(isTime),
} as const;
export const approvalRequest = {
  /** The id of the approval. */
  approval_id: isId,
  /** The question: whether a call may run (`tool_call`), a question, the result of an `external` tool, a `form`, an `auth`, or whether to continue after a `stop`. */
  kind: "~approval",
  /** The id of the tool call; unique in the log. */
  call_id: optional(isId),
  /** The name of the tool. */
  name: optional(isText),
  /** The arguments of the call as JSON text. */
  arguments: optional(isText),
  /** The id of the item at `output_index`. */
  item_id: optional(isId),
  /** The position of the item in the task's `output`. */
  output_index: optional(isIndex),
  /** The question for a person. */
  message: optional(isText),
  /** The decisions that are possible. */
  options: optional(["~decision"]),
  /** The JSON Schema of the answer. */
  response_schema: optional(isJson),
  /** When the approval expires. */
  expires_at: optional(isTime),
  /** True if `name` and `arguments` are not those of the tool call, because a hook or the schema changed them. */
  edited: optional(isTrue),
} as const;
export const approvalState = {
  ...approvalRequest,
  /** The decision; an approval is pending until it has one. */
  decision: optional("~decision"),
  /** The user that decided. */
  by: optional(isText),
  /** The reason of the decision. */
  reason: optional(isText),
} as const;
export const hint = {
  /** The id of the hint. */
  id: isId,
  /** The text. */
  text: isText,
  /** The background task that the hint is from. */
  from_task_id: optional(isId),
} as const;
export const taskObject = {
  /** The `task_id` of the event. */
  id: isId,
  /** Always `task`. */
  object: "=task",
  /** The status of the task; a lifecycle event's `type` says the same. */
  status: "~task",
  /** The name of the agent. */
  agent_id: optional(isId),
  /** The session that the task belongs to. */
  session_id: optional(isId),
  /** Of a child: the task that started it. */
  parent_task_id: optional(isId),
  /** Of a child: the call that started it. */
  parent_call_id: optional(isId),
  /** Of a child: the tool result that holds it. */
  parent_item_id: optional(isId),
  /** Whether the parent waits for the child (`sync`) or not (`background`). */
  mode: optional("~mode"),
  /** True if the child runs on another server. */
  remote: optional(isFlag),
  /** When the event was made; does not define the order. */
  created_at: optional(isTime),
  /** When the task ended. */
  completed_at: optional(isTime),
  /** The tokens of this task so far, without its children. */
  usage: optional(usage),
  /** On an end: the usage of all descendants that had ended by then. */
  subtree_usage: optional(usage),
  /** Of a failed task: the reason. */
  error: optional(errorShape),
  /** Of a cancelled task: the reason that was given. */
  reason: optional(isText),
  /** Of an incomplete task: why it was cut short. */
  incomplete_details: optional({ reason: "~incomplete_details" }),
  /** Why the agent stopped generating. */
  generate_reason: optional("~generate_reason"),
  /** The structured output of the task, if one was asked for. */
  structured: optional(isAny),
  /** Values of the application. */
  metadata: optional(isJson),
  /** The items of the task; sent in snapshots and by `GET /v1/tasks/{id}`. */
  output: optional([item]),
} as const;
export const snapshotTask = {
  ...taskObject,
  /** The approvals of the task, in the order of their requests. */
  approvals: optional([approvalState]),
  /** True between `task.cancelling` and the end. */
  cancelling: optional(isFlag),
  /** While the task is suspended: the fields of `task.suspended`. */
  suspension: optional(suspension),
  /** The cost of this task so far, without its children. */
  cost: optional(cost),
  /** The shares of the models in `usage`. */
  by_model: optional([modelUsage]),
  /** All hints of the task, in order. */
  hints: optional([hint]),
  /** The last value of each `task.custom`, by name. */
  state: optional(isJson),
  /** Of a child: the position of that tool result in the parent's `output`. */
  parent_output_index: optional(isIndex),
} as const;
/** The task of a lifecycle event, with the status that the event gives it. */
export const taskThatIs = <const Status extends string>(status: Status) =>
  ({
    /** The fields that changed, with the new `status`. */
    task: { ...taskObject, status: `~${status}` as const },
  }) as const;
