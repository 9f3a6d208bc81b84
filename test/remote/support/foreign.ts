import { expect } from "vitest";
import type { HarnessAgentOptions, Store, SubagentDeclaration } from "../../../src/index.ts";
import { HarnessAgent, memoryStore } from "../../../src/index.ts";
import { checkStream, type LogEvent } from "../../../src/protocol/index.ts";
import { streamedText } from "../../../src/protocol/item-content.ts";
import { emptyTree, reduce } from "../../../src/protocol/reduce.ts";
import { type Script, scriptedModel } from "../../../src/testing/index.ts";
import { expectLawful, readLog } from "../../agent/support/laws.ts";

/** A call that starts the helper and waits for it. */
export const spawn = (more: object = {}) => ({
  call: "agent_spawn",
  input: { agent_id: "helper", task: "Help.", timeout_seconds: 60, ...more },
});

/** A lead whose helper runs on a server that speaks another protocol; its header is a secret. */
export function leadOf(
  place: Pick<SubagentDeclaration, "url" | "protocol" | "a2a"> & { readonly limits?: object },
  script: Script = [[spawn()], "Done."],
  options: Partial<HarnessAgentOptions> & { readonly secret?: string } = {},
) {
  const { secret = "Bearer s3cret-0123456789", ...rest } = options;
  const store = (options.store as Store | undefined) ?? memoryStore();
  const helper = {
    name: "helper",
    description: "Helps.",
    headers: { authorization: secret },
    allowPrivateNetwork: true,
    limits: { lostAfterMs: 3_000 },
    ...place,
  } as SubagentDeclaration;
  const lead = new HarnessAgent({
    ...{ name: "lead", model: scriptedModel(script), filesystem: false, leaseMs: 1_000 },
    ...rest,
    ...{ store, subagents: [helper] },
  });
  return { lead, store };
}

/** Checks the whole log against the rules and the laws, and returns the last child. */
export async function childOf(store: Store, rootTaskId: string) {
  const log = (await readLog(store, rootTaskId)) as readonly LogEvent[];
  expect(checkStream(log)).toEqual([]);
  await expectLawful(store, rootTaskId);
  expect(JSON.stringify(log)).not.toContain("s3cret");
  expect(JSON.stringify(await store.tasks({ rootTaskId }))).not.toContain("s3cret");
  const tasks = Object.values(reduce(emptyTree(), log).tasks);
  const child = tasks.findLast(({ agentId }) => agentId === "helper");
  if (child === undefined) throw new Error("There is no child.");
  const items = child.output.map((item) => {
    const text = item.type === "tool_call" ? `${item.name} ${item.arguments}` : streamedText(item);
    return `${item.type}: ${text}`.trimEnd();
  });
  return { log, child, items };
}
