/** A change of `src/protocol` that makes it wrong, and the level of the kit that must notice. */
export interface Mutant {
  readonly fault: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
  readonly level: "tree" | "document" | "problems";
}

const tree = (fault: string, file: string, from: string, to: string): Mutant => ({
  ...{ fault, file, from, to },
  level: "tree",
});
const document = (fault: string, from: string, to: string): Mutant => ({
  ...{ fault, file: "protocol/materialize.ts", from, to },
  level: "document",
});
const linter = (fault: string, file: string, from: string, to: string): Mutant => ({
  ...{ fault, file, from, to },
  level: "problems",
});

/** Implementations that the kit must reject. */
export const mutants: readonly Mutant[] = [
  tree(
    "applies duplicates",
    "protocol/fold/fold.ts",
    "  if (event.task_seq <= applied) return;\n",
    "",
  ),
  tree(
    "ignores gaps",
    "protocol/fold/fold.ts",
    "const isEarly = (event.prev_task_seq ?? event.task_seq - 1) > applied;",
    "const isEarly = event.task_seq > Number.POSITIVE_INFINITY;",
  ),
  tree(
    "sees gaps in a filtered stream",
    "protocol/fold/fold.ts",
    "const isEarly = (event.prev_task_seq ?? event.task_seq - 1) > applied;",
    "const isEarly = event.task_seq - 1 > applied;",
  ),
  tree(
    "never applies parked events",
    "protocol/fold/fold.ts",
    "  if (draft.gapCount > 0) drain(draft, event.task_id, options);\n",
    "",
  ),
  tree(
    "takes the last number for the cursor",
    "protocol/fold/fold.ts",
    "range === undefined || range[0] > draft.safeCursor + 1",
    "range === undefined",
  ),
  tree(
    "waits for the numbers that a filter left out",
    "protocol/fold/fold.ts",
    "  if (options.filtered && draft.gapCount === 0) skipLeftOut(draft);\n",
    "",
  ),
  tree("changes ended tasks", "protocol/fold/fold.ts", "= !ended && isStamped", "= isStamped"),
  tree(
    "does not count unknown events",
    "protocol/fold/fold.ts",
    "draft.unknown++",
    "draft.unknown += 0",
  ),
  tree(
    "keeps the first task as the root",
    "protocol/fold/fold.ts",
    "    candidate = parentId;\n",
    "    break;\n",
  ),
  tree("accepts __proto__ as an id", "protocol/shape.ts", ' && value !== "__proto__"', ""),
  tree(
    "accepts 201 levels",
    "protocol/shape.ts",
    "const maxNesting = 200;",
    "const maxNesting = 201;",
  ),
  tree(
    "keeps nulls",
    "protocol/shape.ts",
    "if (isAbsent) delete result[name];",
    "if (isAbsent) continue;",
  ),
  tree(
    "refuses nulls",
    "protocol/shape.ts",
    "const isAbsent = sent === null && !field.isRequired;",
    "const isAbsent = sent === null && !field;",
  ),
  tree(
    "refuses unknown words",
    "protocol/shape.ts",
    "isText(value) && (words === undefined ||",
    'isText(value) && (words === undefined ? value !== "boredom" :',
  ),
  tree(
    "takes older snapshots",
    "protocol/fold/fold.ts",
    "fitting.through_task_seq < applied",
    "fitting.through_task_seq < -1",
  ),
  tree(
    "does not move the cursor with the last snapshot",
    "protocol/fold/fold.ts",
    "  if (fitting.final) passSnapshots(draft);\n",
    "",
  ),
  tree(
    "moves the cursor with every snapshot",
    "protocol/fold/fold.ts",
    "  if (fitting.final) passSnapshots(draft);",
    "  passSnapshots(draft);",
  ),
  tree(
    "keeps old fields after a snapshot",
    "protocol/fold/task.ts",
    "if (!keptFields.includes(key)) delete",
    "if (keptFields.length === 0) delete",
  ),
  tree(
    "creates a task twice",
    "protocol/fold/task.ts",
    "if (isCreated && event.task_seq > 0)",
    "if (false)",
  ),
  tree(
    "returns a background child to its parent",
    "protocol/fold/task.ts",
    'if (mode !== undefined && task.mode !== "background")',
    "if (mode !== undefined)",
  ),
  tree(
    "believes the parent about a child's usage",
    "protocol/fold/task.ts",
    "child.usage ??= event.usage",
    "child.usage = event.usage",
  ),
  tree(
    "believes the parent about a child's end",
    "protocol/fold/task.ts",
    "if (child.appliedSeq < 0) child.status",
    "child.status",
  ),
  tree(
    "decides an approval twice",
    "protocol/fold/task.ts",
    "at < 0 || approvals[at]?.decision !== undefined",
    "at < 0",
  ),
  tree(
    "keeps the last hint",
    "protocol/fold/task.ts",
    "editList(draft, task.hints ?? [])",
    "editList(draft, [])",
  ),
  tree(
    "drops assembled fields",
    "protocol/fold/item.ts",
    "const merged = { ...known, ...event.item } as Item;",
    "const merged = { ...event.item } as Item;",
  ),
  tree(
    "uses the index of a discarded item again",
    "protocol/fold/item.ts",
    'present?.type === "omitted" ?',
    'present?.type === "omitted" || present?.type === "discarded" ?',
  ),
  tree(
    "leaves holes in a whole stream",
    "protocol/fold/item.ts",
    "(!options.filtered && !options.legacy) ||",
    "",
  ),
  tree(
    "leaves no holes in a filtered stream",
    "protocol/fold/item.ts",
    "(!options.filtered && !options.legacy) ||",
    "!options.legacy ||",
  ),
  tree(
    "keeps the type image_url",
    "protocol/first-form.ts",
    '  if (block.type === "image_url") normal.type = "image";\n',
    "",
  ),
  tree(
    "closes no parts",
    "protocol/fold/item.ts",
    "item[name] = item[name].map(closed)",
    "item[name] = item[name].slice()",
  ),
  tree(
    "takes previews in any order",
    "protocol/fold/part.ts",
    "if (partial_image_index > (part?.partial_image_index ?? -1))",
    "if (partial_image_index >= 0)",
  ),
  tree(
    "takes annotations in any order",
    "protocol/fold/part.ts",
    "  if (event.annotation_index !== before.length) return false;\n",
    "",
  ),
  tree(
    "appends to complete arguments",
    "protocol/fold/part.ts",
    'item?.type !== type || item.arguments_status === "completed"',
    "item?.type !== type",
  ),
  tree(
    "orders children by arrival",
    "protocol/fold/link.ts",
    "return left === right ? first.id < second.id : left < right;",
    "return left === right || left < right;",
  ),
  tree(
    "gives a child a second parent",
    "protocol/fold/link.ts",
    "  if (parentId !== undefined && parentId !== to.parentTaskId) return false;\n",
    "",
  ),
  tree(
    "does not link by call ids",
    "protocol/fold/link.ts",
    "if (options.legacy && item.call_id",
    "if (false && item.call_id",
  ),
  tree(
    "decodes each chunk by itself",
    "protocol/sse.ts",
    "this.#utf8.decode(chunk, { stream: true })",
    "new TextDecoder().decode(chunk)",
  ),
  tree(
    "ends lines with LF only",
    "protocol/sse.ts",
    "text.split(/\\r\\n?|\\n/)",
    "text.split(/\\n/)",
  ),
  tree("joins data lines without a line end", "protocol/sse.ts", "data}\\n$", "data}x$"),
  document(
    "shows discarded items",
    'item.type === "discarded" || item.type === "omitted"',
    'item.type === "omitted"',
  ),
  document("shows the model's content", "delete view.content;", "view.content ??= undefined;"),
  document(
    "does not name the task of nested items",
    "if (above.size > 1 &&",
    "if (above.size > 1_000 &&",
  ),
  document("expands a task twice", "    unplaced.delete(child.id);\n", ""),
  document(
    "leaves out children without a task block",
    "...[...unplaced.values()].map",
    "...[].map",
  ),
  document("nests without end", "above.size < maxDepth && ", ""),
  document("ignores the first form", "options.seed ? firstFormItem(view) : view", "view"),
  linter("does not check the end", "protocol/check/check.ts", "  checkEnd(check);\n", ""),
  linter("accepts duplicates", "protocol/check/envelope.ts", '"duplicate"', '"sequence"'),
  linter("accepts unknown words", "protocol/check/check.ts", '"word"', '"shape"'),
];
