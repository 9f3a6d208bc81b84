import type { Message } from "../../../src/contract/message.ts";
import type { Store } from "../../../src/contract/store.ts";
import { HarnessAgent, type HarnessAgentOptions, memoryStore } from "../../../src/index.ts";
import type { TaskEvent } from "../../../src/protocol/event.ts";
import {
  type ScriptedModel,
  type ScriptedRequest,
  type ScriptedTurn,
  scriptedModel,
} from "../../../src/testing.ts";
import { readLog } from "../../agent/support/laws.ts";
import { keepEvents } from "../../support/keep-events.ts";
import { workspaceWith } from "../agent/support/workspace.ts";
import { isSummary, readPage } from "./pages.ts";

export interface Reader {
  readonly agent: HarnessAgent;
  readonly model: ScriptedModel;
  readonly store: Store;
}

/** An agent that reads pages until it has made `pages` calls in its task, and summarises when it is asked to. */
export function reader(
  pages: number,
  summarise: (request: ScriptedRequest) => ScriptedTurn | Promise<ScriptedTurn>,
  options: Partial<HarnessAgentOptions> = {},
): Reader {
  const store = (options.store as Store | undefined) ?? memoryStore(keepEvents);
  let page = 0;
  const model = scriptedModel((request) => {
    if (isSummary(request)) return summarise(request);
    if (page >= pages) {
      page = 0;
      return "All pages are read.";
    }
    return { call: "read_page", input: { page: ++page } };
  });
  const agent = new HarnessAgent({
    name: "reader",
    model,
    tools: [readPage],
    subagents: false,
    maxIters: pages + 5,
    workspace: workspaceWith(),
    compaction: { window: 10_000, triggerTokens: 6_000 },
    ...options,
    store,
  });
  return { agent, model, store };
}

/** The values of the compaction events of a log. */
export async function compactions(store: Store, rootTaskId: string) {
  const isCompaction = (event: TaskEvent) =>
    event.type === "task.custom" && event.name === "rivulet.compaction";
  const events = (await readLog(store, rootTaskId)).filter(isCompaction);
  return events.map((event) => (event as { value: unknown }).value as Record<string, unknown>);
}

/** The compaction blocks of a session. */
export const blocksOf = (messages: readonly Message[]) =>
  messages.flatMap(({ content }) => content.filter((block) => block.type === "compaction"));

/** The requests that are no summaries. */
export const turnsOf = ({ calls }: ScriptedModel) => calls.filter((call) => !isSummary(call));
