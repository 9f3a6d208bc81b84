import {
  type Block,
  type Message,
  type ToolResultBlock,
  textOf,
} from "../../../../src/contract/message.ts";
import type { Commit } from "../../../../src/contract/store.ts";
import { isTerminal } from "../../../../src/protocol/task.ts";
import { endWords } from "./children.ts";
import { callsOf } from "./plan.ts";
import type { Played } from "./play.ts";
import { sessionId as rootSession } from "./stage.ts";
import type { TrueTask, Truth } from "./truth.ts";

/** How the end of a background task was delivered. */
interface Delivery {
  readonly endedAt: number;
  toldAt?: number;
}

/**
 * Checks that the parent's model gets the end of every background task exactly once: with its next request, or earlier as
 * the result of a call.
 */
export async function deliveryProblems(played: Played, truth: Truth): Promise<readonly string[]> {
  const problems: string[] = [];
  const deliveries = new Map<string, Delivery>();
  for (const { at, commit } of played.witness.commits) {
    for (const taskId of rowsIn((commit.posts ?? []).map(({ id }) => id))) {
      const task = truth.byTaskId.get(taskId);
      if (deliveries.has(taskId)) problems.push(`${task?.plan.key} is posted twice`);
      if (!endsIn(commit, taskId)) problems.push(`${task?.plan.key} is posted without its end`);
      deliveries.set(taskId, { endedAt: at });
    }
    for (const taskId of rowsIn(commit.taken ?? [])) {
      const task = truth.byTaskId.get(taskId);
      const delivery = deliveries.get(taskId);
      if (task === undefined || delivery === undefined) {
        problems.push(`${taskId} is delivered before its end`);
        continue;
      }
      if (delivery.toldAt !== undefined) problems.push(`${task.plan.key} is delivered twice`);
      delivery.toldAt = at;
      if (!isToldIn(commit, task)) problems.push(`${task.plan.key} is taken without a delivery`);
    }
    for (const key of readIn(commit, truth)) {
      const task = truth.byKey.get(key);
      const isUntold = task && deliveries.get(task.record.taskId)?.toldAt === undefined;
      if (isUntold && task.record.mode === "background") {
        problems.push(`${key} was read, and will be told again`);
      }
    }
  }
  for (const task of truth.byTaskId.values()) {
    const { mode, taskId, depth } = task.record;
    if (deliveries.has(taskId) !== (mode === "background" && depth > 0)) {
      problems.push(`${task.plan.key} is ${mode}, and its end is posted as if it were not`);
    }
  }
  problems.push(...hintProblems(truth, deliveries));
  problems.push(...promptProblems(played, truth, deliveries));
  const left = await played.store.posts({ sessionId: rootSession });
  if (left.length > 0) problems.push(`the root has not heard of ${left.map(({ id }) => id)}`);
  return problems;
}

function rowsIn(ids: readonly string[]): readonly string[] {
  return ids.flatMap((id) => (id.startsWith("done:") ? [id.slice("done:".length)] : []));
}

function endsIn({ tasks = [] }: Commit, taskId: string): boolean {
  return tasks.some((record) => record.taskId === taskId && isTerminal(record.status));
}

/** Returns whether a commit delivers the real end of a task to its parent's model. */
function isToldIn({ appends = [] }: Commit, { record, plan }: TrueTask): boolean {
  return appends.some(
    ({ sessionId, messages }) =>
      sessionId === record.parentSessionId &&
      messages.some((message) => {
        const text = saidIn(message);
        const isOk = record.status !== "completed" || text.includes(`⟨${plan.key}⟩ It is done.`);
        const isError = record.status !== "failed" || text.includes(`⟨${plan.key}⟩ broke`);
        const word = `status: ${endWords[record.status]}`;
        return text.includes(record.agentKey) && text.includes(word) && isOk && isError;
      }),
  );
}

function saidIn({ content }: Message): string {
  return content
    .flatMap((block): readonly Block[] => (block.type === "tool_result" ? block.output : [block]))
    .map((block) => ("text" in block ? block.text : ""))
    .join("\n");
}

/** Returns the children whose end is in the results of a commit. */
function readIn({ appends = [] }: Commit, truth: Truth): readonly string[] {
  return appends.flatMap(({ messages }) =>
    messages.flatMap((message) => {
      const reader = truth.byTaskId.get(message.metadata?.taskId ?? "");
      return message.content.flatMap((block) =>
        reader && block.type === "tool_result" ? readBy(reader, block) : [],
      );
    }),
  );
}

function readBy(reader: TrueTask, result: ToolResultBlock): readonly string[] {
  const uses = reader.messages.flatMap(({ content }) => content);
  const use = uses.find((block) => block.type === "tool_use" && block.id === result.id);
  const key = use?.type === "tool_use" ? use.providerCallId : undefined;
  const call = callsOf(reader.plan).find((one) => one.key === key);
  if (call === undefined) return [];
  const words = [...textOf(result.output).matchAll(/^status: (\w+)$/gm)].map(([, word]) => word);
  const keys =
    call.type === "spawn" || call.type === "send"
      ? [call.key]
      : call.type === "output"
        ? [call.of]
        : call.type === "wait" && call.of !== "all"
          ? [...new Set(call.of)]
          : [];
  const ends: readonly (string | undefined)[] = Object.values(endWords);
  return keys.filter((_, index) => words[index] !== undefined && ends.includes(words[index]));
}

/** Checks that each hint is in the transcript of the parent exactly once. */
function hintProblems(
  { byTaskId, sessions }: Truth,
  deliveries: ReadonlyMap<string, Delivery>,
): readonly string[] {
  const told = new Set<string>();
  return [...sessions].flatMap(([sessionId, messages]) =>
    messages.flatMap(({ content }) =>
      content.flatMap((block) => {
        const taskId = block.type === "hint" ? block.metadata?.taskId : undefined;
        if (taskId === undefined) return [];
        const { plan, record } = byTaskId.get(taskId) ?? {};
        const isRight = record?.parentSessionId === sessionId && !told.has(taskId);
        told.add(taskId);
        if (isRight && deliveries.get(taskId)?.toldAt !== undefined) return [];
        return [`${sessionId} has a hint too many of ${plan?.key}`];
      }),
    ),
  );
}

/** Checks that the inbox is read before each request, so that the prompt has every earlier end once. */
function promptProblems(
  { asked, witness }: Played,
  { byKey, byTaskId }: Truth,
  deliveries: ReadonlyMap<string, Delivery>,
): readonly string[] {
  return asked.flatMap(({ key, at, prompt }) => {
    const session = byKey.get(key)?.record.sessionId;
    const looked = witness.looks.findLast((one) => one.sessionId === session && one.at < at);
    const hints = prompt.flatMap(({ role, content }) =>
      role === "user" ? content.flatMap((part) => (part.type === "text" ? [part.text] : [])) : [],
    );
    return [...deliveries].flatMap(([taskId, { endedAt, toldAt = Infinity }]) => {
      const child = byTaskId.get(taskId);
      if (child?.record.parentSessionId !== session) return [];
      const told = hints.filter((text) => text.includes(`\ntask_id: ${taskId}\n`)).length;
      if (told > 1) return [`${key} reads ${told} times of ${child?.plan.key}`];
      const isDue = endedAt < (looked?.at ?? 0);
      return isDue && toldAt > at ? [`${key} is asked and not told of ${child?.plan.key}`] : [];
    });
  });
}
