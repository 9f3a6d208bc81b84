import { a2aLink, agentScopeLink } from "../../client/foreign-link.ts";
import { connect } from "../../client/index.ts";
import { type RemoteLink, remoteLink } from "../../protocol/remote-link.ts";
import type { RemoteSubagent } from "./declaration.ts";
import type { AgentAddress } from "./remote.ts";

/** Opens the link to an agent with the protocol of its server; `fetch` reaches only that server and sends the headers. */
export function openLink(
  { a2a, protocol = "rivulet", output }: RemoteSubagent,
  { base, agent }: AgentAddress,
  fetch: typeof globalThis.fetch,
): RemoteLink {
  if (a2a !== undefined) return a2aLink(base, { fetch, wantsValue: output !== undefined });
  if (protocol === "agentscope") return agentScopeLink(base, agent, { fetch });
  return connect(base, { fetch }).agent(agent)[remoteLink];
}
