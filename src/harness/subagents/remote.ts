import { a2aLink, agentScopeLink } from "../../client/foreign-link.ts";
import { connect } from "../../client/index.ts";
import type { Agent } from "../../protocol/agent.ts";
import { RivuletError } from "../../protocol/error.ts";
import { invalid } from "../../protocol/options.ts";
import { type RemoteLink, remoteLink } from "../../protocol/remote-link.ts";
import type { RemoteSubagent, RemoteUser } from "./declaration.ts";
import { remoteFetch } from "./remote-fetch.ts";

/** Opens the link of a declaration; `fetch` reaches only the server of the declaration and sends its headers. */
type OpenLink = (declaration: RemoteSubagent, fetch: typeof globalThis.fetch) => RemoteLink;

/** How to reach the agent behind a declaration, by the protocol that its server speaks. */
const dialects = {
  rivulet: openNative,
  agentscope: openAgentScope,
  a2a: openA2a,
} satisfies Record<string, OpenLink>;

/** Returns the agents of a declaration that names a server; throws for an address that is none. */
export function remoteAgents(declaration: RemoteSubagent): (user: RemoteUser) => Promise<Agent> {
  const { name, displayName = name, budget, limits = {} } = declaration;
  const { protocol = "rivulet" } = declaration;
  const open: OpenLink = dialects[declaration.a2a === undefined ? protocol : "a2a"];
  open(declaration, fetch); // throws if the address is wrong
  return async ({ userId }) => {
    const user = userId === undefined ? {} : { userId };
    const link = open(declaration, remoteFetch(declaration, user));
    return linkedAgent(displayName, Object.assign(link, { limits, ...(budget && { budget }) }));
  };
}

/** The parts of an address that ends in `/agents/<name>`. */
function partsOf(url: string): { readonly base: string; readonly agent?: string } {
  const { origin, pathname } = new URL(url);
  const [, base, agent] = /^(.*)\/agents\/([^/]+)\/?$/.exec(pathname) ?? [];
  if (agent === undefined) return { base: `${origin}${pathname}` };
  return { base: `${origin}${base}`, agent: decodeURIComponent(agent) };
}

function openNative(
  { name, url = "" }: RemoteSubagent,
  fetch: typeof globalThis.fetch,
): RemoteLink {
  const { base, agent } = partsOf(url);
  if (agent === undefined) {
    const hint = "Use the address of an agent, such as https://review.example/agents/reviewer.";
    throw invalid(`The subagent ${name} has a url that does not end in /agents/<name>.`, hint);
  }
  return connect(base, { fetch }).agent(agent)[remoteLink];
}

/** The agent is the one of the address, or has the name of the declaration. */
function openAgentScope(
  { name, url = "", output }: RemoteSubagent,
  fetch: typeof globalThis.fetch,
): RemoteLink {
  if (output !== undefined) {
    const hint = "Remove output: the AgentScope task protocol returns text.";
    throw invalid(`The subagent ${name} has both output and protocol agentscope.`, hint);
  }
  const { base, agent = name } = partsOf(url);
  return agentScopeLink(base, agent, { fetch });
}

function openA2a({ a2a = "", output }: RemoteSubagent, fetch: typeof globalThis.fetch): RemoteLink {
  return a2aLink(a2a, { fetch, wantsValue: output !== undefined });
}

/** An agent on another server that runs only as a subagent. */
function linkedAgent(name: string, link: RemoteLink): Agent {
  const refuse = (): never => {
    throw new RivuletError("only_subagent", `${name} runs only as a subagent.`, {
      hint: "Use connect(url).agent(name) to call an agent on a server.",
    });
  };
  const doors = { run: refuse, stream: refuse, call: refuse, approvals: refuse };
  return Object.assign({ name, ...doors }, { [remoteLink]: link });
}
