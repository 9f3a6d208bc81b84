import { expect } from "vitest";
import type { Message, ToolResultState } from "../../../../src/contract/message.ts";
import type { Store } from "../../../../src/index.ts";
import { checkStream } from "../../../../src/protocol/check/check.ts";
import { TaskTree } from "../../../../src/protocol/reduce.ts";
import type { Execution } from "../../../support/executions.ts";
import { logTranscriptProblems } from "../../../support/log-matches-transcript.ts";
import { expectLawful, readLog } from "../../support/laws.ts";
import { repeatable, sessionId } from "./crash-cast.ts";

/** What a process has left behind when it died. */
export interface Remains {
  /** Calls whose result was recorded. */
  readonly recorded: ReadonlySet<string>;
  /** Calls whose result was open, children aside: they were running, or waited. */
  readonly open: ReadonlySet<string>;
  /** Those of them that waited, or had. */
  readonly asked: ReadonlySet<string>;
}

/** Looks at what a process has left, which must be lawful although it is not finished. */
export async function remainsIn(store: Store): Promise<Remains> {
  const recorded = new Set<string>();
  const open = new Set<string>();
  const asked = new Set<string>();
  const [root] = await store.tasks({ sessionId });
  if (root === undefined) return { recorded, open, asked };
  const events = await readLog(store, root.taskId);
  expect(checkStream(events, { partial: true })).toEqual([]);
  expect(await logTranscriptProblems(store, root.taskId)).toEqual([]);
  const tree = new TaskTree();
  tree.apply(events);
  for (const { taskId, sessionId } of await store.tasks({ rootTaskId: root.taskId })) {
    for (const item of tree.tree.tasks[taskId]?.output ?? []) {
      if (item.type !== "tool_result" || item.status !== "in_progress") continue;
      if ((await store.task(item.call_id)) === undefined) open.add(item.call_id);
    }
    for (const { content } of await store.session(sessionId)) {
      for (const block of content) {
        if (block.type === "tool_result") recorded.add(block.id);
        if (block.type === "suspension") asked.add(block.callId);
      }
    }
  }
  return { recorded, open, asked };
}

/** A call at the end of the conversation. */
interface EndedCall {
  readonly id: string;
  readonly name: string;
  readonly state: ToolResultState;
  /** How often somebody was asked about it, and how often it was answered. */
  readonly asked: number;
  readonly answered: number;
}

/** How a conversation has ended. */
export interface Outcome {
  readonly calls: readonly EndedCall[];
  /** What was said in it, task by task, without what differs from run to run. */
  readonly transcripts: readonly unknown[];
}

/** Reads the end of a conversation, which must be lawful. */
export async function outcomeIn(store: Store): Promise<Outcome> {
  const [root, ...more] = await store.tasks({ sessionId });
  if (root === undefined || more.length > 0) throw new Error("There is not one root task.");
  await expectLawful(store, root.taskId);
  const calls: EndedCall[] = [];
  const transcripts: unknown[] = [];
  for (const { agentName, status, sessionId } of await store.tasks({ rootTaskId: root.taskId })) {
    const messages = await store.session(sessionId);
    const blocks = messages.flatMap(({ content }) => content);
    const count = (type: "suspension" | "answer", id: string) =>
      blocks.filter((block) => block.type === type && block.callId === id).length;
    for (const block of blocks) {
      if (block.type !== "tool_result") continue;
      const { id, name, state } = block;
      const [asked, answered] = [count("suspension", id), count("answer", id)];
      calls.push({ id, name, state, asked, answered });
    }
    transcripts.push({ agentName, status, said: whatIsSaid(messages) });
  }
  return { calls, transcripts };
}

/**
 * A transcript without ids and usage. The results of calls that may be interrupted are told elsewhere, and what they
 * asked before; of calls side by side the one that ends first comes first, in this run or in that.
 */
function whatIsSaid(messages: readonly Message[]): readonly string[] {
  const said: string[] = [];
  let results: string[] = [];
  for (const { id: _, usage: __, ...message } of messages) {
    const content = message.content.flatMap((block): readonly unknown[] => {
      if (block.type === "suspension" || block.type === "answer") return [];
      if (block.type !== "tool_result" || repeatable.has(block.name)) return [block];
      return [{ type: block.type, name: block.name }];
    });
    if (content.length === 0) continue;
    const text = JSON.stringify({ ...message, content }).replace(
      /\b([a-z]+_)[0-9A-Z]{26}\b|\b[0-9a-f-]{36}\b/g,
      "$1",
    );
    if (message.role === "tool") results.push(text);
    else {
      said.push(...results.sort(), text);
      results = [];
    }
  }
  return [...said, ...results.sort()];
}

/** Expects that after one death every call came to what it had to. */
export function expectRightCalls(
  { calls }: Outcome,
  { recorded, open, asked }: Remains,
  executions: { readonly before: readonly Execution[]; readonly after: readonly Execution[] },
): void {
  for (const call of calls) {
    const count = (list: readonly Execution[]) =>
      list.filter(({ callId }) => callId === call.id).length;
    const facts: Facts = {
      ...call,
      ran: count(executions.before),
      ranAgain: count(executions.after),
      wasRecorded: recorded.has(call.id),
      wasOpen: open.has(call.id),
      hadAsked: asked.has(call.id),
    };
    expect(problemOf(facts), JSON.stringify(facts)).toBeUndefined();
  }
}

interface Facts extends EndedCall {
  readonly ran: number;
  readonly ranAgain: number;
  readonly wasRecorded: boolean;
  readonly wasOpen: boolean;
  readonly hadAsked: boolean;
}

function problemOf(call: Facts): string | undefined {
  const { name, state, ran, ranAgain, wasRecorded, wasOpen, hadAsked } = call;
  const isChild = name === "helper" || name === "clerk";
  const isAsking = name === "sign" || name === "transfer" || name === "outside";
  if (wasRecorded && ranAgain > 0) return "its result was recorded, and it ran again";
  if (state !== "success" && state !== "interrupted") return "it failed";
  if (state === "interrupted") {
    if (repeatable.has(name) || isChild) return "it was interrupted, and could have gone on";
    if (!wasOpen) return "it was interrupted, and was not running";
    return ranAgain > 0 ? "it ran again, and was interrupted" : undefined;
  }
  if (isChild) return undefined;
  if (wasOpen && !hadAsked && !repeatable.has(name)) return "its effect is unknown";
  if (isAsking && (call.asked !== 1 || call.answered !== 1)) return "it was not asked once";
  if (name === "outside") return undefined;
  if (ran + ranAgain === 0) return "it did not run";
  return ran + ranAgain === 1 || repeatable.has(name) ? undefined : "it ran twice";
}
