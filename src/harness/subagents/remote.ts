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
} satisfies Record<string, OpenLink>;

/** Returns the agents of a declaration that names a server; throws for an address that is none. */
export function remoteAgents(declaration: RemoteSubagent): (user: RemoteUser) => Promise<Agent> {
  const { name, displayName = name, budget, limits = {} } = declaration;
  const open = dialects.rivulet;
  open(declaration, fetch); // throws if the address is wrong
  return async ({ userId }) => {
    const user = userId === undefined ? {} : { userId };
    const link = open(declaration, remoteFetch(declaration, user));
    return linkedAgent(displayName, Object.assign(link, { limits, ...(budget && { budget }) }));
  };
}

function openNative({ name, url }: RemoteSubagent, fetch: typeof globalThis.fetch): RemoteLink {
  const { origin, pathname } = new URL(url);
  const [, base, agent] = /^(.*)\/agents\/([^/]+)\/?$/.exec(pathname) ?? [];
  if (agent === undefined) {
    const hint = "Use the address of an agent, such as https://review.example/agents/reviewer.";
    throw invalid(`The subagent ${name} has a url that does not end in /agents/<name>.`, hint);
  }
  return connect(`${origin}${base}`, { fetch }).agent(decodeURIComponent(agent))[remoteLink];
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
