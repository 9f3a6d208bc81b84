import { RivuletError } from "../protocol/error.ts";

/** Refuses an id that could not be one segment of a path: `session/agent/agent`. */
export function checkAgentId(agentId: unknown): void {
  const isOne = typeof agentId === "string" && agentId !== "" && !agentId.includes("/");
  if (isOne && agentId.length <= 128) return;
  throw new RivuletError("invalid_agent_id", "An agent id has 1 to 128 characters and no slash.", {
    hint: 'For example: agentId: "researcher".',
  });
}
