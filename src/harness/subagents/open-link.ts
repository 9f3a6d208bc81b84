import { a2aLink, agentScopeLink } from "../../adapters/links.ts";
import { connect, withoutSecrets } from "../../client/index.ts";
import { type RemoteLink, remoteLink } from "../../contract/index.ts";
import type { RemoteSubagent } from "./declaration.ts";
import type { AgentAddress } from "./remote.ts";

/** How a link reaches its server: `fetch` sends the headers, and only there; nothing that comes back has its secrets. */
export interface LinkAccess {
  readonly fetch: typeof globalThis.fetch;
  readonly secrets: () => readonly string[];
}

/** Opens the link to an agent with the protocol of its server. */
export function openLink(
  declaration: RemoteSubagent,
  address: AgentAddress,
  { fetch, secrets }: LinkAccess,
): RemoteLink {
  return withoutSecrets(linkTo(declaration, address, fetch), secrets);
}

function linkTo(
  { a2a, protocol = "rivulet", output }: RemoteSubagent,
  { base, agent }: AgentAddress,
  fetch: typeof globalThis.fetch,
): RemoteLink {
  if (a2a !== undefined) return a2aLink(base, { fetch, wantsValue: output !== undefined });
  if (protocol === "agentscope") return agentScopeLink(base, agent, { fetch });
  return connect(base, { fetch }).agent(agent)[remoteLink];
}
