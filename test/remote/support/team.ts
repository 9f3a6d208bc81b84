import { z } from "zod";
import { type AgentSettings, settingsBehind } from "../../../src/agent/loop/settings.ts";
import type { RemoteSubagent } from "../../../src/harness/subagents/declaration.ts";
import {
  HarnessAgent,
  memoryStore,
  type Store,
  type SubagentDeclaration,
  tool,
} from "../../../src/index.ts";
import { type Script, scriptedModel } from "../../../src/testing.ts";
import { type Served, serveAgents } from "../../client/support/serving.ts";

/** A tool that needs approval. */
const remove = tool({
  name: "remove",
  description: "Removes a file.",
  input: z.object({ path: z.string() }),
  needsApproval: true,
  execute: ({ path }) => `removed ${path}`,
});

/** A tool whose results can be cited. */
const look = tool({
  name: "look",
  description: "Looks at something.",
  input: z.object({ at: z.string() }),
  citable: true,
  execute: ({ at }) => `saw ${at}`,
});

/** An agent with a script, without files. */
export function scripted(
  name: string,
  script: Script,
  more: Partial<ConstructorParameters<typeof HarnessAgent>[0]> = {},
  how: Parameters<typeof scriptedModel>[1] = {},
): HarnessAgent {
  return new HarnessAgent({
    ...{ name, model: scriptedModel(script, how), filesystem: false, store: memoryStore() },
    ...{ tools: [remove, look], modelExecution: { maxAttempts: 1 } },
    ...more,
  });
}

/** The declaration of an agent on a server of this machine. */
export function on(
  { server }: Pick<Served, "server">,
  agent: string,
  more: Partial<RemoteSubagent> = {},
): SubagentDeclaration {
  return {
    name: agent,
    description: `Does what ${agent} does.`,
    url: `${server.url}/agents/${agent}`,
    headers: { authorization: `Bearer ${server.token}` },
    allowPrivateNetwork: true,
    ...more,
  } as SubagentDeclaration;
}

/** A turn that spawns a subagent. */
export function spawn(agent: string, task = "Do it.", more: object = {}) {
  return { call: "agent_spawn", input: { agent_id: agent, task, ...more } };
}

/** Serves one agent on its own store. */
export function serveOne(agent: HarnessAgent): Promise<Served> {
  return serveAgents([agent]);
}

/** The store of an agent. */
export function storeOf(agent: HarnessAgent): Store {
  return (settingsBehind(agent) as AgentSettings).store;
}

/** The one root task of a session. */
export async function rootOf(store: Store, sessionId: string): Promise<string> {
  const [root] = await store.tasks({ sessionId });
  return root?.taskId ?? "";
}
