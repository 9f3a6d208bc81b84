import {
  HarnessAgent,
  type HarnessAgentOptions,
  memoryStore,
  type Store,
  type SubagentDeclaration,
} from "../../../src/index.ts";
import { type Script, scriptedModel } from "../../../src/testing.ts";

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

/** The script of a lead that starts the helper once, in whatever process it runs. */
export const spawnOnce: Script = ({ assistantCount }) =>
  assistantCount === 0 ? [spawn()] : "Done.";
