import { serve } from "../../../src/server.ts";
import { unlimited } from "../../support/unlimited.ts";
import { conformanceAgents, conformancePrompts, conformanceResources } from "./mcp-fixtures.ts";

/** The server that the conformance suite calls: the fixtures behind the adapter. */
export function serveFixtures() {
  return serve({
    agents: conformanceAgents(),
    adapters: ["mcp"],
    mcp: { resources: conformanceResources, prompts: conformancePrompts },
    auth: { authenticate: () => ({ userId: "ann" }) },
    hosts: ["127.0.0.1", "localhost"],
    ...{ log: false, limits: unlimited, port: 0 },
  });
}
