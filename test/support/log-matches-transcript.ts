import type { Block, Message } from "../../src/contract/message.ts";
import type { Store, TaskRecord } from "../../src/contract/store.ts";
import { TaskTree } from "../../src/protocol/reduce.ts";
import type { Item, Task, WireBlock } from "../../src/protocol/task.ts";

/** A part of a model's reply in a comparable form. */
type Said = readonly [kind: string, ...facts: readonly string[]];

/**
 * Returns the differences between the log and the transcripts of a conversation: the kept items of every task must be
 * exactly the blocks of its messages. No check of the log alone can find them.
 */
export async function logTranscriptProblems(
  store: Store,
  rootTaskId: string,
): Promise<readonly string[]> {
  const trimmed = await store.snapshot(rootTaskId);
  const tree = new TaskTree().apply(trimmed?.tasks ?? []);
  for (let after = trimmed?.through ?? -1; ; ) {
    const events = await store.read(rootTaskId, after, 1_000);
    if (events.length === 0) break;
    tree.apply(events);
    after += events.length;
  }
  const records = await store.tasks({ rootTaskId });
  const known = new Set(records.map(({ taskId }) => taskId));
  const problems = Object.keys(tree.tree.tasks).flatMap((id) =>
    known.has(id) ? [] : [`${id}: is in the log, but there is no record of it`],
  );
  for (const record of records) {
    const task = tree.tree.tasks[record.taskId];
    const messages = await store.session(record.sessionId);
    const found = task
      ? taskProblems(task, record, messages)
      : ["there is a record of it, but nothing in the log"];
    problems.push(...found.map((problem) => `${record.agentName} ${record.taskId}: ${problem}`));
  }
  return problems;
}

/** The same for one task: its fold, its record and the messages of its session. */
function taskProblems(
  task: Task,
  record: TaskRecord,
  messages: readonly Message[],
): readonly string[] {
  const problems: string[] = [];
  if (task.status !== record.status) {
    problems.push(`the log says ${task.status}, the record ${record.status}`);
  }
  const own = messages.filter((message) => message.metadata?.taskId === record.taskId);
  const blocks = own.flatMap((message) => message.content);
  // Messages from hooks are not replies of the model.
  const said = own.filter(({ role, metadata }) => role === "assistant" && !metadata?.goto);
  const isAtRest = record.status !== "in_progress" && record.status !== "queued";
  // The items of a turn are provisional until its message is written.
  const items = task.output.filter(
    (item, index) => item.type === "tool_result" || isAtRest || index < record.committedOutput,
  );
  problems.push(...differences(items.flatMap(saidOnTheWire), said.flatMap(saidInTheTranscript)));
  problems.push(...resultProblems(task.output, blocks, isAtRest));
  return problems;
}

function differences(wire: readonly Said[], transcript: readonly Said[]): readonly string[] {
  const length = Math.max(wire.length, transcript.length);
  for (let index = 0; index < length; index++) {
    const one = JSON.stringify(wire[index] ?? "nothing");
    const other = JSON.stringify(transcript[index] ?? "nothing");
    if (one !== other)
      return [`block ${index} is ${one} in the log and ${other} in the transcript`];
  }
  return [];
}

function saidOnTheWire(item: Item): readonly Said[] {
  switch (item.type) {
    case "reasoning": {
      const parts = item.summary.length > 0 ? item.summary : (item.content ?? []);
      return parts.map(({ text }) => ["thinking", text]);
    }
    case "message":
      return item.block_list.map(wireBlock);
    case "tool_call":
      return [["tool_use", item.call_id, item.name, sortedJson(item.arguments)]];
    default:
      return [];
  }
}

function wireBlock(block: WireBlock): Said {
  if (block.type === "text") return ["text", block.text];
  if (block.type === "image") return ["media", block.image_url.url];
  return "url" in block ? ["media", block.url] : [block.type];
}

function saidInTheTranscript({ content }: Message): readonly Said[] {
  return content.flatMap(transcriptBlock);
}

function transcriptBlock(block: Block): readonly Said[] {
  if (block.type === "thinking" || block.type === "text") return [[block.type, block.text]];
  if (block.type === "tool_use") {
    const text = block.raw ?? JSON.stringify(block.input);
    return [["tool_use", block.id, block.name, sortedJson(text)]];
  }
  if (!("source" in block)) return [];
  const { source } = block;
  return [
    ["media", "url" in source ? source.url : `data:${source.mimeType};base64,${source.data}`],
  ];
}

/** The log orders results by call, the transcript by completion. */
function resultProblems(
  output: readonly Item[],
  blocks: readonly Block[],
  isAtRest: boolean,
): readonly string[] {
  const problems: string[] = [];
  const stored = new Map<string, string>();
  for (const block of blocks) {
    if (block.type !== "tool_result") continue;
    if (stored.has(block.id)) problems.push(`call ${block.id} has two results in the transcript`);
    stored.set(block.id, block.state);
  }
  const shown = new Set<string>();
  for (const [index, item] of output.entries()) {
    if (item.type !== "tool_result") continue;
    if (shown.has(item.call_id)) problems.push(`call ${item.call_id} has two results in the log`);
    shown.add(item.call_id);
    const call = output.findIndex(
      (other) => other.type === "tool_call" && other.call_id === item.call_id,
    );
    if (call < 0 || call > index) problems.push(`result ${item.id} does not follow its call`);
    const state = stored.get(item.call_id);
    const told = item.status === "in_progress" ? undefined : stateOf(item);
    if (told !== state) {
      problems.push(
        `the result of ${item.call_id} is ${told ?? "open"} in the log, ${state} in the transcript`,
      );
    }
    if (told === undefined && isAtRest && state !== undefined) problems.push(`${item.id} is open`);
  }
  for (const id of stored.keys()) {
    if (!shown.has(id)) problems.push(`the result of ${id} is not in the log`);
  }
  return problems;
}

function stateOf(item: Item & { readonly type: "tool_result" }): string {
  if (item.status === "completed") return "success";
  if (item.status === "cancelled") return "interrupted";
  return item.error?.code === "denied" ? "denied" : "error";
}

/** Normalizes arguments if they are JSON. */
function sortedJson(text: string): string {
  try {
    return JSON.stringify(sorted(JSON.parse(text.trim() === "" ? "{}" : text)));
  } catch {
    return text;
  }
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(entries.map(([key, inner]) => [key, sorted(inner)]));
}
