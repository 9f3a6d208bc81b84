import { onMissing } from "../base/error.ts";
import { type ConnectOptions, Server } from "../client/index.ts";
import type { RemoteLink } from "../contract/index.ts";
import type { A2aOptions } from "./a2a/link.ts";
import { AgentScopeLink } from "./agentscope/link.ts";

/** The link to an agent on a server that speaks the AgentScope task protocol. */
export function agentScopeLink(base: string, agentId: string, options: ConnectOptions): RemoteLink {
  return new AgentScopeLink(new Server(base, options), agentId);
}

const sdkPackage = "@a2a-js/sdk";

/** The link to an A2A agent; its first use loads the package of the protocol. */
export function a2aLink(url: string, options: A2aOptions): RemoteLink {
  let loading: Promise<RemoteLink> | undefined;
  const load = () => {
    loading ??= import("./a2a/link.ts").then(
      ({ A2aLink }) => new A2aLink(url, options),
      onMissing("a2a_not_installed", "A2A agents require", sdkPackage),
    );
    return loading;
  };
  return {
    url,
    limits: {},
    start: async (...args) => (await load()).start(...args),
    async *events(...args) {
      yield* (await load()).events(...args);
    },
    answer: async (...args) => (await load()).answer(...args),
    steer: async (...args) => (await load()).steer(...args),
    cancel: async (...args) => (await load()).cancel(...args),
  };
}

export {
  type ChatTransportOptions,
  type RivuletChatTransport,
  rivuletChatTransport,
} from "./ai-sdk/link.ts";
export { type ApprovalDecision, withDecision } from "./ai-sdk/link-messages.ts";
