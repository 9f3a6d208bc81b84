import { RivuletError } from "../../base/error.ts";
import { invalid } from "../../base/options.ts";
import { secretsIn, urlSecrets } from "../../base/secrets.ts";
import { type Agent, type RemoteLink, remoteLink } from "../../contract/index.ts";
import type { RemoteSubagent, RemoteUser } from "./declaration.ts";

/** The parts of an address that ends in `/agents/<name>`. */
export interface AgentAddress {
  readonly base: string;
  readonly agent: string;
}

/** Returns the agents of a declaration that names a server; throws for an address that is none. */
export function remoteAgents(declaration: RemoteSubagent): (user: RemoteUser) => Promise<Agent> {
  const { name, displayName = name, budget, limits = {} } = declaration;
  const address = addressOf(declaration);
  return async ({ userId }) => {
    // Few agents have a subagent elsewhere, and what reaches it takes long to load.
    const [{ openLink }, { remoteFetch }] = await Promise.all([
      import("./open-link.ts"),
      import("./remote-fetch.ts"),
    ]);
    const user = userId === undefined ? {} : { userId };
    const sent = new Set(urlSecrets(address.base));
    let secrets = secretsIn(sent);
    const onSecrets = (values: readonly string[]) => {
      if (values.every((value) => sent.has(value))) return;
      for (const value of values) sent.add(value);
      secrets = secretsIn(sent);
    };
    const fetch = remoteFetch(declaration, user, undefined, onSecrets);
    const link = openLink(declaration, address, { fetch, secrets: () => secrets });
    return linkedAgent(displayName, Object.assign(link, { limits, ...(budget && { budget }) }));
  };
}

/** The agent of an AgentScope server may have the name of the declaration; the card of an A2A agent names it. */
function addressOf(declaration: RemoteSubagent): AgentAddress {
  const { name, url, a2a = "", protocol, output } = declaration;
  if (url === undefined) return { base: a2a, agent: name };
  const { origin, pathname } = new URL(url);
  const [, path, agent] = /^(.*)\/agents\/([^/]+)\/?$/.exec(pathname) ?? [];
  if (agent === undefined && protocol !== "agentscope") {
    const hint =
      'Use the address of an agent, such as https://review.example/agents/reviewer, or add protocol: "agentscope" for a server with the AgentScope task protocol.';
    throw invalid(`The subagent ${name} has a url that does not end in /agents/<name>.`, hint);
  }
  if (output !== undefined && protocol === "agentscope") {
    const hint = "Remove output: the AgentScope task protocol returns text.";
    throw invalid(`The subagent ${name} has both output and protocol agentscope.`, hint);
  }
  if (agent === undefined) return { base: `${origin}${pathname}`, agent: name };
  return { base: `${origin}${path}`, agent: decodeURIComponent(agent) };
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
