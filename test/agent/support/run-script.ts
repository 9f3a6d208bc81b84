import { expect } from "vitest";
import { type Message, type ToolResultBlock, textOf } from "../../../src/contract/message.ts";
import {
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  type Reply,
  type Store,
} from "../../../src/index.ts";
import { emptyTree, reduce } from "../../../src/protocol/reduce.ts";
import type { Item, Tree } from "../../../src/protocol/task.ts";
import type { TaskEvent } from "../../../src/protocol.ts";
import { taskEventSchema } from "../../../src/schema/schemas.ts";
import { type Script, type ScriptedModel, scriptedModel } from "../../../src/testing.ts";
import { keepEvents } from "../../support/keep-events.ts";
import { expectLawful, readLog } from "./laws.ts";

/** Everything that is left of a run that was played to its rest. */
export interface Played {
  readonly agent: ReActAgent;
  readonly model: ScriptedModel;
  readonly store: Store;
  readonly reply: Reply;
  readonly messages: readonly Message[];
  readonly events: readonly TaskEvent[];
  readonly tree: Tree;
  readonly output: readonly Item[];
  /** The results in the transcript, in the order in which they came. */
  readonly results: readonly ToolResultBlock[];
}

/** Plays a script on a new agent, expects that the laws hold, and gives what is left. */
export async function runScript(
  script: Script,
  options: Partial<ReActAgentOptions> = {},
): Promise<Played> {
  const model = scriptedModel(script);
  const store = (options.store as Store | undefined) ?? memoryStore(keepEvents);
  const agent = new ReActAgent({ name: "lead", model, ...options, store });
  const reply = await agent.call("Go.", { sessionId: "s" });
  return { agent, model, store, reply, ...(await whatIsLeft(store, reply)) };
}

/** What a task has left behind in its store; expects that the laws hold. */
export async function whatIsLeft(store: Store, { task }: Pick<Reply, "task">) {
  await expectLawful(store, task.rootTaskId);
  const messages = await store.session(task.sessionId);
  const events = await readLog(store, task.rootTaskId);
  // As they are in the process, and not only on the wire.
  for (const event of events) expect(taskEventSchema.safeParse(event).error).toBeUndefined();
  const tree = reduce(emptyTree(), events as TaskEvent[]);
  const output = tree.tasks[task.taskId]?.output ?? [];
  const results = messages.flatMap(({ content }) =>
    content.flatMap((block) => (block.type === "tool_result" ? [block] : [])),
  );
  return { messages, events, tree, output, results };
}

/** A result in short: its state and what the model reads. */
export function inShort({ state, output }: ToolResultBlock): string {
  return `${state}: ${textOf(output)}`;
}
