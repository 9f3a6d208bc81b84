import { McpServer, type ServerContext } from "@modelcontextprotocol/server";
import { toolBehind } from "../../agent/index.ts";
import type { Agent } from "../../contract/index.ts";
import { addDocuments } from "./documents.ts";
import type { McpServed } from "./offer.ts";
import { openState, stateKeyOf } from "./request-state.ts";
import type { McpCall } from "./runs.ts";
import { addSkills } from "./skills.ts";
import { addTasks } from "./tasks.ts";
import { addAgentTool, addOwnTool, addTools, ownTools } from "./tools.ts";

/** How long a client of 2025-11-25 may take to answer a question. */
const roundTimeoutMs = 24 * 60 * 60_000;
const maxRounds = 100;
/** What a server offers is the same as long as it runs. */
const fixed = { listChanged: false };

/** A server for one request, or for one connection, with all that it offers; `callOf` gives what a request acts with. */
export function createMcpServer(
  agents: Iterable<Agent>,
  offer: McpServed,
  callOf: (ctx: ServerContext) => McpCall,
): McpServer {
  const mcp = new McpServer(
    { name: "rivulet", version: "1" },
    {
      instructions:
        "Each tool with the name of an agent runs it and returns its answer. agent_start runs one in the background.",
      capabilities: { tools: fixed, prompts: fixed, resources: fixed },
      inputRequired: { roundTimeoutMs, maxRounds },
      requestState: {
        async verify(sealed: string, ctx: ServerContext) {
          const { services, caller } = callOf(ctx);
          return openState(await stateKeyOf(services.store), caller.userId, sealed);
        },
      },
    },
  );
  addTools(mcp, callOf);
  for (const agent of agents) {
    if (ownTools.has(agent.name)) continue;
    const tool = toolBehind(agent);
    if (tool) addOwnTool(mcp, agent, tool, callOf);
    else addAgentTool(mcp, agent, callOf);
  }
  addDocuments(mcp, offer, callOf);
  if (offer.skills) addSkills(mcp, offer.skills);
  addTasks(mcp, callOf);
  return mcp;
}
